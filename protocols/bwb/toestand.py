"""From the bytes of a toestand to a :class:`protocols.law.Law`: the entry point of the conversion (D31, D32, D37).

Pure: what is not in the text itself (title, layer, dates) comes in as :class:`LawFacts`.
"""

import enum
from datetime import date
from typing import Final

import attrs
from lxml import etree

from protocols.bwb import classic, full
from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.bwb.inline import Entry, NoteLabels, one_line
from protocols.bwb.references import cited_ids
from protocols.bwb.wti import layer_of
from protocols.bwb.xml import drop_namespaces, parse_xml, tag_of
from protocols.law import Law, Layer
from protocols.law_ids import InvalidDate, anchor_url, is_bwb_id, parse_date

_ROOTS: Final = ("toestand", "wetgeving")
"""Today's format, and that of the dumps from before 2015."""


class Style(enum.Enum):
    """How much of a text is kept, and how it is cut into entries; the values are those of ``HARVEST_STYLE`` (D31)."""

    FULL = "full"
    """Every visible word (D32)."""
    ARTICLE = "article"
    """One entry per article, with the losses of the older converter."""
    LEAF = "leaf"
    """One entry per lid and item, as above."""


@attrs.frozen
class LawFacts:
    """What the metadata file and the manifest know about a text. ``warnings`` come first in those of the law."""

    bwb_id: str
    title: str
    layer: Layer
    publication_date: date
    valid_from: date
    valid_to: date | None = None
    warnings: tuple[str, ...] = ()


@attrs.frozen
class Conversion:
    """A law, ready for :func:`protocols.lawyaml.dump_law`, and the other laws it cites (sorted, without itself).

    In style ``full`` the ids are those of every citation in the text; in the others those of the entries' references.
    """

    law: Law
    warnings: tuple[str, ...]
    referenced_bwb_ids: tuple[str, ...]


def convert(xml: bytes, facts: LawFacts, style: Style = Style.FULL) -> Conversion:
    """Convert one consolidated text.

    Raises :class:`protocols.bwb.errors.ConversionError` for what is no text of ``facts.bwb_id``, with the reason.
    """
    return _convert(_read(xml, f"text of {facts.bwb_id}", facts.bwb_id), facts, style)


def convert_alone(xml: bytes, style: Style = Style.FULL, *, day: date | None = None) -> Conversion:
    """Convert a text without metadata file: its facts come from the text itself (D37), with a warning.

    ``day`` overrides the first day of the text; old files do not say it. Raises ``ConversionError``.
    """
    root = _read(xml, "law text", None)
    return _convert(root, _facts_of(root, day), style)


def facts_of(xml: bytes, *, day: date | None = None) -> LawFacts:
    """The facts that a text states about itself (D37): title, layer from ``soort``, first day, and what is missing."""
    return _facts_of(_read(xml, "law text", None), day)


def _convert(root: etree._Element, facts: LawFacts, style: Style) -> Conversion:
    law = Law(
        title=facts.title,
        layer=facts.layer,
        publication_date=facts.publication_date,
        valid_from=facts.valid_from,
        valid_to=facts.valid_to,
        bwb_id=facts.bwb_id,
        url=anchor_url(facts.bwb_id, facts.valid_from),
        articles=(),
    )
    if style is Style.FULL:
        return _full(root, law, facts)
    found = classic.entries(root, facts.bwb_id, facts.valid_from, leaf=style is Style.LEAF)
    law = attrs.evolve(
        law,
        preamble=classic.preamble(root, facts.bwb_id, facts.valid_from),
        articles=found.articles,
        warnings=facts.warnings + found.warnings,
    )
    return Conversion(law, law.warnings, law.referenced_bwb_ids)


def _full(root: etree._Element, law: Law, facts: LawFacts) -> Conversion:
    text = full.read(root, facts.bwb_id, facts.valid_from)
    law = attrs.evolve(
        law,
        official_title=text.official_title,
        name=text.name,
        preamble=text.preamble,
        structure=text.structure,
        articles=text.articles,
        annexes=text.annexes,
        closing=text.closing,
        warnings=facts.warnings + text.warnings,
    )
    return Conversion(law, law.warnings, tuple(sorted(cited_ids(root) - {facts.bwb_id})))


def _read(xml: bytes, what: str, bwb_id: str | None) -> etree._Element:
    root = parse_xml(xml, what=what)
    if xml.count(b"xmlns") > xml.count(b"xmlns:xsi", 0, 4096):
        drop_namespaces(root)
    if root.tag == "error":
        message = " ".join("".join(root.itertext()).split())[:200]
        raise MalformedLaw("service_error", f"{what}: the service answered with an error: {message or 'no message'}")
    if root.tag not in _ROOTS:
        raise MalformedLaw("wrong_root", f"{what}: no BWB text, the document is a <{_shown(tag_of(root))}>")
    if root.tag == "toestand" and root.find("wetgeving") is None:
        raise MalformedLaw("incomplete", f"{what}: the element <wetgeving> is missing in <toestand>")
    found = root.get("bwb-id")
    if bwb_id is not None and found is not None and found != bwb_id:
        raise MalformedLaw("wrong_law", f"{what}: the document is the text of {_shown(found)}")
    return root


def _facts_of(root: etree._Element, day: date | None) -> LawFacts:
    bwb_id = root.get("bwb-id", "")
    if not is_bwb_id(bwb_id):
        raise MalformedLaw("incomplete", f"law text: the attribute bwb-id is no BWB id: {_shown(bwb_id)!r}")
    start = _own_day(root, bwb_id) if day is None else day
    plain = Entry(NoteLabels(root), plain=True)
    title = one_line(plain, root.find(".//citeertitel")) or one_line(plain, root.find(".//intitule"))
    layer, layer_warning = layer_of(next(root.iter("wetgeving")).get("soort", ""))
    warnings = [f"No metadata file (WTI): publication_date is set to valid_from ({start.isoformat()})"]
    if not title:
        warnings.append("No citeertitel: the id stands in for the title")
    if layer_warning is not None:
        warnings.append(layer_warning)
    return LawFacts(bwb_id, title or bwb_id, layer, start, start, warnings=tuple(warnings))


def _own_day(root: etree._Element, bwb_id: str) -> date:
    """The first day that the text itself states; dumps from before 2015 state none."""
    written = root.get("inwerkingtreding", "")
    if not written:
        raise RefusedLaw("no_date", f"text of {bwb_id}: it does not say from when it applies; give --date YYYY-MM-DD")
    try:
        return parse_date(written)
    except InvalidDate as error:
        raise MalformedLaw("incomplete", f"text of {bwb_id}: inwerkingtreding: {error}") from None


def _shown(text: str) -> str:
    return ascii(text[:80])[1:-1]
