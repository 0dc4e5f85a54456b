"""The output side of the loss measure: a loaded law file as streams of text that are read once, from front to back."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lxml import etree

from protocols.bwb.loss_pieces import Piece, bare

_NEAR: Final = 40
"""How many characters that are not in the text (a number, a word like "vervallen") may stand before the next piece."""
_NEAR_MARKS: Final = 2000
"""The same with Markdown counted: link targets, table rules, picture names."""
_LONG: Final = 16
_FAR: Final = 20_000
"""A piece of at least ``_LONG`` characters is also looked for this far ahead: it cannot be found there by chance."""
_DEFINITION: Final = re.compile(r"\[ref[0-9]+\]: http")
_NOTE: Final = re.compile(r"\[\^[^\]]*\]: ")
_AHEAD: Final = 300
"""How many entries further the entry of an article is looked for; leaf style makes many of one."""
_MARKS: Final = re.compile(
    r"\[afbeelding:[^\]]*\]|\]\[ref[0-9]+\]|\]\([^()]*(?:\([^()]*\)[^()]*)*\)|\[\^[^\]]*\]:?|\[formule:?"
    r"|</?su[bp]>|<br>|-{3,}|[\[\]*|#←↑√]"
)


class _Stream:
    """A run of output text that is read once, from the start to the end."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.text = "".join(map(bare, parts))
        self.at = 0
        self._words = _Words(self.text)

    def finds(self, *forms: str, stay: bool = False) -> bool:
        """Whether one of ``forms`` comes next, a few marks aside; and moves behind the first, unless told to ``stay``."""
        places = [(self.text.find(form, self.at, self.at + _NEAR_MARKS + len(form)), -len(form)) for form in forms]
        place, size = min((found for found in places if found[0] >= 0), default=(-1, 0))
        if place < 0 or self._words.before(place) - self._words.before(self.at) > _NEAR:
            return False
        if not stay:
            self.at = place - size
        return True

    def finds_far(self, wanted: str) -> bool:
        """Whether ``wanted`` comes later on; and moves behind it."""
        found = self.text.find(wanted, self.at, self.at + _FAR + len(wanted))
        if found < 0:
            return False
        self.at = found + len(wanted)
        return True


class _Words:
    """How many characters before a position are words and not Markdown."""

    def __init__(self, text: str) -> None:
        self._starts, self._ends, self._marks = [0], [0], [0]
        for match in _MARKS.finditer(text):
            start, end = match.span()
            self._starts.append(start)
            self._ends.append(end)
            self._marks.append(self._marks[-1] + end - start)

    def before(self, position: int) -> int:
        last = bisect_right(self._starts, position) - 1
        return position - self._marks[last] + max(self._ends[last] - position, 0)


