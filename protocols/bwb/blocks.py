"""The blocks of an entry in style ``full``: paragraphs, leden, lists, tables, headings, one Markdown block each (D32).

An entry's text is its blocks joined by blank lines. Lid and item numbers stand before their first block, as the XML
writes them, and nested items are blocks of their own without indentation, as in style ``article``.
"""

import re
from collections.abc import Callable
from typing import Final

from lxml import etree

from protocols.bwb.classic_inline import is_unmarked
from protocols.bwb.elements import BULLETS, METADATA
from protocols.bwb.inline import INLINE, Entry, content, inline, needs_space, one_line, tail_words
from protocols.bwb.tables import markdown_table
from protocols.bwb.walk import Task, run
from protocols.bwb.xml import own_text, tag_of

_NOTE_AT_START = re.compile(r"\A(\[\^[^\]]*\]):")

Block = Callable[[Entry, etree._Element, list[str]], Task[str]]

_MARKERS: Final = frozenset({"lidnr", "li.nr"})
_PARAGRAPHS: Final = frozenset({"al", "considerans.al", "context.al", "wij", "wie", "noot.al"})
_LINES: Final = frozenset({"ondertekening", "naam", "dagtekening", "koning", "adresregel", "term"})
"""Several elements that a reader expects on one line, although nothing but their layout says so."""


def blocks_of(entry: Entry, element: etree._Element, *, but: etree._Element | None = None) -> list[str]:
    """The blocks of everything below ``element``, without its child ``but`` (a heading that is kept elsewhere)."""
    blocks: list[str] = []
    run(container(entry, element, blocks, but))
    return blocks


def block(entry: Entry, element: etree._Element, blocks: list[str]) -> None:
    """Add the blocks of ``element`` itself."""
    run(_one(entry, element, blocks))


def container(
    entry: Entry, element: etree._Element, blocks: list[str], but: etree._Element | None = None, *, inside: bool = False
) -> Task[str]:
    """Child by child: blocks as such, everything between them as paragraphs.

    ``inside`` says that ``element`` is a paragraph itself, so that what has no rule belongs to its sentence.
    """
    parts = [element.text or ""]
    flowing: bool | None = True if inside else None
    for child in element:
        tag = child.tag
        if child is not but and tag not in METADATA:
            if flowing is None and tag not in _KNOWN:
                flowing = _has_words(element)
            if tag in _PARAGRAPHS and not len(child):
                _flush(parts, blocks)
                _append(blocks, (child.text or "").strip())
            elif tag in _RULES or not (flowing or tag in INLINE):
                _flush(parts, blocks)
                yield _one(entry, child, blocks)
            else:
                text: str = yield inline(entry, child)
                if text:
                    if needs_space(parts[-1] if parts else "", child):
                        parts.append(" ")
                    parts.append(text)
        if tail := tail_words(child):
            parts.append(tail)
    _flush(parts, blocks)
    return ""


