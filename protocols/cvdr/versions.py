"""Which version of a decentral regulation is meant: the requested date picks it (D35), not the newest number.

Versions and their periods come from the search records of the work; the manifest lists the versions too, and their
periods where it states them.
"""

import re
from collections.abc import Iterable
from datetime import date, timedelta

import attrs
from lxml import etree

from protocols.bwb.xml import parse_xml
from protocols.cvdr.metadata import CvdrMetadata
from protocols.cvdr.search import CvdrHit
from protocols.failures import Permanent, Transient
from protocols.law_ids import CvdrId, InvalidDate, parse_date


class NoVersions(Transient):
    """Neither search nor manifest names any version of the work; either may be incomplete for a while."""

    kind = "search_failed"


class VersionUnknown(Permanent):
    """The work exists, the version that was asked for does not."""

    kind = "version_unknown"


@attrs.frozen
class Version:
    """One version of a work. ``start`` is its first day, ``end`` the first day that it no longer applies."""

    number: int
    start: date | None = None
    end: date | None = None
    xml_url: str | None = None
    metadata: CvdrMetadata | None = None

    def covers(self, day: date) -> bool:
        """Whether it applies on ``day``. A version without a known first day is no answer to a date."""
        return self.start is not None and self.start <= day and (self.end is None or day < self.end)


@attrs.frozen
class VersionChoice:
    """The version to harvest. ``valid_to`` is the last day of a regulation that ended without a successor."""

    cvdr_id: CvdrId
    version: Version
    valid_to: date | None
    warnings: tuple[str, ...] = ()


def versions_of_hits(hits: Iterable[CvdrHit], work: str) -> tuple[Version, ...]:
    """The versions of ``work`` among search hits, by number; records of other works do not count."""
    found: dict[int, Version] = {}
    for hit in hits:
        if hit.cvdr_id.work == work and hit.cvdr_id.version is not None:
            meta = hit.metadata
            found.setdefault(
                hit.cvdr_id.version, Version(hit.cvdr_id.version, meta.in_force, meta.expired, hit.xml_url, meta)
            )
    return tuple(found[number] for number in sorted(found))


@attrs.frozen
class CvdrManifest:
    """The versions that a manifest lists, by number, and the one its ``_latestItem`` points at."""

    versions: tuple[Version, ...]
    latest: int | None


def parse_manifest(data: bytes, work: str) -> CvdrManifest:
    """Read the manifest of ``work`` (an id without version): every ``expression`` or ``item`` whose label names a version.

    Raises the parser's failure when ``data`` is no XML. A manifest without versions gives an empty one.
    """
    root = parse_xml(data, what=f"manifest of {work}")
    found: dict[int, Version] = {}
    for element in root.iter("{*}expression", "{*}item"):
        number = _number_in(element.get("label", ""), work)
        if number is not None and number not in found:
            found[number] = Version(number, _day(element, "datum_inwerkingtreding"), _end(element))
    holder = next(root.iter("{*}work"), None)
    latest = None if holder is None else _number_in(holder.get("_latestItem", ""), work)
    if latest is not None and not found:
        found[latest] = Version(latest)
    return CvdrManifest(tuple(found[number] for number in sorted(found)), latest if latest in found else None)


def merged(hits: tuple[Version, ...], manifest: CvdrManifest | None) -> tuple[Version, ...]:
    """All versions that either source knows; what a search record says of one wins."""
    listed = manifest.versions if manifest is not None else ()
    known = {version.number: version for version in (*listed, *hits)}
    return tuple(known[number] for number in sorted(known))


def choose_version(
    asked: CvdrId,
    versions: tuple[Version, ...],
    *,
    requested: date | None,
    today: date,
    latest: int | None = None,
) -> VersionChoice:
    """The version that ``asked`` names, else the one in force on ``requested``, else on ``today``, else the newest.

    ``latest`` is the manifest's own word for the newest. A requested date outside every period gives the newest, with a
    warning; so does a version that was named while no source knows any: whether it exists, its address will tell.
    Raises :class:`NoVersions` and :class:`VersionUnknown`.
    """
    if not versions and asked.version is not None:
        return VersionChoice(asked, Version(asked.version), None, (f"{asked}: neither search nor manifest knows it",))
    if not versions:
        raise NoVersions(f"{asked.work}: No versions found", law_id=str(asked))
    warnings: tuple[str, ...] = ()
    if asked.version is not None:
        chosen = next((version for version in versions if version.number == asked.version), None)
        if chosen is None:
            known = ", ".join(str(version.number) for version in versions[-10:])
            raise VersionUnknown(f"{asked} does not exist: {asked.work} has version {known}", law_id=str(asked))
        if requested is not None and not chosen.covers(requested):
            warnings = (f"{asked} was asked for, although it does not apply on {requested.isoformat()}",)
    else:
        covering = [version for version in versions if version.covers(requested or today)]
        chosen = covering[-1] if covering else _newest(versions, latest)
        if not covering and requested is not None:
            warnings = (f"{asked.work} has no version for {requested.isoformat()}: took version {chosen.number}",)
    return VersionChoice(asked.at(chosen.number), chosen, _valid_to(versions, chosen), warnings)


def _newest(versions: tuple[Version, ...], latest: int | None) -> Version:
    if latest is not None:
        pointed = next((version for version in versions if version.number == latest), None)
        if pointed is not None:
            return pointed
    return versions[-1]


def _valid_to(versions: tuple[Version, ...], chosen: Version) -> date | None:
    """An end that a later version follows is a succession; only the end of the last one is the end of the regulation."""
    if chosen.end is None or chosen.number != versions[-1].number:
        return None
    return chosen.end - timedelta(days=1)


def _number_in(label: str, work: str) -> int | None:
    """The version in a file name, a path or a bare number: ``CVDR1234_2.xml``, ``2``."""
    match = re.search(rf"{re.escape(work)}_([0-9]{{1,6}})(?![0-9])", label) or re.fullmatch(
        r"\s*([0-9]{1,6})\s*", label
    )
    return int(match[1]) if match else None


def _day(element: etree._Element, name: str) -> date | None:
    found = next(element.iter(f"{{*}}{name}"), None)
    try:
        return None if found is None else parse_date((found.text or "").strip())
    except InvalidDate:
        return None


def _end(element: etree._Element) -> date | None:
    """``einddatum`` is the last day, and 9999-12-31 stands for "until further notice"."""
    last = _day(element, "einddatum")
    return None if last is None or last == date.max else last + timedelta(days=1)
