"""Which entries of a law one run may touch, and how a window is cut into slices (D40, ``enrich.md`` 5.1).

Windows follow document order and a cursor that the worker owns. "The next entries without a model" would not do:
definitions and transitional law may never get one, so such a rule would visit them for ever. With a cursor, a law of N
entries ends after at most ceil(N / limit) successful runs, whatever the model does: each success moves the cursor by
the whole window, and a failure does not move it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from protocols.lawtree import top_article

DEFAULT_LIMIT: Final = 15
"""``ENRICH_MAX_ARTICLES_PER_RUN``."""

_NUMBER: Final = r"\d+[0-9a-z]*(?:[:.][0-9a-z]+)*"
_CITATION: Final = re.compile(
    rf"\bartikel(?:en)?\s+(?P<list>{_NUMBER}(?:(?:\s*,\s*|\s+(?:en|of|tot en met|dan wel)\s+){_NUMBER})*)"
    r"(?P<other>(?:,?\s+(?:eerste|tweede|derde|vierde|vijfde|\w+de|\w+ste)\s+lid|,?\s+(?:onder|aanhef|onderdeel|sub)"
    r"[^,;.]{0,40})*,?\s+van\s+(?:de|het)\s+(?!onderhavige))?",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(rf"(?P<first>{_NUMBER})\s+tot en met\s+(?P<last>{_NUMBER})", re.IGNORECASE)


@frozen
class Cursor:
    """Where the next window of a law begins: ``position`` entries are done of the file at ``path``."""

    position: int = 0
    path: str = ""


@frozen
class Window:
    """Entries ``start`` to ``end`` (exclusive) of ``total``. ``windowed`` False: the whole law in one run.

    ``chosen``: entries that a person picked, by position, beside the walk: the cursor stands still at ``start``.
    """

    start: int
    end: int
    total: int
    windowed: bool = True
    chosen: tuple[int, ...] | None = None

    @property
    def positions(self) -> Sequence[int]:
        return range(self.start, self.end) if self.chosen is None else self.chosen

    @property
    def first(self) -> bool:
        """Whether the walk through the law begins with this window."""
        return self.start == 0 and self.chosen is None

    @property
    def law_complete(self) -> bool:
        """Whether nothing of the law is left after this window."""
        return self.chosen is None and self.end >= self.total

    @property
    def empty(self) -> bool:
        """Nothing to translate: no agent is called for it."""
        return not self.positions

    @property
    def next_position(self) -> int:
        """The cursor after a successful run; a law in one run has none."""
        return self.end if self.windowed else 0


def plan_window(limit: int, total: int, cursor: Cursor | None, path: str) -> Window:
    """The window of this run. ``limit`` 0: the whole law. A cursor of another file, or beyond the end, starts anew."""
    if limit <= 0:
        return Window(0, total, total, windowed=False)
    start = _stands_at(cursor, total, path)
    return Window(start, min(start + limit, total), total)


def chosen_window(positions: Sequence[int], total: int, cursor: Cursor | None, path: str) -> Window:
    """A window of these entries, whatever the walk has done; it goes on afterwards where it stands."""
    start = _stands_at(cursor, total, path)
    return Window(start, start, total, chosen=tuple(positions))


def _stands_at(cursor: Cursor | None, total: int, path: str) -> int:
    return cursor.position if cursor is not None and cursor.path == path and 0 <= cursor.position <= total else 0


def slices(entries: Sequence[tuple[str, str]], count: int) -> tuple[tuple[int, ...], ...]:
    """The (number, text) entries of a window as at most ``count`` slices of indices, none of them empty.

    An article is never split, and articles that refer to each other, directly or over others, stay together: two agents
    would give one concept two names. The largest groups are placed first, each on the smallest slice.
    """
    groups = _related_groups(entries)
    if count <= 1 or len(groups) <= 1:
        return (tuple(range(len(entries))),) if entries else ()
    parts: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups, key=lambda group: (-len(group), group[0])):
        min(parts, key=len).extend(group)
    return tuple(sorted(tuple(sorted(part)) for part in parts))


def _related_groups(entries: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Indices by connected articles, in document order."""
    tops = list(dict.fromkeys(top_article(number) for number, _ in entries))
    leader = {top: top for top in tops}

    def lead(top: str) -> str:
        while leader[top] != top:
            top = leader[top]
        return top

    for number, text in entries:
        for cited in cited_articles(text, tops):
            leader[lead(cited)] = lead(top_article(number))
    groups: dict[str, list[int]] = {}
    for index, (number, _) in enumerate(entries):
        groups.setdefault(lead(top_article(number)), []).append(index)
    return list(groups.values())


def cited_articles(text: str, tops: Sequence[str]) -> Iterator[str]:
    """Those of the law's own articles ``tops`` that a text cites; a citation of another law is none.

    Errs towards citing: one relation too many only makes a slice larger.
    """
    known = {top.casefold(): position for position, top in enumerate(tops)}
    for citation in _CITATION.finditer(text):
        if citation["other"]:
            continue
        for span in _RANGE.finditer(citation["list"]):
            first, last = (known.get(top_article(span[end]).casefold()) for end in ("first", "last"))
            if first is not None and last is not None:
                yield from tops[first : last + 1]
        for number in re.findall(_NUMBER, citation["list"], re.IGNORECASE):
            position = known.get(top_article(number).casefold())
            if position is not None:
                yield tops[position]
