"""The styles ``article`` and ``leaf``: which parts of a toestand become entries (``harvester.md`` 8, 10.4-10.6, 12).

One entry per ``artikel``, or one per lid and item in leaf style, and the preamble. Everything else is left out.
"""

from collections.abc import Iterable, Iterator
from datetime import date

import attrs
from lxml import etree

from protocols.bwb.classic_inline import ClassicText, is_unmarked, plain_text
from protocols.bwb.elements import METADATA
from protocols.bwb.numbers import annex_prefix, article_number, clean_number, written_number
from protocols.bwb.walk import Task, run
from protocols.bwb.xml import own_text, tag_of
from protocols.law import Article, Preamble, with_definitions
from protocols.law_ids import anchor_url

_STRUCTURE = {"artikel": ("lid", "lijst"), "lid": ("lijst",), "lijst": ("li",), "li": ("lijst",)}
"""Leaf style: what an element is split into, first match first."""


@attrs.frozen
class Entries:
    """The articles of a text and the warnings about them, in document order."""

    articles: tuple[Article, ...]
    warnings: tuple[str, ...]


def entries(root: etree._Element, bwb_id: str, day: date, *, leaf: bool) -> Entries:
    """Convert every ``artikel`` below ``root``; one without any number is left out."""
    articles: list[Article] = []
    warnings: list[str] = []
    for element in root.iter("artikel"):
        written = written_number(element)
        if written is None:
            continue
        url = anchor_url(bwb_id, day, article=written)
        number = annex_prefix(element) + article_number(element)
        texts = _leaf_texts(element, number) if leaf else ((number, _whole_text(element)),)
        for name, (text, extraction) in texts:
            warnings += [f"Article {number}: {warning}" for warning in extraction.warnings]
            if text:
                references = tuple(extraction.references.references)
                articles.append(Article(name, with_definitions(text, references), url, references))
    return Entries(tuple(articles), tuple(warnings))


def preamble(root: etree._Element, bwb_id: str, day: date) -> Preamble | None:
    """The first ``aanhef``: opening, considerations and proclamation as plain words, without links."""
    element = next(root.iter("aanhef"), None)
    if element is None:
        return None
    parts = [own_text(element.find("wij"))]
    considerations, proclamation = element.find("considerans"), element.find("afkondiging")
    if considerations is not None:
        parts += [plain_text(part) for part in considerations.iter("considerans.al")]
    if proclamation is not None:
        parts += [plain_text(part) for part in proclamation.iterchildren("al")]
    text = "\n\n".join(filter(None, parts))
    return Preamble(text, anchor_url(bwb_id, day, article="Aanhef")) if text else None


def _whole_text(element: etree._Element) -> tuple[str, ClassicText]:
    extraction = ClassicText()
    if element.find("tussenkop") is not None:
        return _versions_text(element, extraction), extraction
    blocks: list[str] = []
    run(_children_blocks(element, extraction, blocks))
    return "\n\n".join(blocks).strip(), extraction


def _children_blocks(
    element: etree._Element, extraction: ClassicText, blocks: list[str], but: str = "kop"
) -> Task[str]:
    for child in element:
        tag = child.tag
        if tag == but or tag in METADATA or tag in ("redactie", "tussenkop"):
            continue
        if tag == "lid":
            yield _marked_blocks(child, "lidnr", extraction, blocks)
        elif tag == "li":
            yield _marked_blocks(child, "li.nr", extraction, blocks)
        elif tag != "lijst":
            _append(blocks, extraction.inline(child))
        elif is_unmarked(child):
            _append(blocks, extraction.list_text(child))
        else:
            for item in child.iterchildren("li"):
                yield _marked_blocks(item, "li.nr", extraction, blocks)
    return ""


def _marked_blocks(element: etree._Element, marker_tag: str, extraction: ClassicText, blocks: list[str]) -> Task[str]:
    """A lid or an item: its marker stands before its first block, or alone when it has no text."""
    start = len(blocks)
    yield _children_blocks(element, extraction, blocks, but=marker_tag)
    marker = own_text(element.find(marker_tag))
    if len(blocks) == start:
        _append(blocks, marker)
    elif marker:
        blocks[start] = f"{marker} {blocks[start]}"
    return ""


def _append(blocks: list[str], text: str) -> None:
    if text:
        blocks.append(text)


def _versions_text(element: etree._Element, extraction: ClassicText) -> str:
    """An article with sub-headings: several versions of it in one entry, lists running inline (10.5)."""
    texts = [run(_version_part(child, extraction)) for child in element if child.tag != "kop"]
    return "\n\n".join(filter(None, texts)).strip()


def _version_part(element: etree._Element, extraction: ClassicText) -> Task[str]:
    tag = element.tag
    if tag in METADATA or tag in ("redactie", "tussenkop"):
        return ""
    if tag in ("lid", "li"):
        marker_tag = "lidnr" if tag == "lid" else "li.nr"
        marker = element.find(marker_tag)
        parts = [] if marker is None else [own_text(marker)]
        for child in element:
            if child.tag != marker_tag:
                part: str = yield _version_part(child, extraction)
                if part:
                    parts.append(part)
        return " ".join(parts)
    if tag == "lijst":
        items: list[str] = []
        for item in element.iterchildren("li"):
            text: str = yield _version_part(item, extraction)
            if text:
                items.append(text)
        return " ".join(items)
    return extraction.inline(element)


Leaf = tuple[str, tuple[str, ClassicText]]


def _leaf_texts(article: etree._Element, number: str) -> Iterator[Leaf]:
    if article.find("tussenkop") is not None:
        yield number, _whole_text(article)
        return
    found: list[Leaf] = []
    run(_leaf_split(article, number, found))
    yield from found


def _leaf_split(element: etree._Element, number: str, found: list[Leaf]) -> Task[str]:
    parts = _structural_children(element)
    if not parts and element.tag != "lijst":
        found.append((number, _joined(_content(element), ClassicText())))
    elif element.tag != "lijst":
        before = (child for child in _until(element, parts[0]) if child.tag == "al")
        found.append((number, _joined(before, ClassicText())))
    for part in parts:
        yield _leaf_split(part, _below(number, part), found)
    return ""


def _structural_children(element: etree._Element) -> list[etree._Element]:
    for tag in _STRUCTURE.get(tag_of(element), ()):
        children = element.findall(tag)
        if tag == "lijst" and len(children) > 1:
            return []
        if children and not (tag == "lijst" and is_unmarked(children[0])):
            return children
    return []


def _below(number: str, part: etree._Element) -> str:
    source = {"lid": "lidnr", "li": "li.nr"}.get(tag_of(part))
    own = clean_number(own_text(part.find(source))) if source else ""
    return f"{number}.{own}" if own else number


def _until(element: etree._Element, stop: etree._Element) -> Iterator[etree._Element]:
    for child in element:
        if child is stop:
            return
        yield child


def _content(element: etree._Element) -> Iterator[etree._Element]:
    """What a leaf joins: all but headings, markers and what would have been split off."""
    own = {"kop", "lidnr", "li.nr", "redactie", "tussenkop", "lid", "li"} | METADATA
    return (child for child in element if child.tag not in own)


def _joined(children: Iterable[etree._Element], extraction: ClassicText) -> tuple[str, ClassicText]:
    texts = [extraction.list_text(c) if c.tag == "lijst" else extraction.inline(c) for c in children]
    return " ".join(filter(None, texts)).strip(), extraction
