"""Crawled pages into documents (``pipelines.md`` 3.5): one function for pipelines that save and for connectors by themselves.

A pipeline run pays as a whole, at its end, so it calls with ``bill=False``; a connector job pays for itself. That flag is
the only seam between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from attrs import define, field, frozen

from actors.jobs.base import Work
from actors.jobs.pipeline_run.crawl import Entry, Tally, crawl_all
from actors.jobs.pipeline_run.ports import Crawler
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.jobs.pipeline_run.writes import written
from actors.ports.queue import UnitOfWork
from protocols.crawl import INITIAL_URLS, CrawlOutcome, CrawlStatus, freeze_urls, parse_webcrawler_urls
from protocols.credits import InsufficientCredits
from protocols.failures import LeaseLost, SupervisorError
from protocols.runs import DocAction, ItemOutcome, RunCounts
from schema.connection import Connection
from schema.pipelines import documents, indexing, items, runs
from schema.pipelines.documents import Filed, Shelf
from schema.pipelines.indexing import IndexContext
from schema.pipelines.items import ItemResult
from schema.rows import Job

Stats = dict[str, int]
"""``documents_indexed``, ``crawls_attempted``, ``crawls_succeeded``: an out parameter, filled as the crawl goes on."""

ISSUES: Final = "Completed with issues: "
"""What a warning begins with; any other text means that nothing was indexed."""

_log = structlog.get_logger(__name__)


@frozen
class Ticking:
    """The run whose items are ticked off with the documents, in one transaction. ``leases`` it must still have."""

    run_id: int
    entries: Sequence[Entry]
    leases: int = 2


@define
class Indexer:
    """For one job. After a call with ``bill=True``, ``settle`` is what its completion must run."""

    work: Work
    crawler: Crawler
    settings: PipelineSettings
    settle: UnitOfWork | None = field(init=False, default=None)

    async def index_crawled_urls(
        self,
        connector_id: int,
        workspace_id: int,
        user_id: UUID,
        *,
        folder_id: int | None = None,
        urls: Sequence[str] | None = None,
        bill: bool = True,
        stats: Stats | None = None,
        update_last_indexed: bool = True,
        on_heartbeat: Callable[[int], object] | None = None,
        ticking: Ticking | None = None,
    ) -> tuple[int, str | None]:
        """Documents created or updated, and None, a warning (``Completed with issues: ...``) or an error.

        ``urls`` None: the connector's own list. ``stats`` is zeroed first. A fatal error raises when ``stats`` was given
        (the caller counts on them) and is returned otherwise; a lost lease always raises. ``on_heartbeat`` hears the
        number of URLs done. ``folder_id`` None is the root for new documents.
        """
        counted: Stats = {} if stats is None else stats
        counted.update(documents_indexed=0, crawls_attempted=0, crawls_succeeded=0)
        try:
            return await self._index(
                Shelf(workspace_id, connector_id, user_id, folder_id, None if ticking is None else ticking.run_id),
                urls, bill, counted, update_last_indexed, on_heartbeat, ticking,
            )  # fmt: skip
        except LeaseLost:
            raise
        except InsufficientCredits as poor:
            if stats is not None:
                raise
            return 0, f"Insufficient crawl credit: {poor.message}"
        except Exception as error:
            if stats is not None:
                raise
            _log.exception("indexing of a connector failed", connector=connector_id)
            return 0, error.message if isinstance(error, SupervisorError) else f"{type(error).__name__}: {error}"

    async def _index(
        self,
        shelf: Shelf,
        urls: Sequence[str] | None,
        bill: bool,
        stats: Stats,
        update_last_indexed: bool,
        on_heartbeat: Callable[[int], object] | None,
        ticking: Ticking | None,
    ) -> tuple[int, str | None]:
        entries = ticking.entries if ticking is not None else await self._own_entries(shelf.connector_id, urls)
        if not entries:
            return 0, "no URLs to crawl"
        context: IndexContext | None = None
        if bill:
            context = await self._hold(shelf.connector_id, len(entries))
        await written(self.work, partial(_open, shelf, [entry.url for entry in entries]))
        sink = DocumentSink(self.work, shelf, stats, on_heartbeat, ticking)
        tally = Tally(len(entries), self.work.report)
        await crawl_all(self.crawler, entries, sink, tally, workers=self.settings.workers, window=self.settings.window)
        if update_last_indexed:
            await written(self.work, partial(_touch, shelf.connector_id))
        if context is not None:
            self.settle = partial(_settle, context, len(entries), stats, self.settings)
        return stats["documents_indexed"], _warning(sink.counts)

    async def _own_entries(self, connector_id: int, urls: Sequence[str] | None) -> list[Entry]:
        if urls is None:
            context = await written(self.work, partial(_load, connector_id))
            urls = parse_webcrawler_urls(context.connector.config.get(INITIAL_URLS))
        return [Entry(number, target.text, target.fault) for number, target in enumerate(freeze_urls(urls))]

    async def _hold(self, connector_id: int, crawls: int) -> IndexContext:
        async def unit(connection: Connection, job: Job) -> IndexContext:
            context = await indexing.load(connection, connector_id)
            await indexing.hold_credit(connection, job, context.owner_id, crawls, self.settings.pricing)
            return context

        return await written(self.work, unit)


@define
class DocumentSink:
    """One document after the other, each in a transaction of its own with the item that it ticks off."""

    work: Work
    shelf: Shelf
    stats: Stats
    on_heartbeat: Callable[[int], object] | None = None
    ticking: Ticking | None = None
    counts: RunCounts = field(init=False, factory=RunCounts)

    async def admit(self, entry: Entry) -> bool:
        """Processing. False: another claim is at this document."""

        async def unit(connection: Connection, job: Job) -> bool:
            await self._fence(connection, job)
            return await documents.start(connection, job, self.shelf, entry.url)

        return await written(self.work, unit)

    async def take(self, entry: Entry, outcome: CrawlOutcome | None) -> None:
        """The result, or a failed document where this one result cannot be stored."""
        try:
            filed = await self._file(entry, outcome)
        except SupervisorError:
            raise
        except Exception as error:  # noqa: BLE001 - one page that the database refuses never ends a run
            _log.exception("a crawled page could not be stored", document=entry.ordinal)
            outcome = CrawlOutcome(CrawlStatus.FAILED, error=f"{type(error).__name__}: {error}")
            filed = await self._file(entry, outcome)
        self._count(outcome, filed)

    async def _file(self, entry: Entry, outcome: CrawlOutcome | None) -> Filed:
        async def unit(connection: Connection, job: Job) -> Filed:
            await self._fence(connection, job)
            filed = (
                Filed() if outcome is None else await documents.finish(connection, job, self.shelf, entry.url, outcome)
            )
            if self.ticking is not None:
                result = _skipped() if outcome is None else ItemResult.of(outcome, filed.action, filed.document_id)
                await items.record(connection, self.ticking.run_id, job.attempts, entry.ordinal, result)
            return filed

        return await written(self.work, unit)

    async def _fence(self, connection: Connection, job: Job) -> None:
        """Connector, then run (the order of locks), then the leases: whatever is gone ends this."""
        await indexing.require(connection, self.shelf.connector_id)
        if self.ticking is not None:
            await runs.owned(connection, job, self.ticking.run_id)
        await runs.require_leases(connection, job, 1 if self.ticking is None else self.ticking.leases)

    def _count(self, outcome: CrawlOutcome | None, filed: Filed) -> None:
        """Successes are counted before anybody asks what became of the document: money comes from them alone."""
        old = self.counts
        self.counts = RunCounts(
            targets=old.targets + 1,
            success=old.success + (outcome is not None and outcome.succeeded),
            empty=old.empty + (outcome is not None and outcome.status is CrawlStatus.EMPTY),
            failed=old.failed + (outcome is not None and outcome.status is CrawlStatus.FAILED),
            skipped=old.skipped + (outcome is None),
            created=old.created + (filed.action is DocAction.CREATED),
            updated=old.updated + (filed.action is DocAction.UPDATED),
        )
        self.stats.update(
            documents_indexed=self.counts.documents_indexed,
            crawls_attempted=self.counts.attempted,
            crawls_succeeded=self.counts.success,
        )
        if self.on_heartbeat is not None:
            self.on_heartbeat(self.counts.targets)


@frozen
class IndexReport:
    """What an indexer of any kind said, unpacked. ``text`` may be a warning or an error: see ``failed``."""

    indexed: int
    skipped: int
    text: str | None

    @property
    def failed(self) -> bool:
        return self.text is not None and not self.text.startswith(ISSUES)


def unpack_indexed(result: tuple[Any, ...]) -> IndexReport:
    """Indexers return (count, text), some (count, skipped, text): by length, for all of them."""
    if len(result) == 3:
        indexed, skipped, text = result
    else:
        indexed, text = result
        skipped = 0
    return IndexReport(indexed, skipped, text)


def _warning(counts: RunCounts) -> str | None:
    troubled = counts.empty + counts.failed
    return f"{ISSUES}{troubled} of {counts.targets} URLs gave no document" if troubled else None


def _skipped() -> ItemResult:
    return ItemResult(ItemOutcome.SKIPPED, DocAction.NONE, error="another crawl is at this document")


async def _open(shelf: Shelf, urls: Sequence[str], connection: Connection, job: Job) -> None:
    await indexing.require(connection, shelf.connector_id)
    await documents.open_all(connection, job, shelf, urls)


async def _touch(connector_id: int, connection: Connection, _: Job) -> None:
    await indexing.touch(connection, connector_id)


async def _load(connector_id: int, connection: Connection, _: Job) -> IndexContext:
    return await indexing.load(connection, connector_id)


async def _settle(
    context: IndexContext,
    urls: int,
    stats: Mapping[str, int],
    settings: PipelineSettings,
    connection: Connection,
    job: Job,
) -> None:
    successes = stats["crawls_succeeded"]
    cost = settings.pricing.successes_to_micros(successes)
    await indexing.settle(connection, job, context, urls=urls, cost_micros=cost, successes=successes)
