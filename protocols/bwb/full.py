"""Style ``full``: a whole toestand, nothing visible left out (D32).

Articles are entries, and so is text that stands in a division without one (a circulaire has nothing else). Headings
go into ``structure``, annexes and the closing formula into keys of their own.
"""

import re
from collections import Counter
from datetime import date
from typing import Final

import attrs
from lxml import etree

from protocols.bwb.blocks import block, blocks_of
from protocols.bwb.elements import ANNEXES, ARTICLES, CLOSINGS, DIVISIONS, METADATA, PREAMBLES
from protocols.bwb.headings import Heading, heading_of
from protocols.bwb.inline import Entry, NoteLabels, one_line
from protocols.bwb.numbers import annex_prefix, clean_number, written_number
from protocols.bwb.outline import Outline
from protocols.bwb.walk import Task, run
from protocols.bwb.xml import tag_of
from protocols.law import Annex, Article, Division, Preamble, with_definitions
from protocols.law_ids import anchor_url

_STRUCTURAL: Final = ARTICLES | DIVISIONS | PREAMBLES | ANNEXES | CLOSINGS | {"intitule", "citeertitel"}
_STATUS: Final = {"vervallen": "vervallen", "nogniet": "nog niet in werking"}
_NUMBER_IS_ENOUGH: Final = frozenset({"circulaire.divisie", "verdrag.divisie", "divisie"})
"""Divisions that are the units of their text, so that their number can name an entry as an article's does."""

_LINE_BREAK = re.compile(r"[ \t]*\n\s*")


@attrs.frozen
class FullText:
    """All parts of a text, as the fields of the same names in :class:`protocols.law.Law`."""

    official_title: str | None
    name: str | None
    preamble: Preamble | None
    structure: tuple[Division, ...]
    articles: tuple[Article, ...]
    annexes: tuple[Annex, ...]
    closing: str | None
    warnings: tuple[str, ...]


def read(root: etree._Element, bwb_id: str, day: date) -> FullText:
    """Read everything below ``root``; citations and notes are numbered per entry.

    ``root`` is changed: bookkeeping goes, which is most of a file, and so does the layout of old dumps (root
    ``wetgeving``), which break and indent the lines inside paragraphs.
    """
    etree.strip_elements(root, *METADATA, with_tail=False)
    if root.tag == "wetgeving":
        _undo_layout(root)
    reader = _Reader(root, bwb_id, day)
    run(reader.visit(root, reader.outline, None))
    return reader.result()


class _Reader:
    def __init__(self, root: etree._Element, bwb_id: str, day: date) -> None:
        self.bwb_id, self.day = bwb_id, day
        self.labels = NoteLabels(root)
        self.holders = _holders(root, _STRUCTURAL)
        self.article_holders = _holders(root, ARTICLES | ANNEXES)
        self.outline = Outline(tag_of(root))
        self.titles: dict[str, list[str]] = {"intitule": [], "citeertitel": []}
        self.articles: list[Article] = []
        self.annexes: list[Annex] = []
        self.preamble: tuple[Entry, list[str]] = (Entry(self.labels), [])
        self.closing: tuple[Entry, list[str]] = (Entry(self.labels), [])
        self.warnings: list[str] = []
        self.numbers: Counter[str] = Counter()
        self.unnumbered = 0

    def visit(self, element: etree._Element, outline: Outline, annex: "_AnnexText | None") -> Task[str]:
        """Sort the children of a division, an annex or a wrapper; ``annex`` takes what is no entry inside one."""
        loose = _Loose(self, outline, annex)
        loose.add_words(element.text)
        heading = element.find("kop") if element.tag in DIVISIONS | ANNEXES else None
        for child in element:
            tag = tag_of(child)
            if child is heading or tag in METADATA:
                pass
            elif self._is_structural(child, annex):
                loose.flush()
                yield self._structural(child, tag, outline, annex)
            else:
                loose.add(child)
            loose.add_words(child.tail)
        loose.flush()
        return ""

    def _is_structural(self, child: etree._Element, annex: "_AnnexText | None") -> bool:
        if annex is None:
            return child.tag in _STRUCTURAL or child in self.holders
        return child.tag in ARTICLES or child.tag in ANNEXES or child in self.article_holders

    def _structural(self, child: etree._Element, tag: str, outline: Outline, annex: "_AnnexText | None") -> Task[str]:
        if tag in ARTICLES:
            self._article(child, outline)
        elif tag in ANNEXES:
            yield self._annex(child, outline)
        elif tag in DIVISIONS:
            heading = heading_of(self.labels, child)
            yield self.visit(child, outline.below(tag, heading.number, heading.title), annex)
        elif annex is not None:
            yield self.visit(child, outline, annex)
        elif tag in PREAMBLES:
            entry, blocks = self.preamble
            blocks += blocks_of(entry, child)
        elif tag in CLOSINGS:
            entry, blocks = self.closing
            block(entry, child, blocks)
        elif tag in self.titles:
            self.titles[tag].append(one_line(Entry(self.labels, plain=True), child))
        else:
            outline.container = tag
            yield self.visit(child, outline, annex)
        return ""

    def _article(self, element: etree._Element, outline: Outline) -> None:
        heading = heading_of(self.labels, element)
        status = _STATUS.get(element.get("status", ""))
        number, url = self._article_number(element, heading)
        entry = Entry(self.labels)
        blocks = blocks_of(entry, element, but=element.find("kop"))
        if not blocks and status is not None:
            blocks = [f"[{status.capitalize()}]"]
        if not blocks:
            self.warnings.append(f"Article {number}: no text")
        self.add_entry(number, entry, blocks, url)
        outline.add(number, heading.title, status)

    def _article_number(self, element: etree._Element, heading: Heading) -> tuple[str, str]:
        written = written_number(element)
        own = clean_number(heading.number or "") or clean_number(written or "")
        if own:
            url = anchor_url(self.bwb_id, self.day, article=written or own)
            return annex_prefix(element) + own, url
        number = self.next_number()
        self.warnings.append(f"Article {number}: it has no number in the text and got this one")
        return number, anchor_url(self.bwb_id, self.day)

    def next_number(self) -> str:
        """The number of an entry that has none of its own: ``_1``, ``_2``, ... in the order of the text."""
        self.unnumbered += 1
        return f"_{self.unnumbered}"

    def add_entry(self, number: str, entry: Entry, blocks: list[str], url: str) -> None:
        self.numbers[number] += 1
        if self.numbers[number] == 2:
            self.warnings.append(f"Article {number}: the text has more than one article with this number")
        references = tuple(entry.references.references)
        self.articles.append(Article(number, _text(entry, blocks), url, references))

    def _annex(self, element: etree._Element, outline: Outline) -> Task[str]:
        heading = heading_of(self.labels, element)
        text = _AnnexText(Entry(self.labels))
        place = len(self.annexes)
        below = outline.below("bijlage", heading.number, heading.title)
        yield self.visit(element, below, text)
        if below.is_empty:
            outline.children.remove(below)
        references = tuple(text.entry.references.references)
        annex = Annex(heading.number or "", heading.title or "", _text(text.entry, text.blocks), references)
        self.annexes.insert(place, annex)
        return ""

    def result(self) -> FullText:
        if not self.articles and not self.annexes:
            self.warnings.append("The text has no articles")
        preamble_entry, preamble_blocks = self.preamble
        references = tuple(preamble_entry.references.references)
        preamble = None
        if preamble_blocks:
            url = anchor_url(self.bwb_id, self.day, article="Aanhef")
            preamble = Preamble(_text(preamble_entry, preamble_blocks), url, references)
        return FullText(
            official_title=" ".join(filter(None, self.titles["intitule"])) or None,
            name=" ".join(filter(None, self.titles["citeertitel"])) or None,
            preamble=preamble,
            structure=self.outline.divisions(),
            articles=tuple(self.articles),
            annexes=tuple(self.annexes),
            closing=_text(*self.closing) or None,
            warnings=tuple(self.warnings),
        )