class Output:
    """The texts of a law file as streams, one per part of the law that has an order of its own."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self.entry = -1
        self.entries: list[tuple[str, int]] = []
        text, notes = self._articles(loaded)
        self.streams = {
            "title": _Stream([str(loaded.get("officiele_titel") or "")]),
            "name": _Stream([str(loaded.get("name") or "")]),
            "structure": _Stream(list(_structure(loaded.get("structure") or ()))),
            "body": _Stream(text),
            "body notes": _Stream(notes),
        }
        for key in ("preamble", "closing"):
            text, notes = _text_and_notes([str((loaded.get(key) or {}).get("text") or "")])
            self.streams[key], self.streams[f"{key} notes"] = _Stream(text), _Stream(notes)
        for position, annex in enumerate(loaded.get("annexes") or ()):
            heading = [
                str(annex.get(key) or "") for key in ("number", "title")
            ]  # a title is no footnote, whatever its signs
            text, notes = _text_and_notes([str(annex.get("text") or "")])
            self.streams[f"annex {position}"] = _Stream([*heading, *text])
            self.streams[f"annex {position} notes"] = _Stream(notes)
        self.characters = sum(len(stream.text) for stream in self.streams.values())

    def _articles(self, loaded: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """All articles as one text; where each begins in it goes into ``entries``."""
        texts: list[str] = []
        all_notes: list[str] = []
        length = 0
        for article in loaded.get("articles") or ():
            number = bare(str(article.get("number") or ""))
            text, notes = _text_and_notes([number, str(article.get("text") or "")])
            squeezed = bare("".join(text))
            self.entries.append((number, length))
            length += len(squeezed)
            texts.append(squeezed)
            all_notes += notes
        return texts, all_notes

    def enter(self, number: str) -> None:
        """Move to the next entry of the article ``number``, when there is one."""
        forms = {number, *_cleaned(number)}
        for index in range(self.entry + 1, min(self.entry + 1 + _AHEAD, len(self.entries))):
            found, start = self.entries[index]
            own = found.partition(":")[2] or found
            if own in forms or any(form and own.startswith(f"{form}.") for form in forms):
                self.entry, self.streams["body"].at = index, start
                return

    def finds(self, piece: Piece) -> bool:
        """Look where the piece belongs, near the last one found there; then further on; then as a cleaned number."""
        names = self._names(piece)
        if _is_before_number(piece):  # and behind it in the file
            return any(self.streams[name].finds(piece.text, stay=True) for name in names)
        forms = [piece.text, *_cleaned(piece.text)] if piece.in_heading else [piece.text]
        if _stands_twice(piece):
            found = [self.streams[name].finds(*forms) for name in names[:2]]
            if found[-1]:
                return True
        elif any(self.streams[name].finds(*forms) for name in names):
            return True
        return len(piece.text) >= _LONG and any(self.streams[name].finds_far(piece.text) for name in names)

    def _names(self, piece: Piece) -> list[str]:
        own = {"annex": f"annex {piece.annex}", "article": "body"}.get(piece.region, piece.region)
        order = [own, "body"]
        owner = _owner(piece) if piece.in_heading else None
        if owner is not None and (owner.tag != "bijlage" or _has_articles(owner)):
            order = ["structure", *order]
        if piece.in_note and not piece.in_heading:  # notes of a heading stand in it
            order = [f"{name} notes" for name in order if f"{name} notes" in self.streams] + order
        return [name for name in dict.fromkeys(order) if name in self.streams]


def _text_and_notes(parts: Iterator[str] | Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts without their link definitions, and the footnotes that stood at their ends."""
    text: list[str] = []
    notes: list[str] = []
    for part in parts:
        in_note = False
        for line in part.split("\n"):
            if _DEFINITION.match(line):
                continue
            if _NOTE.match(line):
                in_note = True
                notes.append(line)
            elif in_note and line:
                notes.append(line)
            else:
                in_note = False
                text.append(line)
    return text, notes


def _structure(divisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: list[Any] = list(reversed(divisions))
    while waiting:
        division = waiting.pop()
        yield from (str(division.get(key) or "") for key in ("number", "title"))
        for entry in division.get("articles") or ():
            if isinstance(entry, Mapping):
                yield from (str(entry.get(key) or "") for key in ("number", "title"))
            else:
                yield str(entry)
        waiting += reversed(division.get("children") or ())


def _cleaned(number: str) -> list[str]:
    """How a number may stand in the file: without its last dot or degree sign, an asterisk spelled out."""
    bare = number[:-1] if number[-1:] in (".", "°") else number
    return [form for form in (bare, f"{bare[:-1]}_bis" if bare.endswith("*") else "") if form and form != number]


def _owner(piece: Piece) -> etree._Element | None:
    """What the heading around ``piece`` is the heading of."""
    kop = next(piece.element.iterancestors("kop"), piece.element)
    return kop.getparent()


def _is_before_number(piece: Piece) -> bool:
    """Whether this is the label of a heading that has a number too."""
    kop = piece.element.getparent()
    return piece.in_heading and piece.element.tag == "label" and kop is not None and kop.find("nr") is not None


def _stands_twice(piece: Piece) -> bool:
    """Whether a heading is in the structure and in its own entry: both have to be read past it, the entry must have it."""
    owner = _owner(piece) if piece.in_heading else None
    if owner is None:
        return False
    if owner.tag in ("artikel", "wijzig-artikel"):
        return piece.element.tag == "nr"
    return owner.tag == "bijlage" and _has_articles(owner)


def _has_articles(element: etree._Element) -> bool:
    return next(element.iter("artikel", "wijzig-artikel"), None) is not None
