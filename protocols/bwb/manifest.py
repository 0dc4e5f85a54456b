"""The manifest of a work: which consolidated texts there are, and which one is meant (``harvester.md`` 5, D35).

Element names are matched without namespace, and the element ``work`` may be the root or stand below it.
"""

import re
from datetime import date
from typing import Final

import attrs
from lxml import etree

from protocols.bwb.xml import parse_xml
from protocols.failures import NotHarvestable, Transient
from protocols.law_ids import InvalidDate, parse_date

OPEN_END: Final = date.max
"""9999-12-31, which the repository writes for "until further notice"."""

_LABEL = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})_([0-9]{1,6})")


class ManifestIncomplete(Transient):
    """The manifest lacks what a manifest with texts must have, or is not that of the law we asked for.

    Seen in the repository while it is being rebuilt, so a later attempt may succeed.
    """

    kind = "manifest_incomplete"


@attrs.frozen
class Expression:
    """One consolidated text (toestand). ``start`` and ``end`` are the first and the last day it applies, inclusive.

    ``seen_from`` and ``seen_until`` bound the knowledge window (zichtdatum): texts with equal ``start`` and different
    labels are what was known at different times. ``size_bytes`` and ``sha512`` describe the XML file, where stated.
    """

    label: str
    start: date
    end: date = OPEN_END
    deleted: bool = False
    seen_from: date = date.min
    seen_until: date = OPEN_END
    size_bytes: int | None = None
    sha512: str | None = None

    @property
    def number(self) -> int:
        """The ``n`` of the label ``{date}_{n}``."""
        return int(self.label.rpartition("_")[2])

    def covers(self, day: date) -> bool:
        return self.start <= day <= self.end

    def seen_on(self, day: date) -> bool:
        return self.seen_from <= day <= self.seen_until


@attrs.frozen
class Manifest:
    """What the manifest of ``bwb_id`` says. ``latest_label`` is the label in ``_latestItem``.

    ``in_force`` and ``withdrawn`` are the dates of the work as a whole; a work without any text has no more than these.
    ``warnings`` names the expressions that could not be read and were left out.
    """

    bwb_id: str
    latest_label: str | None
    expressions: tuple[Expression, ...]
    in_force: date | None = None
    withdrawn: date | None = None
    warnings: tuple[str, ...] = ()

    @property
    def live(self) -> tuple[Expression, ...]:
        """The expressions whose XML can be fetched, in document order (BW-03: deleted ones match every date)."""
        return tuple(expression for expression in self.expressions if not expression.deleted)


@attrs.frozen
class Choice:
    """The text to harvest. ``valid_to`` is the last day of a law that ended, never that of a succeeded text."""

    expression: Expression
    valid_to: date | None
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.expression.label

    @property
    def valid_from(self) -> date:
        return self.expression.start


def parse_manifest(data: bytes, bwb_id: str) -> Manifest:
    """Read the manifest of ``bwb_id``.

    Raises :class:`ManifestIncomplete` when there is no ``work`` or it is that of another law, and the parser's failure
    when ``data`` is no XML.
    """
    root = parse_xml(data, what=f"manifest of {bwb_id}")
    work = next(root.iter("{*}work"), None)
    if work is None:
        raise ManifestIncomplete(f"manifest of {bwb_id}: no element <work>", law_id=bwb_id)
    if work.get("label", bwb_id) != bwb_id:
        raise ManifestIncomplete(f"manifest of {bwb_id}: it is that of {work.get('label')!a}", law_id=bwb_id)
    warnings: list[str] = []
    expressions = [_expression(element, warnings) for element in work.iter("{*}expression")]
    metadata = work.find("{*}metadata")
    return Manifest(
        bwb_id=bwb_id,
        latest_label=_latest_label(work),
        expressions=tuple(expression for expression in expressions if expression is not None),
        in_force=_day(metadata, "datum_inwerkingtreding"),
        withdrawn=_day(metadata, "datum_intrekking"),
        warnings=tuple(warnings),
    )


def choose(manifest: Manifest, *, requested: date | None, today: date) -> Choice:
    """The text for ``requested``, or without it the text in force ``today`` (the day in Europe/Amsterdam), else the latest.

    A date outside all periods gives the newest text and a warning. Raises :class:`NotHarvestable` when the work has no
    text, :class:`ManifestIncomplete` when it has some but the pointer to the latest is missing.
    """
    if not manifest.live:
        return _without_live_text(manifest)
    if manifest.latest_label is None:
        raise ManifestIncomplete(
            f"manifest of {manifest.bwb_id}: attribute _latestItem is missing", law_id=manifest.bwb_id
        )
    day = requested or today
    warnings = manifest.warnings
    covering = [expression for expression in manifest.live if expression.covers(day)]
    if covering:
        chosen = _preferred(covering, today)
    else:
        chosen = _newest(manifest, today) if requested else _latest(manifest, today)
        warnings = (*warnings, _outside(manifest.bwb_id, chosen, day))
    return Choice(chosen, _valid_to(manifest, chosen), warnings)