def _one(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    rule = _RULES.get(tag_of(element))
    if rule is not None:
        return rule(entry, element, blocks)
    if element.tag in INLINE:
        return _line(entry, element, blocks)
    return container(entry, element, blocks)


def _has_words(element: etree._Element) -> bool:
    if element.text and not element.text.isspace():
        return True
    return any(child.tail and not child.tail.isspace() for child in element)


def _flush(parts: list[str], blocks: list[str]) -> None:
    if parts:
        _append(blocks, "".join(parts).strip())
        parts.clear()


def _append(blocks: list[str], text: str) -> None:
    if text.startswith("[^"):  # a colon right behind a footnote sign would make it the footnote itself
        text = _NOTE_AT_START.sub(r"\1 :", text)
    if text:
        blocks.append(text)


def _paragraph(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    return container(entry, element, blocks, inside=True)


def _line(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    text: str = yield inline(entry, element)
    _append(blocks, " ".join(text.split()))
    return ""


def _marked(entry: Entry, element: etree._Element, blocks: list[str], bullet: str = "") -> Task[str]:
    """A lid or an item: its marker before its first block, or alone when it has no text."""
    marker = element[0] if len(element) and element[0].tag in _MARKERS else None
    start = len(blocks)
    yield container(entry, element, blocks, marker)
    sign = "" if marker is None else own_text(marker) if not len(marker) else one_line(entry, marker)
    if bullet and sign in BULLETS:
        sign = bullet if len(blocks) > start else ""
    _lead(blocks, start, sign)
    return ""


def _lead(blocks: list[str], start: int, sign: str) -> None:
    """Put ``sign`` before the block at ``start``, or on a line of its own where that would break what it leads."""
    if not sign:
        return
    if len(blocks) == start or blocks[start].startswith(("|", "## ", "### ")):
        blocks.insert(start, sign)
    else:
        blocks[start] = f"{sign} {blocks[start]}"


def _definition(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    """Number, term and the first paragraph of its meaning make one block."""
    if _has_words(element):
        return (yield container(entry, element, blocks))  # type: ignore[no-any-return]
    start = len(blocks)
    signs: list[str] = []
    for child in element:
        if child.tag in ("li.nr", "term") and len(blocks) == start:
            words: str = yield content(entry, child)
            signs.append(" ".join(words.split()))
        elif child.tag not in METADATA:
            yield _one(entry, child, blocks)
    _lead(blocks, start, " ".join(filter(None, signs)))
    return ""


def _list(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    bullets = is_unmarked(element) and all(
        own_text(item.find("li.nr")) in BULLETS for item in element.iterchildren("li")
    )
    if bullets and (yield _is_plain_list(element)):
        _append(blocks, (yield _list_text(entry, element, bullets=True)))
        return ""
    if _has_words(element):
        return (yield container(entry, element, blocks))  # type: ignore[no-any-return]
    for child in element:
        if child.tag == "li":
            yield _marked(entry, child, blocks, "-" if bullets else "")
        elif child.tag not in METADATA:
            yield _one(entry, child, blocks)
    return ""


def _is_plain_list(element: etree._Element) -> Task[bool]:
    """Whether a list holds paragraphs and lists of them only, so that it can be kept in one block."""
    if _has_words(element):
        return False
    for item in element:
        if item.tag in METADATA:
            continue
        if item.tag != "li" or _has_words(item):
            return False
        for position, child in enumerate(item):
            if child.tag == "lijst":
                if not (yield _is_plain_list(child)):
                    return False
            elif child.tag == "al":
                if any(part.tag in _RULES for part in child):
                    return False
            elif not (child.tag in METADATA or (child.tag == "li.nr" and position == 0)):
                return False
    return True


def _list_text(entry: Entry, element: etree._Element, *, bullets: bool) -> Task[str]:
    """The text of a plain list in one piece: dash lines, or ``marker text`` in a row."""
    items: list[str] = []
    for item in element.iterchildren("li"):
        parts: list[str] = []
        for child in item:
            if child.tag == "al":
                words: str = yield content(entry, child)
                parts.append(words.strip())
            elif child.tag == "lijst":
                unmarked = child.get("type") == "ongemarkeerd" and is_unmarked(child)
                real = any(own_text(nested.find("li.nr")) not in BULLETS for nested in child.iterchildren("li"))
                parts.append((yield _list_text(entry, child, bullets=unmarked and not real)))
        body = " ".join(filter(None, parts))
        number = item.find("li.nr")
        sign = "-" if bullets else "" if number is None else one_line(entry, number)
        if body:
            items.append(f"{sign} {body}")
        elif not bullets:
            _append(items, sign)
    return "\n".join(items) if bullets else " ".join(items)


def _heading(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    """A sub-heading (tussenkop), or the heading of a part that is no entry of its own."""
    words: str = yield content(entry, element)
    text = " ".join(words.split())
    if text:
        blocks.append(f"{'###' if element.tag == 'tussenkop' else '##'} {text}")
    return ""


def _table(entry: Entry, element: etree._Element, blocks: list[str]) -> Task[str]:
    """Title, Markdown tables and whatever else stands in a ``table``, in its order."""
    _append(blocks, (element.text or "").strip())
    for child in element:
        if child.tag == "tgroup":
            _append(blocks, (yield markdown_table(entry, child, container)))
        elif child.tag == "title":
            words: str = yield content(entry, child)
            title = " ".join(words.split())
            _append(blocks, f"**{title}**" if title and "*" not in title else title)
        elif child.tag not in METADATA:
            yield _one(entry, child, blocks)
        _append(blocks, tail_words(child).strip())
    return ""


_RULES: Final[dict[str, Block]] = {
    **dict.fromkeys(_PARAGRAPHS, _paragraph),
    **dict.fromkeys(_LINES, _line),
    "lid": _marked,
    "li": _marked,
    "definitie-item": _definition,
    "lijst": _list,
    "definitielijst": container,
    "tussenkop": _heading,
    "kop": _heading,
    "table": _table,
    "formule": container,
    "plaatje": container,
    "bijschrift": _line,
}
_KNOWN: Final = frozenset(_RULES) | INLINE
