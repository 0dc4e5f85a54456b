"""From a CVDR id to the documents of a decentral regulation (``harvester.md`` 14).

The versions of a work, with their periods, come from its search records; the manifest lists them too, and either may be
missing. In a mirror folder the search records stand in a file (:func:`records_path`).
"""

from __future__ import annotations

from datetime import date
from functools import partial

from attrs import field, frozen

from actors.ports.fetch import Fetched, Fetcher, Purpose
from actors.ports.lawfiles import SourceFile, TextNotServed, check_request, get_text, parsed_file, source_of
from actors.ports.lawsearch import SearchAnswer, search_records, search_works
from protocols.bwb.urls import CVDR_REPOSITORY, cvdr_manifest_url, cvdr_text_url, rebased
from protocols.cvdr.metadata import CvdrMetadata
from protocols.cvdr.search import CvdrHit, page_url, parse_hits, query_of, record_query, versions_query
from protocols.cvdr.versions import (
    CvdrManifest,
    Version,
    VersionChoice,
    choose_version,
    merged,
    parse_manifest,
    versions_of_hits,
)
from protocols.downloads import NotServed
from protocols.failures import LawUnknown
from protocols.law_ids import CvdrId, parse_cvdr_id
from protocols.sru import SearchRefused


@frozen
class CvdrDocuments:
    """Everything that the conversion of one version needs: ``text`` unparsed, ``record`` what the search knows of it.

    ``fallback_day`` stands in for a first day that neither names: the requested day, else today.
    """

    cvdr_id: CvdrId
    choice: VersionChoice
    text: bytes = field(repr=False)
    record: CvdrMetadata | None
    fallback_day: date
    warnings: tuple[str, ...]
    sources: tuple[SourceFile, ...]

    @property
    def valid_to(self) -> date | None:
        """The last day of a regulation that ended without a successor."""
        return self.choice.valid_to


@frozen
class CvdrVersions:
    """What is known of a work. ``manifest_file`` and ``manifest`` are ``None`` where the repository has none."""

    versions: tuple[Version, ...]
    manifest: CvdrManifest | None = None
    manifest_file: Fetched | None = None

    @property
    def nowhere(self) -> bool:
        """The repository has no manifest of the work and the search no record."""
        return self.manifest_file is None and not self.versions

    def choose(self, asked: CvdrId, day: date | None, today: date) -> VersionChoice:
        """See :func:`choose_version`; ``LawUnknown`` where nobody knows the work, which is final as for a BWB id (D35)."""
        if self.nowhere and asked.version is None:
            raise _unknown(asked)
        latest = None if self.manifest is None else self.manifest.latest
        return choose_version(asked, self.versions, requested=day, today=today, latest=latest)


async def fetch_cvdr(
    fetcher: Fetcher, cvdr_id: str, day: date | None, today: date, *, max_bytes: int | None = None
) -> CvdrDocuments:
    """Fetch the version that ``cvdr_id`` names, else the one in force on ``day``, else today's, else the newest.

    Raises ``InvalidInput``, ``LawUnknown``, ``NoVersions``, ``VersionUnknown``, ``TextNotServed``, a ``ConversionError``
    for a manifest that is no XML, ``SearchFailed`` and ``DownloadFailed``.
    """
    asked = check_request(parse_cvdr_id, cvdr_id, day, today)
    known = await find_versions(fetcher, asked)
    choice = known.choose(asked, day, today)
    try:
        text_file = await fetch_version(fetcher, choice, max_bytes=max_bytes)
    except TextNotServed as error:
        if known.nowhere:  # a named version: its address has told
            raise _unknown(asked) from error
        raise
    files = (text_file,) if known.manifest_file is None else (known.manifest_file, text_file)
    return CvdrDocuments(
        cvdr_id=choice.cvdr_id,
        choice=choice,
        text=text_file.content,
        record=choice.version.metadata,
        fallback_day=day or today,
        warnings=choice.warnings,
        sources=tuple(source_of(file) for file in files),
    )


