"""Line filling at 115 columns: the breaks that cost least over the whole paragraph, not the first that fit.

The costs are those of the Rust crate textwrap 0.16.2 with default options, so that texts get the line breaks they have
in existing corpus files. Lines break at single spaces only and never inside a link (D34): every break is cosmetic, and
replacing it by a space gives the text back.

A dynamic programme over all words would be exact and slow. This one is exact and looks only at breaks that can still
beat the greedy filling, which for ordinary prose leaves one or two per line.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush
from math import isqrt
from typing import Final

import attrs

WIDTH: Final = 115

_LINE_COST: Final = 1000
_OVERFLOW_COST: Final = 2500
_SHORT_LAST_LINE_COST: Final = 25
_SHORT_LAST_LINE: Final = WIDTH / 4
_SURE_GAP: Final = 32
"""Two lines whose first leaves a smaller gap than this cannot be beaten by three lines or by an overflow."""
_LINK_TAG: Final = len("__REF000__")
"""The narrowest a reference link counts: the older writer put this tag in its place while filling."""

# Unicode line breaking (UAX #14) forbids a break at a space in few places: before closing and separating punctuation,
# after opening punctuation, between a quotation mark and an opening one, between two em dashes. A space beside another
# space is no break either, because the other one would be lost.
_CLOSING = (
    r"\])}!?;:,./\u037e\u0589\u060c\u2044\u2046\u207e\u208e\u2309\u230b\u232a\u3001\u3002\uff01\uff0c\uff1f\u2060\u200b"
)
_OPENING = r"\[({\u00a1\u00bf\u201a\u201e\u2045\u207d\u208d\u2308\u230a\u2329"
_QUOTING = r"\"'\u00ab\u00bb\u2018\u2019\u201b\u201c\u201d\u201f\u2039\u203a"
_GLUED_SPACE = re.compile(
    rf" (?:(?=[ {_CLOSING}])|(?<=[ {_OPENING}] )|(?<=[{_QUOTING}] )(?=[{_OPENING}])|(?<=\u2014 )(?=\u2014))"
)
_MAY_BE_GLUED = re.compile(rf" (?:[ {_CLOSING}]|(?<=[{_OPENING}{_QUOTING}\u2014] ))")
"""Twice as fast as looking for the thing itself, and nearly always enough."""

_LINK_END = re.compile(r"\](?:(?P<reference>\[ref[0-9]+\])|\([^()\s]*\))")
_NOT_ONE_WIDE = (
    "\u0300-\u036f\u0483-\u0489\u0590-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u231a-\U0010ffff"
)
_ODD = re.compile(f"[{_NOT_ONE_WIDE}]")
_CLUSTER = re.compile(f"[^ ]?[{_NOT_ONE_WIDE}]+")

_UNBREAKABLE: Final = ("| ", "## ", "### ")
"""How rows of Markdown tables and headings start: they end where their line ends."""

# Stand-ins while filling. Text with control characters is never filled, so they cannot be mistaken.
_GLUE: Final = "\x03"
_HEAD: Final = "\x02"
_BODY: Final = "\x01"
_STAND_IN = re.compile(f"{_HEAD}{_BODY}*")


def fill(paragraph: str) -> str:
    """Fill each line of ``paragraph`` on its own; trailing spaces of lines go.

    ``paragraph`` must not hold control characters other than newlines.
    """
    return "\n".join([_fill_line(line) for line in paragraph.split("\n")])


def _fill_line(line: str) -> str:
    line = line.rstrip(" ")
    if line.startswith(_UNBREAKABLE):
        return line
    if len(line) < WIDTH and (line.isascii() or len(line.encode()) < WIDTH):
        return line
    mask, originals = _masked(line)
    if len(mask) <= WIDTH:
        return line
    filled = "\n".join(_least_cost_lines(mask))
    if originals:
        remaining = iter(originals)
        filled = _STAND_IN.sub(lambda _: next(remaining), filled)
    return filled.replace(_GLUE, " ")


def _masked(line: str) -> tuple[str, list[str]]:
    """``line`` as the filler measures it, one character a column, and the originals of its stand-ins in order.

    A link becomes one unbreakable word: a reference link as wide as its bytes, an inline one as its columns.
    """
    originals: list[str] = []
    odd = not line.isascii() and _ODD.search(line) is not None

    def stand_in(original: str, width: int) -> str:
        originals.append(original)
        return _HEAD + _BODY * (width - 1)

    def plain(text: str) -> str:
        if not odd:
            return text
        return _CLUSTER.sub(lambda match: stand_in(match[0], max(1, _columns(match[0]))), text)

    has_links = "](" in line or "][ref" in line
    mask = _without_links(line, plain, stand_in) if has_links else plain(line)
    if _MAY_BE_GLUED.search(mask):
        mask = _GLUED_SPACE.sub(_GLUE, mask)
    return mask, originals


def _without_links(line: str, plain: Callable[[str], str], stand_in: Callable[[str, int], str]) -> str:
    """Found from the end of a link backwards: linear even in a line that is nothing but brackets."""
    pieces: list[str] = []
    done = searched = 0
    for match in _LINK_END.finditer(line):
        close = match.start()
        start = line.find("[", max(searched, line.rfind("]", searched, close) + 1), close)
        searched = close
        if start < 0 or start + 1 == close:
            continue
        link = line[start : match.end()]
        pieces.append(plain(line[done:start]))
        wide = max(_LINK_TAG, len(link.encode())) if match["reference"] else _columns(link)
        pieces.append(stand_in(link, wide))
        done = searched = match.end()
    pieces.append(plain(line[done:]))
    return "".join(pieces)


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(map(_char_columns, text))


def _char_columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0 if char != "\u00ad" else 1
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _least_cost_lines(mask: str) -> list[str]:
    """``mask``, which is wider than one line, cut at the spaces where the sum of all line costs is least.

    Of equally cheap ways the one with the earliest break before each line wins, as in the crate.
    """
    bound, first_gap = _greedy_cost(mask)
    if first_gap < _SURE_GAP and bound == 2 * _LINE_COST + first_gap**2:
        end = WIDTH - first_gap
        return [mask[:end], mask[end + 1 :]]
    floor = _Floor(mask, has_overflow=bound >= _OVERFLOW_COST)
    cheapest: dict[int, int] = {0: 0}
    came_from: dict[int, int] = {}
    total, last_start = bound + 1, 0
    starts = [0]
    while starts:
        start = heappop(starts)
        if cheapest[start] + floor.of(start) > bound:
            continue
        spent = cheapest[start] + _LINE_COST
        whole = spent + _last_line_cost(mask, start)
        if whole < total:
            total, last_start = whole, start
        for end, cost in _line_ends(mask, start, spent, bound - spent - floor.of(start + WIDTH + 1)):
            known = cheapest.get(end + 1)
            if known is None:
                heappush(starts, end + 1)
            elif known <= cost:
                continue
            cheapest[end + 1] = cost
            came_from[end + 1] = start
    lines = [mask[last_start:]]
    while last_start:
        previous = came_from[last_start]
        lines.append(mask[previous : last_start - 1])
        last_start = previous
    return lines[::-1]


def _line_ends(mask: str, start: int, spent: int, slack: int) -> list[tuple[int, int]]:
    """The spaces where a line from ``start`` may end, with the cost so far.

    ``slack`` is what the line may cost beyond ``_LINE_COST`` if the rest costs as little as it can after a full line.
    """
    found: list[tuple[int, int]] = []
    limit = start + WIDTH
    if slack < 0 or limit >= len(mask):
        return found
    earliest = max(start + 1, limit - isqrt(slack))
    end = mask.rfind(" ", earliest, limit + 1)
    while end > 0:
        found.append((end, spent + (limit - end) ** 2))
        end = mask.rfind(" ", earliest, end)
    # An overflow of n columns saves less than n full lines would cost, so this slack holds for it with room to spare.
    latest = limit + (slack + _LINE_COST) // _OVERFLOW_COST * 2
    end = mask.find(" ", limit + 1, latest + 1)
    while end > 0:
        found.append((end, spent + (end - limit) * _OVERFLOW_COST))
        end = mask.find(" ", end + 1, latest + 1)
    return found


@attrs.define(init=False)
class _Floor:
    """What the rest of a text costs at least, from a given place on: full lines, and words wider than a line."""

    size: int
    wide_at: list[int]
    overflow_from: list[int]

    def __init__(self, mask: str, *, has_overflow: bool) -> None:
        self.size = len(mask)
        self.wide_at = []
        overflows: list[int] = []
        if has_overflow:
            for match in re.finditer(rf"[^ ]{{{WIDTH + 1},}}", mask):
                self.wide_at.append(match.start())
                overflows.append(match.end() - match.start() - WIDTH)
        self.overflow_from = [0]
        for overflow in reversed(overflows):
            self.overflow_from.append(self.overflow_from[-1] + overflow)
        self.overflow_from.reverse()

    def of(self, start: int) -> int:
        overflow = self.overflow_from[bisect_left(self.wide_at, start)] if self.wide_at else 0
        columns = self.size - start - overflow
        return (columns + 1 + WIDTH) // (WIDTH + 1) * _LINE_COST + overflow * _OVERFLOW_COST


def _greedy_cost(mask: str) -> tuple[int, int]:
    """The cost of taking every break as late as it fits, which any other way has to beat, and the first line's gap."""
    start = cost = 0
    first_gap = WIDTH
    while len(mask) - start > WIDTH:
        end = mask.rfind(" ", start + 1, start + WIDTH + 1)
        if end < 0:
            end = mask.find(" ", start + WIDTH + 1)
            if end < 0:
                break
            cost += _LINE_COST + (end - start - WIDTH) * _OVERFLOW_COST
        else:
            cost += _LINE_COST + (start + WIDTH - end) ** 2
            if not start:
                first_gap = WIDTH - end
        start = end + 1
    return cost + _LINE_COST + _last_line_cost(mask, start), first_gap


def _last_line_cost(mask: str, start: int) -> int:
    width = len(mask) - start
    if width > WIDTH:
        return (width - WIDTH) * _OVERFLOW_COST
    return _SHORT_LAST_LINE_COST if width < _SHORT_LAST_LINE and mask.find(" ", start) < 0 else 0
