"""From a law id to its documents: what to fetch, in which order, and what a missing file means (``harvester.md`` 16).

Parsing runs in worker threads: metadata files have megabytes, and the loop must not stand still for 50 ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from functools import partial
from typing import Final, Generic, Protocol, TypeVar
from zoneinfo import ZoneInfo

import trio
from attrs import define, field, frozen

from actors.ports.fetch import Fetched, Fetcher, Purpose
from protocols.bwb import search as bwb_search
from protocols.bwb.errors import ConversionError
from protocols.bwb.manifest import Choice, Expression, Manifest, choose, parse_manifest
from protocols.bwb.search import BwbHit
from protocols.bwb.urls import manifest_url, toestand_url, wti_url
from protocols.bwb.wti import Wti, parse_wti
from protocols.bwb.xml import parse_xml
from protocols.downloads import DownloadFailed, DownloadTruncated, NotServed, RedirectLoop
from protocols.failures import InvalidInput, Permanent
from protocols.law_ids import InvalidLawId, parse_bwb_id

AMSTERDAM: Final = ZoneInfo("Europe/Amsterdam")
_MAX_SEARCH_PAGES: Final = 10

Hit = TypeVar("Hit")
HitOut = TypeVar("HitOut", covariant=True)
Parsed = TypeVar("Parsed")


class LawUnknown(Permanent):
    """The repository has no manifest of this id (404 or 410): no such law, so a retry cannot help (D35)."""

    kind = "law_unknown"


class TextNotServed(DownloadFailed):
    """The manifest names a text that the repository does not hand out; it may be about to be replaced (BW-03)."""

    kind = "text_not_served"


@frozen
class SourceFile:
    """One file that a law was made from; ``sha256`` is of the unpacked bytes, ``from_cache`` means unchanged (304)."""

    url: str
    sha256: str
    size_bytes: int
    from_cache: bool


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


@frozen
class SearchAnswer(Generic[Hit]):
    """Works, one hit each, in the order of the service.

    ``total_records`` counts consolidated texts, not works. ``next_start`` is where to go on, ``None`` at the end.
    """

    hits: tuple[Hit, ...]
    total_records: int = 0
    next_start: int | None = None


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
            sources=tuple(_source(file) for file in (manifest_file, wti_file, text_file)),
        )

    async def bwb_manifest(self, bwb_id: str) -> tuple[Fetched, Manifest]:
        """The manifest of a law, as it is and as read; ``LawUnknown`` where there is none."""
        url = manifest_url(self.fetcher.settings.bwb_repository_url, bwb_id)
        file = await self._manifest_file(url, bwb_id)
        return file, await self._parsed(file, partial(parse_manifest, bwb_id=bwb_id))

    async def bwb_wti(self, bwb_id: str) -> tuple[Fetched, Wti]:
        """The metadata file of a law, as it is and as read."""
        file = await self.fetcher.get(wti_url(self.fetcher.settings.bwb_repository_url, bwb_id), Purpose.METADATA)
        return file, await self._parsed(file, partial(parse_wti, bwb_id=bwb_id, parity=self.parity))

    async def bwb_text(
        self, bwb_id: str, expression: Expression, *, max_bytes: int | None = None
    ) -> tuple[Fetched, tuple[str, ...]]:
        """One text, unparsed, and a warning where it is not what the manifest announced; ``TextNotServed``."""
        url = toestand_url(self.fetcher.settings.bwb_repository_url, bwb_id, expression.label)
        file = await self._text_file(url, bwb_id, max_bytes)
        return file, await self._compared(file, expression)

    async def search_bwb(self, text: str, *, limit: int = 20, start: int = 1) -> SearchAnswer[BwbHit]:
        """Up to ``limit`` national laws for a name or an id, from record ``start`` on.

        Raises ``SearchRefused`` with the service's own words, ``SearchFailed``, ``DownloadFailed``.
        """
        query = bwb_search.query_of(text)
        if query is None:
            return SearchAnswer(())
        url = partial(bwb_search.page_url, self.fetcher.settings.bwb_sru_url, query)
        return await self._search(lambda at: url(start=at), bwb_search.parse_hits, limit, start)

    async def forget(self, sources: Iterable[SourceFile]) -> None:
        """Drop files from the download cache, because what was made of them was no good."""
        for source in sources:
            await self.fetcher.forget(source.url)

    async def _search(
        self, url: Callable[[int], str], parse: Callable[..., HitPage[Hit]], limit: int, start: int
    ) -> SearchAnswer[Hit]:
        """Ask page after page until ``limit`` works are found: twenty records can be twenty versions of one law."""
        found: dict[str, Hit] = {}
        total, at = 0, start
        for _ in range(_MAX_SEARCH_PAGES):
            file = await self.fetcher.get(url(at), Purpose.SEARCH)
            page = await self._parsed(file, partial(parse, start=at))
            total = page.total_records
            for position, key, hit in page.hits:
                if key not in found and len(found) >= limit:
                    return SearchAnswer(tuple(found.values()), total, position)
                found.setdefault(key, hit)
            if page.next_start is None:
                return SearchAnswer(tuple(found.values()), total)
            at = page.next_start
        return SearchAnswer(tuple(found.values()), total, at)

    async def _manifest_file(self, url: str, law_id: str) -> Fetched:
        try:
            return await self.fetcher.get(url, Purpose.METADATA)
        except NotServed as error:
            raise LawUnknown(
                f"{law_id} is not in the repository: check the id ({error.message})", law_id=law_id, **error.details
            ) from error

    async def _text_file(self, url: str, law_id: str, max_bytes: int | None) -> Fetched:
        try:
            return await self.fetcher.get(url, Purpose.CONTENT, max_bytes=max_bytes)
        except (NotServed, RedirectLoop) as error:
            raise TextNotServed(
                f"{law_id}: the manifest names a text that is not served, perhaps deleted ({error.message})",
                law_id=law_id,
                **error.details,
            ) from error

    async def _parsed(self, file: Fetched, parse: Callable[[bytes], Parsed]) -> Parsed:
        """Parse in a thread. What cannot be read must not come back from the cache next time."""
        try:
            return await trio.to_thread.run_sync(parse, file.content)
        except ConversionError:
            await self.fetcher.forget(file.url)
            raise

    async def _compared(self, file: Fetched, expected: Expression) -> tuple[str, ...]:
        """Compare a text with what the manifest says of it: shorter and broken is cut off, else different is a warning."""
        if expected.sha512 is None and expected.size_bytes is None:
            return ()
        if await trio.to_thread.run_sync(_is_as_announced, file.content, expected):
            return ()
        if expected.size_bytes is not None and len(file.content) < expected.size_bytes:
            try:
                await self._parsed(file, partial(parse_xml, what=file.url))
            except ConversionError as error:
                raise DownloadTruncated(
                    f"{file.url}: {len(file.content)} bytes of {expected.size_bytes}, cut off", url=file.url
                ) from error
        return (f"the text is not the one that the manifest describes: {file.url}",)


class HitPage(Protocol[HitOut]):
    """What a page parser gives: per hit its record position, the id of its work, and itself."""

    @property
    def hits(self) -> tuple[tuple[int, str, HitOut], ...]: ...
    @property
    def total_records(self) -> int: ...
    @property
    def next_start(self) -> int | None: ...


def check_request(parse_id: Callable[[str], object], law_id: str, day: date | None, today: date) -> None:
    """Refuse a malformed id or a date after ``today`` before anybody is asked (``InvalidInput``)."""
    try:
        parse_id(law_id)
    except InvalidLawId as error:
        raise InvalidInput(str(error), law_id=law_id[:80]) from None
    if day is not None and day > today:
        raise InvalidInput(
            f"{law_id}: the date {day.isoformat()} lies after today ({today.isoformat()})", law_id=law_id
        )


def _is_as_announced(content: bytes, expected: Expression) -> bool:
    if expected.sha512 is not None:
        return hashlib.sha512(content).hexdigest() == expected.sha512
    return len(content) == expected.size_bytes


def _source(file: Fetched) -> SourceFile:
    return SourceFile(file.url, file.sha256, len(file.content), file.from_cache)