async def find_versions(fetcher: Fetcher, asked: CvdrId) -> CvdrVersions:
    """All versions that manifest and search know of a work; no version at all is not an error here.

    A search that refuses is one only when nothing else names a version.
    """
    manifest_file = await _get_if_served(fetcher, cvdr_manifest_url(fetcher.settings.cvdr_repository_url, asked.work))
    manifest = None
    if manifest_file is not None:
        manifest = await parsed_file(fetcher, manifest_file, partial(parse_manifest, work=asked.work))
    hits = await _hits(fetcher, asked, manifest)
    return CvdrVersions(merged(versions_of_hits(hits, asked.work), manifest), manifest, manifest_file)


async def fetch_version(fetcher: Fetcher, choice: VersionChoice, *, max_bytes: int | None = None) -> Fetched:
    """The text of a chosen version: from where its record says, if that is in the repository, else where it belongs."""
    base = fetcher.settings.cvdr_repository_url
    named = rebased(choice.version.xml_url or "", public=CVDR_REPOSITORY, base=base)
    url = named if named.startswith(base + "/") else cvdr_text_url(base, choice.cvdr_id)
    return await get_text(fetcher, url, str(choice.cvdr_id), max_bytes)


async def search_cvdr(fetcher: Fetcher, text: str, *, limit: int, start: int) -> SearchAnswer[CvdrHit]:
    """Up to ``limit`` works for a name or an id; each hit is the first version that the service lists."""
    query = query_of(text)
    if query is None:
        return SearchAnswer(())
    base = fetcher.settings.cvdr_sru_url
    return await search_works(fetcher, lambda at: page_url(base, query, start=at), parse_hits, limit=limit, start=start)


def records_path(work: str) -> str:
    """Where a mirror keeps the search records of a work, below its base: beside the manifest."""
    return f"cvdr/{work}/records.xml"


async def fetch_records(fetcher: Fetcher, asked: CvdrId) -> Fetched | None:
    """The search records of a work as they are, first page; ``None`` where there are none."""
    settings = fetcher.settings
    if settings.cvdr_repository_url.startswith("file:"):
        return await _get_if_served(fetcher, f"{settings.cvdr_repository_url}/{records_path(asked.work)}")
    try:
        file = await fetcher.get(page_url(settings.cvdr_sru_url, versions_query(asked)), Purpose.SEARCH)
        page = await parsed_file(fetcher, file, parse_hits)
    except SearchRefused:
        return None
    return file if page.hits else None


def _unknown(asked: CvdrId) -> LawUnknown:
    return LawUnknown(f"{asked} is neither in the repository nor found by its search: check the id", law_id=str(asked))


async def _hits(fetcher: Fetcher, asked: CvdrId, manifest: CvdrManifest | None) -> tuple[CvdrHit, ...]:
    """The search records of a work; of one version where the service does not know the work by that name."""
    if fetcher.settings.cvdr_repository_url.startswith("file:"):
        file = await fetch_records(fetcher, asked)
        page = None if file is None else await parsed_file(fetcher, file, parse_hits)
        return () if page is None else tuple(hit for _, _, hit in page.hits)
    hits, refusal = await _asked(fetcher, versions_query(asked))
    version = asked.version or (None if manifest is None else manifest.latest)
    if version is not None and version not in {hit.cvdr_id.version for hit in hits}:
        more, refusal = await _asked(fetcher, record_query(asked.at(version)))
        hits = (*hits, *more)
    if refusal is not None and not hits and version is None:
        raise refusal
    return hits


async def _asked(fetcher: Fetcher, query: str) -> tuple[tuple[CvdrHit, ...], SearchRefused | None]:
    """The hits, or the refusal: not every index is known to every service, and the other query or the manifest may do."""
    base = fetcher.settings.cvdr_sru_url
    try:
        return await search_records(fetcher, lambda at: page_url(base, query, start=at), parse_hits), None
    except SearchRefused as refusal:
        return (), refusal


async def _get_if_served(fetcher: Fetcher, url: str) -> Fetched | None:
    try:
        return await fetcher.get(url, Purpose.METADATA)
    except NotServed:
        return None
