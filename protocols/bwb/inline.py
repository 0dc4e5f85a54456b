"""Text of an element in style ``full``: every visible word, with Markdown for what is more than words (D32).

Where an element is one that the older converter handles without loss, the result is the same as its (D31).
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from lxml import etree

from protocols.bwb.elements import ANNEXES, ARTICLES, METADATA
from protocols.bwb.formulas import formula_line
from protocols.bwb.references import Collector, exact_citation
from protocols.bwb.scripts import subscript, superscript
from protocols.bwb.walk import Task, run
from protocols.bwb.xml import tag_of

Step = Task[str] | str

_TIGHT: Final = frozenset({"nadruk", "sup", "sub", "inf", "extref", "intref", "noot", "nootref"})
"""Elements inside a word or sentence. Between two others a space is put where the XML has nothing."""


class Entry:
    """What is collected while one entry (an article, an annex, ...) is read.

    ``plain`` is for titles and numbers: words without emphasis and links, notes in brackets where they stand.
    ``notes`` are the footnotes, each a block for the end of the entry. ``labels`` names the notes of the whole text.
    """

    def __init__(self, labels: "NoteLabels", *, plain: bool = False) -> None:
        self.labels = labels
        self.plain = plain
        self.references = Collector()
        self.notes: list[str] = []
        self.link_depth = 0


class NoteLabels:
    """The Markdown label of every footnote (``noot``): its own mark, made unique within its article or annex."""

    def __init__(self, root: etree._Element) -> None:
        self._by_note: dict[etree._Element, str] = {}
        self._by_id: dict[str, str] = {}
        taken: dict[etree._Element | None, dict[str, int]] = {}
        for note in root.iter("noot"):
            wanted = _label_of(note)
            holder = next(note.iterancestors(*ARTICLES, *ANNEXES), None)
            counts = taken.setdefault(holder, {})
            counts[wanted] = counts.get(wanted, 0) + 1
            label = wanted if counts[wanted] == 1 else f"{wanted}-{counts[wanted]}"
            self._by_note[note] = label
            self._by_id.setdefault(note.get("id", ""), label)

    def of(self, note: etree._Element) -> str:
        """The label of a ``noot``."""
        return self._by_note.get(note) or _label_of(note)

    def with_id(self, note_id: str) -> str | None:
        """The label of the note that a ``nootref`` points at, ``None`` when there is none."""
        return self._by_id.get(note_id) if note_id else None


def _label_of(note: etree._Element) -> str:
    mark = _mark_of(note)
    return "".join(char for char in mark if char not in "[]^\\" and not char.isspace()) or "noot"


def _mark_of(note: etree._Element) -> str:
    number = note.find("noot.nr")
    return "" if number is None else " ".join("".join(number.itertext()).split())


def one_line(entry: Entry, element: etree._Element | None) -> str:
    """The words of an element on one line, trimmed; empty for an absent one."""
    if element is None:
        return ""
    step = content(entry, element)
    return " ".join((step if isinstance(step, str) else run(step)).split())


def content(entry: Entry, element: etree._Element) -> Step:
    """What stands between the tags of ``element``, not trimmed."""
    return _mixed_content(entry, element) if len(element) else (element.text or "")


def inline(entry: Entry, element: etree._Element) -> Step:
    """``element`` with the marks it needs, not trimmed; an unknown element is its content."""
    rule = _RULES.get(tag_of(element))
    return content(entry, element) if rule is None else rule(entry, element)


def tail_words(element: etree._Element) -> str:
    """The text after ``element``; white space alone is one space."""
    tail = element.tail
    if not tail:
        return ""
    return " " if tail.isspace() else tail


def _mixed_content(entry: Entry, element: etree._Element) -> Task[str]:
    parts = [element.text or ""]
    for child in element:
        if child.tag not in METADATA:
            text: str = yield inline(entry, child)
            if text:
                if needs_space(parts[-1], child):
                    parts.append(" ")
                parts.append(text)
        if tail := tail_words(child):
            parts.append(tail)
    return "".join(parts)


def needs_space(before: str, child: etree._Element) -> bool:
    """Whether the words of ``child`` would stick to ``before`` although the XML holds them apart."""
    if not before or before[-1].isspace():
        return False
    if child.tag == "redactie":
        return before[-1].isalnum()
    previous = child.getprevious()
    if previous is None or previous.tail or previous.tag in METADATA:
        return False
    return child.tag not in _TIGHT or previous.tag not in _TIGHT


def _emphasis(entry: Entry, element: etree._Element) -> Task[str]:
    words: str = yield content(entry, element)
    core = words.strip()
    if entry.plain or not core:
        return words
    mark = "**" if element.get("type") == "vet" else "*"
    before = " " if words[0].isspace() else ""
    after = " " if words[-1].isspace() else ""
    return f"{before}{mark}{core}{mark}{after}"


def _superscript(entry: Entry, element: etree._Element) -> Task[str]:
    return superscript((yield content(entry, element)))


def _subscript(entry: Entry, element: etree._Element) -> Task[str]:
    return subscript((yield content(entry, element)))


_IN_TARGETS: Final = ":/?#@!$&'*+,;=%~|"
"""What a target keeps as it is; a bracket or a space in it would end the link for whoever reads Markdown."""


def _link(entry: Entry, element: etree._Element) -> Step:
    """A link inside a link is recorded, but Markdown can only show the outer one."""
    if entry.plain:
        return content(entry, element)
    citation = exact_citation(element)
    name = "" if citation is None else entry.references.add(*citation)
    return (
        _link_of_elements(entry, element, name) if len(element) else _linked(entry, element, element.text or "", name)
    )


def _link_of_elements(entry: Entry, element: etree._Element, name: str) -> Task[str]:
    entry.link_depth += 1
    words: str = yield _mixed_content(entry, element)
    entry.link_depth -= 1
    return _linked(entry, element, words, name)


def _linked(entry: Entry, element: etree._Element, words: str, name: str) -> str:
    doc = element.get("doc", "")
    if entry.link_depth or not (name or doc):
        return words
    if "[" in words or "]" in words:
        words = words.replace("[", "\\[").replace("]", "\\]")
    return f"[{words}][{name}]" if name else f"[{words}]({quote(doc, safe=_IN_TARGETS)})"


def _editorial(entry: Entry, element: etree._Element) -> Task[str]:
    """Words of the editors, not of the legislator: "Vervallen", "per 1 januari 2009: 5 procent". In brackets."""
    words: str = yield content(entry, element)
    core = words.strip()
    return core if not core or (core[0] == "[" and core[-1] == "]") else f"[{core}]"


def _note(entry: Entry, note: etree._Element) -> Task[str]:
    mark, label = _mark_of(note), entry.labels.of(note)
    parts: list[str] = []
    for child in note:
        if child.tag not in METADATA and child.tag != "noot.nr":
            parts.append((yield inline(entry, child)))
        parts.append(tail_words(child) or " ")
    words = " ".join(f"{note.text or ''} {''.join(parts)}".split())
    if entry.plain:
        return f" ({mark} {words})" if mark else f" ({words})"
    shown = f"{mark} {words}" if mark and not label.startswith(mark) else words
    entry.notes.append(f"[^{label}]: {shown}")
    return f"[^{label}]"


def _note_reference(entry: Entry, element: etree._Element) -> Task[str]:
    words: str = yield content(entry, element)
    label = entry.labels.with_id(element.get("refid", ""))
    return words if label is None else f"{words}[^{label}]"


def _picture(_entry: Entry, element: etree._Element) -> str:
    """A placeholder: what the picture shows, where the XML says so, and the name of its file."""
    name = element.get("naam") or element.get("id") or element.get("bin-id") or "zonder naam"
    shown = element.get("alt") or element.get("titel") or ""
    words = f"{shown} ({name})" if shown else name
    placeholder = " ".join(words.replace("[", "(").replace("]", ")").split())
    return f"[afbeelding: {placeholder}]"


def _illustration(entry: Entry, element: etree._Element) -> Task[str]:
    words: str = yield content(entry, element)
    return f"{_picture(entry, element)} {words}".strip() if words.strip() else _picture(entry, element)


def _formula(_entry: Entry, element: etree._Element) -> str:
    line = formula_line(element)
    if not line:
        line = " ".join(element.get("alttext", "").split())
    return f"[formule: {line}]" if line else "[formule]"


_RULES: Final[dict[str, Callable[[Entry, etree._Element], Step]]] = {
    "nadruk": _emphasis,
    "sup": _superscript,
    "sub": _subscript,
    "inf": _subscript,
    "extref": _link,
    "intref": _link,
    "redactie": _editorial,
    "noot": _note,
    "nootref": _note_reference,
    "illustratie": _illustration,
    "math": _formula,
}
INLINE: Final = frozenset(_RULES) | {"formule-klein"}