@attrs.define
class _AnnexText:
    """The text of one annex, which goes on after the articles in it."""

    entry: Entry
    blocks: list[str] = attrs.field(factory=list)


class _Loose:
    """Text that stands in no article: part of its annex, else an entry named after its division."""

    def __init__(self, reader: _Reader, outline: Outline, annex: _AnnexText | None) -> None:
        self.reader, self.outline, self.annex = reader, outline, annex
        self.entry = Entry(reader.labels) if annex is None else annex.entry
        self.blocks: list[str] = [] if annex is None else annex.blocks

    def add(self, element: etree._Element) -> None:
        block(self.entry, element, self.blocks)

    def add_words(self, words: str | None) -> None:
        if words and not words.isspace():
            self.blocks.append(words.strip())

    def flush(self) -> None:
        """End a run of loose text, because an article or a division follows."""
        if self.annex is not None or not self.blocks:
            return
        number, url = self._name()
        self.reader.add_entry(number, self.entry, self.blocks, url)
        self.outline.add(number, None, None)
        self.entry, self.blocks = Entry(self.reader.labels), []

    def _name(self) -> tuple[str, str]:
        kind, own = self.outline.type, clean_number(self.outline.number or "")
        base = anchor_url(self.reader.bwb_id, self.reader.day)
        if own and kind in DIVISIONS:
            label = kind.capitalize()
            name = own if kind in _NUMBER_IS_ENOUGH else f"{label} {own}"
            if name not in self.reader.numbers:
                fragment = anchor_url(self.reader.bwb_id, article=own).partition("#Artikel")[2]
                return name, f"{base}#{label}{fragment}"
        return self.reader.next_number(), base


def _text(entry: Entry, blocks: list[str]) -> str:
    """Blocks, then footnotes, then link definitions."""
    return with_definitions("\n\n".join(blocks + entry.notes).strip(), entry.references.references)


def _undo_layout(root: etree._Element) -> None:
    for element in root.iter(etree.Element):
        if element.text and "\n" in element.text:
            element.text = _LINE_BREAK.sub(" ", element.text)
        if element.tail and "\n" in element.tail:
            element.tail = _LINE_BREAK.sub(" ", element.tail)


def _holders(root: etree._Element, names: frozenset[str]) -> set[etree._Element]:
    """Every element that has one of ``names`` somewhere below it."""
    found: set[etree._Element] = set()
    for element in root.iter(*names):
        for ancestor in element.iterancestors():
            if ancestor in found:
                break
            found.add(ancestor)
    return found
