"""From the XML of one decentral regulation to a :class:`protocols.law.Law`.

The article rules are those of national laws (:mod:`protocols.bwb`); what is special about a CVDR text is in
:mod:`protocols.cvdr.vocabulary`. Annexes, notes and explanations are kept in style ``full`` alone.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any

import attrs
from lxml import etree

from protocols.bwb import classic, full
from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.bwb.loss import LossReport, loss_report
from protocols.bwb.references import cited_ids
from protocols.bwb.toestand import Conversion, Style
from protocols.bwb.xml import drop_namespaces, parse_xml
from protocols.cvdr.areas import area_code
from protocols.cvdr.metadata import CvdrMetadata, layer_of, read_metadata
from protocols.cvdr.vocabulary import number_articles, to_toestand, without_annex_prefix
from protocols.law import Article, Law, Preamble
from protocols.law_ids import CvdrId, anchor_url, cvdr_url


def convert(
    xml: bytes,
    cvdr_id: CvdrId,
    style: Style = Style.FULL,
    *,
    fallback_day: date,
    record: CvdrMetadata | None = None,
    valid_to: date | None = None,
) -> Conversion:
    """Convert one version. ``cvdr_id`` carries the version; ``valid_to`` is the last day of a regulation that ended.

    The text's own metadata come first, then ``record``, what the search knows. ``fallback_day`` stands in for a first day
    that neither says (the requested day, else today). Raises :class:`protocols.bwb.errors.ConversionError`.
    """
    root = _read(xml, f"text of {cvdr_id}")
    own = read_metadata(_meta_of(root))
    if own.cvdr_id is not None and not _is_version_of(own.cvdr_id, cvdr_id):
        raise MalformedLaw("wrong_law", f"text of {cvdr_id}: the document is the text of {own.cvdr_id}")
    to_toestand(root)
    law = _head(cvdr_id, _completed(own, record), fallback_day, valid_to)
    if style is Style.FULL:
        law = _with_full_text(law, root)
        return Conversion(law, law.warnings, tuple(sorted(cited_ids(root))))
    law = _with_entries(law, root, leaf=style is Style.LEAF)
    return Conversion(law, law.warnings, law.referenced_bwb_ids)


def convert_alone(xml: bytes, style: Style = Style.FULL, *, day: date | None = None) -> Conversion:
    """Convert a text that says itself which regulation it is; ``day`` stands in for a first day that it does not name.

    Raises :class:`protocols.bwb.errors.ConversionError`.
    """
    own = read_metadata(_meta_of(_read(xml, "regulation")))
    if own.cvdr_id is None:
        raise MalformedLaw("incomplete", "regulation: its metadata have no CVDR id")
    start = own.in_force or day
    if start is None:
        what = f"text of {own.cvdr_id}: it does not say from when it applies; give --date YYYY-MM-DD"
        raise RefusedLaw("no_date", what)
    return convert(xml, own.cvdr_id, style, fallback_day=start)


def is_regeling(xml: bytes) -> bool:
    """Whether this is a decentral regulation. Raises :class:`protocols.bwb.errors.ConversionError` for what is no XML."""
    return etree.QName(parse_xml(xml, what="law text")).localname == "cvdr"


def regeling_loss(xml: bytes, loaded_yaml: Mapping[str, Any]) -> LossReport:
    """The loss report of a decentral regulation; its ``meta`` block is left out on purpose.

    Raises :class:`protocols.bwb.errors.ConversionError` when ``xml`` cannot be read.
    """
    root = _read(xml, "law text")
    words = sum(len("".join(text.split())) for text in _meta_of(root).itertext())
    to_toestand(root)
    report = loss_report(etree.tostring(root), loaded_yaml)
    left_out = {**report.left_out, "meta": words} if words else report.left_out
    return attrs.evolve(report, left_out=dict(sorted(left_out.items())))


def _read(xml: bytes, what: str) -> etree._Element:
    root = parse_xml(xml, what=what)
    drop_namespaces(root)
    if root.tag != "cvdr":
        raise MalformedLaw("wrong_root", f"{what}: no CVDR text, the document is a <{_shown(str(root.tag))}>")
    return root


def _meta_of(root: etree._Element) -> etree._Element:
    meta = root.find("meta")
    return etree.Element("meta") if meta is None else meta


def _is_version_of(found: CvdrId, wanted: CvdrId) -> bool:
    return found.work == wanted.work and found.version in (None, wanted.version)


def _completed(own: CvdrMetadata, record: CvdrMetadata | None) -> CvdrMetadata:
    """The facts of the text, and those of the search record where the text has none."""
    if record is None:
        return own
    return CvdrMetadata(
        cvdr_id=own.cvdr_id or record.cvdr_id,
        title=own.title or record.title,
        creator=own.creator or record.creator,
        organisation_type=own.organisation_type or record.organisation_type,
        publication=own.publication or record.publication,
        in_force=own.in_force or record.in_force,
        expired=own.expired or record.expired,
    )


def _head(cvdr_id: CvdrId, facts: CvdrMetadata, fallback_day: date, valid_to: date | None) -> Law:
    warnings: list[str] = []
    layer, layer_warning = layer_of(facts.organisation_type)
    if layer_warning is not None:
        warnings.append(layer_warning)
    code = area_code(layer, facts.creator)
    if code is None:
        warnings.append(
            f"No CBS code is known for {facts.creator[:80] or 'a regulation without maker'}: "
            f"{layer.area_key} is missing, so the file does not meet the law schema"
        )
    if facts.in_force is None:
        warnings.append(f"No first day in the metadata: valid_from is set to {fallback_day.isoformat()}")
    start = facts.in_force or fallback_day
    title = facts.title or str(cvdr_id)
    return Law(
        title=title,
        layer=layer,
        publication_date=facts.publication or start,
        valid_from=start,
        valid_to=valid_to,
        cvdr_id=str(cvdr_id),
        official_title=title,
        organisation=facts.creator or None,
        area_code=code,
        url=cvdr_url(cvdr_id),
        articles=(),
        warnings=tuple(warnings),
    )


def _with_full_text(law: Law, root: etree._Element) -> Law:
    text = full.read(root, law.law_id, law.valid_from)
    preamble = None
    if text.preamble is not None:
        preamble = Preamble(text.preamble.text, law.url, text.preamble.references)
    is_other = text.official_title is not None and text.official_title != law.title
    return attrs.evolve(
        law,
        official_title=text.official_title or law.official_title,
        name=law.title if is_other else None,
        preamble=preamble,
        structure=text.structure,
        articles=tuple(_on_own_page(law, article) for article in text.articles),
        annexes=text.annexes,
        closing=text.closing,
        warnings=law.warnings + text.warnings,
    )


def _with_entries(law: Law, root: etree._Element, *, leaf: bool) -> Law:
    without_annex_prefix(root)
    unnumbered = number_articles(root)
    found = classic.entries(root, law.law_id, law.valid_from, leaf=leaf)
    warnings = list(found.warnings)
    if unnumbered:
        warnings.append(f"Articles without a number in the text got one, _1 to _{unnumbered}")
    if not found.articles:
        warnings.append("The text has no articles; style full keeps text that stands outside articles")
    articles = tuple(_on_own_page(law, article) for article in found.articles)
    return attrs.evolve(law, articles=articles, warnings=law.warnings + tuple(warnings))


def _on_own_page(law: Law, article: Article) -> Article:
    """The article rules make addresses on wetten.overheid.nl; the anchors are the same on the page of the regulation."""
    anchor = article.url.removeprefix(anchor_url(law.law_id, law.valid_from))
    return attrs.evolve(article, url=law.url if article.number.startswith("_") else law.url + anchor)


def _shown(text: str) -> str:
    return ascii(text[:60])[1:-1]
