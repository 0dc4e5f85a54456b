"""From a law id to its documents: what to fetch, in which order, and what a missing file means (``harvester.md`` 16)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import trio
from attrs import define, field, frozen

from actors.ports.cvdrsource import CvdrDocuments, fetch_cvdr, search_cvdr
from actors.ports.fetch import Fetched, Fetcher, Purpose
from actors.ports.lawfiles import SourceFile, check_request, get_text, parsed_file, source_of
from actors.ports.lawsearch import SearchAnswer, search_works
from protocols.bwb.errors import MalformedLaw
from protocols.bwb.manifest import Choice, Expression, Manifest, choose, parse_manifest
from protocols.bwb.search import BwbHit, page_url, parse_hits, query_of
from protocols.bwb.urls import manifest_url, toestand_url, wti_url
from protocols.bwb.wti import Wti, parse_wti
from protocols.bwb.xml import parse_xml
from protocols.cvdr.search import CvdrHit
from protocols.downloads import DownloadTruncated, NotServed
from protocols.failures import LawUnknown
from protocols.law_ids import parse_bwb_id

AMSTERDAM: Final = ZoneInfo("Europe/Amsterdam")


@frozen
class BwbDocuments:
    """Everything that the conversion of one text needs.

    ``toestand`` is unparsed; its manifest entry is ``choice``. ``warnings`` are those of manifest and choice; the
    metadata's own are in ``wti.warnings``.
    """

    bwb_id: str
    manifest: Manifest
    choice: Choice
    wti: Wti
    toestand: bytes = field(repr=False)
    warnings: tuple[str, ...]
    sources: tuple[SourceFile, ...]

    @property
    def valid_from(self) -> date:
        """The resolved date: first day of the text."""
        return self.choice.valid_from


def day_in_amsterdam(instant: datetime) -> date:
    """The calendar day that Dutch law goes by (``harvester.md`` 2); ``instant`` bears its zone."""
    return instant.astimezone(AMSTERDAM).date()


def _today() -> date:
    return day_in_amsterdam(datetime.now(UTC))


@define
class LawRepository:
    """The public repositories, or a mirror of them. Failures of the network are those of :mod:`protocols.downloads`.

    ``parity`` maps kinds of regulation exactly as the older harvester did.
    """

    fetcher: Fetcher
    today: Callable[[], date] = _today
    parity: bool = False

    async def fetch_bwb(self, bwb_id: str, day: date | None = None, *, max_bytes: int | None = None) -> BwbDocuments:
        """Fetch the text of a national law for ``day``, or the one in force today, with its metadata.

        ``max_bytes`` limits the text alone. Raises ``InvalidInput`` for a malformed id or a future date,
        ``LawUnknown``, ``NotHarvestable``, ``ManifestIncomplete``, ``TextNotServed``, a ``ConversionError`` for a
        manifest or metadata file that is no XML, and ``DownloadFailed``.
        """
        check_request(parse_bwb_id, bwb_id, day, self.today())
        manifest_file, manifest = await self.bwb_manifest(bwb_id)
        choice = choose(manifest, requested=day, today=self.today())
        wti_file, wti = await self.bwb_wti(bwb_id)
        text_file, doubts = await self.bwb_text(bwb_id, choice.expression, max_bytes=max_bytes)
        return BwbDocuments(
            bwb_id=bwb_id,
            manifest=manifest,
            choice=choice,
            wti=wti,
            toestand=text_file.content,
            warnings=(*choice.warnings, *doubts),
            sources=tuple(source_of(file) for file in (manifest_file, wti_file, text_file)),
        )

    async def bwb_manifest(self, bwb_id: str) -> tuple[Fetched, Manifest]:
        """The manifest of a law, as it is and as read; ``LawUnknown`` where there is none."""
        url = manifest_url(self.fetcher.settings.bwb_repository_url, bwb_id)
        file = await self._manifest_file(url, bwb_id)
        return file, await parsed_file(self.fetcher, file, partial(parse_manifest, bwb_id=bwb_id))

    async def bwb_wti(self, bwb_id: str) -> tuple[Fetched, Wti]:
        """The metadata file of a law, as it is and as read."""
        file = await self.fetcher.get(wti_url(self.fetcher.settings.bwb_repository_url, bwb_id), Purpose.METADATA)
        return file, await parsed_file(self.fetcher, file, partial(parse_wti, bwb_id=bwb_id, parity=self.parity))

    async def bwb_text(
        self, bwb_id: str, expression: Expression, *, max_bytes: int | None = None
    ) -> tuple[Fetched, tuple[str, ...]]:
        """One text, unparsed, and a warning where it is not what the manifest announced; ``TextNotServed``."""
        url = toestand_url(self.fetcher.settings.bwb_repository_url, bwb_id, expression.label)
        file = await get_text(self.fetcher, url, bwb_id, max_bytes)
        return file, await self._compared(file, expression)

    async def search_bwb(self, text: str, *, limit: int = 20, start: int = 1) -> SearchAnswer[BwbHit]:
        """Up to ``limit`` national laws for a name or an id, from record ``start`` on.

        Raises ``SearchRefused`` with the service's own words, ``SearchFailed``, ``DownloadFailed``.
        """
        query = query_of(text)
        if query is None:
            return SearchAnswer(())
        base = self.fetcher.settings.bwb_sru_url
        return await search_works(
            self.fetcher, lambda at: page_url(base, query, start=at), parse_hits, limit=limit, start=start
        )

    async def fetch_cvdr(self, cvdr_id: str, day: date | None = None, *, max_bytes: int | None = None) -> CvdrDocuments:
        """Fetch the version of a decentral regulation; see :func:`actors.ports.cvdrsource.fetch_cvdr`."""
        return await fetch_cvdr(self.fetcher, cvdr_id, day, self.today(), max_bytes=max_bytes)

    async def search_cvdr(self, text: str, *, limit: int = 20, start: int = 1) -> SearchAnswer[CvdrHit]:
        """Up to ``limit`` decentral regulations for a name or an id. Raises like :meth:`search_bwb`."""
        return await search_cvdr(self.fetcher, text, limit=limit, start=start)

    async def forget(self, sources: Iterable[SourceFile]) -> None:
        """Drop files from the download cache, because what was made of them was no good."""
        for source in sources:
            await self.fetcher.forget(source.url)

    async def _manifest_file(self, url: str, law_id: str) -> Fetched:
        try:
            return await self.fetcher.get(url, Purpose.METADATA)
        except NotServed as error:
            raise LawUnknown(
                f"{law_id} is not in the repository: check the id ({error.message})", law_id=law_id, **error.details
            ) from error

    async def _compared(self, file: Fetched, expected: Expression) -> tuple[str, ...]:
        """Compare a text with what the manifest says of it: shorter and broken is cut off, else different is a warning."""
        if expected.sha512 is None and expected.size_bytes is None:
            return ()
        if await trio.to_thread.run_sync(_is_as_announced, file.content, expected):
            return ()
        if expected.size_bytes is not None and len(file.content) < expected.size_bytes:
            try:
                await parsed_file(self.fetcher, file, partial(parse_xml, what=file.url))
            except MalformedLaw as error:  # one that is refused on principle would be refused again
                raise DownloadTruncated(
                    f"{file.url}: {len(file.content)} bytes of {expected.size_bytes}, cut off", url=file.url
                ) from error
        return (f"the text is not the one that the manifest describes: {file.url}",)


def _is_as_announced(content: bytes, expected: Expression) -> bool:
    if expected.sha512 is not None:
        return hashlib.sha512(content).hexdigest() == expected.sha512
    return len(content) == expected.size_bytes