def _without_live_text(manifest: Manifest) -> Choice:
    """No expression that can be fetched: why, or the text that the pointer alone names."""
    if manifest.expressions:
        raise _absent(manifest, "withdrawn", manifest.withdrawn)
    if manifest.latest_label is not None:
        start = parse_date(manifest.latest_label.partition("_")[0])
        warning = f"manifest of {manifest.bwb_id}: no readable expression, took the latest item {manifest.latest_label}"
        return Choice(Expression(manifest.latest_label, start), None, (*manifest.warnings, warning))
    if manifest.warnings:
        raise ManifestIncomplete(
            f"manifest of {manifest.bwb_id}: no readable expression ({manifest.warnings[0]})", law_id=manifest.bwb_id
        )
    if manifest.withdrawn is not None:
        raise _absent(manifest, "withdrawn", manifest.withdrawn)
    if manifest.in_force is not None:
        raise _absent(manifest, "not_yet_in_force", manifest.in_force)
    raise _absent(manifest, "announced", None)


def _absent(manifest: Manifest, reason: str, day: date | None) -> NotHarvestable:
    words = {
        "withdrawn": "it was withdrawn",
        "not_yet_in_force": "it is not in force yet",
        "announced": "it is only announced",
    }
    when = f" ({day.isoformat()})" if day else ""
    return NotHarvestable(
        f"{manifest.bwb_id} has no consolidated text: {words[reason]}{when}",
        reason=reason,
        date=day.isoformat() if day else None,
    )


def _preferred(covering: list[Expression], today: date) -> Expression:
    """Among texts that cover a day: what is known today before what once was, then document order, then the highest n."""
    seen = [expression for expression in covering if expression.seen_on(today)] or covering
    return max((e for e in seen if e.start == seen[0].start), key=lambda e: e.number)


def _newest(manifest: Manifest, today: date) -> Expression:
    """The live text that ends last; of several the last in the document, its best knowledge version."""
    last_end = max(expression.end for expression in manifest.live)
    start = [expression for expression in manifest.live if expression.end == last_end][-1].start
    return _preferred([e for e in manifest.live if e.end == last_end and e.start == start], today)


def _latest(manifest: Manifest, today: date) -> Expression:
    """What ``_latestItem`` points at, unless that is deleted or unknown."""
    for expression in manifest.live:
        if expression.label == manifest.latest_label:
            return expression
    return _newest(manifest, today)


def _outside(bwb_id: str, chosen: Expression, day: date) -> str:
    until = "" if chosen.end == OPEN_END else f" to {chosen.end.isoformat()}"
    return f"{bwb_id} has no text for {day.isoformat()}: took the newest, valid from {chosen.start.isoformat()}{until}"


def _valid_to(manifest: Manifest, chosen: Expression) -> date | None:
    if any(expression.start > chosen.start for expression in manifest.live):
        return None
    return None if chosen.end == OPEN_END else chosen.end


def _latest_label(work: etree._Element) -> str | None:
    """The label at the start of ``_latestItem`` (``{label}/xml/{file}``); ``None`` when absent or of another shape."""
    label = (work.get("_latestItem") or "").partition("/")[0].strip()
    return label if _label_day(label) is not None else None


def _label_day(label: str) -> date | None:
    match = _LABEL.fullmatch(label)
    return None if match is None else _as_day(match[1])


def _expression(element: etree._Element, warnings: list[str]) -> Expression | None:
    """Read one expression. Label and dates go into addresses and file names: what is malformed is left out."""
    label = (element.get("label") or "").strip()
    start_text = _text(element, "datum_inwerkingtreding")
    if not label or not start_text:
        return None
    start = _as_day(start_text)
    end_text = _text(element, "einddatum")
    end = _as_day(end_text) if end_text else OPEN_END
    if _label_day(label) is None or start is None or end is None:
        warnings.append(f"manifest: left out expression {ascii(label)[:60]}, which has a malformed label or date")
        return None
    xml = next((m for m in element.iter("{*}manifestation") if m.get("label") == "xml"), None)
    item = None if xml is None else next(xml.iter("{*}item"), None)
    size = _text(xml, "size")
    return Expression(
        label=label,
        start=start,
        end=end,
        deleted=item is not None and item.get("_deleted") == "true",
        seen_from=_day(element, "zichtdatum_start") or date.min,
        seen_until=_day(element, "zichtdatum_eind") or OPEN_END,
        size_bytes=int(size) if size.isdecimal() and len(size) < 16 else None,
        sha512=_text(xml, "hashcode").lower() or None,
    )


def _text(below: etree._Element | None, name: str) -> str:
    """The trimmed text of the first element ``name`` below ``below``; empty when there is none."""
    found = None if below is None else next(below.iter(f"{{*}}{name}"), None)
    return "" if found is None else (found.text or "").strip()


def _day(below: etree._Element | None, name: str) -> date | None:
    return _as_day(_text(below, name))


def _as_day(text: str) -> date | None:
    try:
        return parse_date(text)
    except InvalidDate:
        return None
