"""What a run does once all guards have let it through, by type of connector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from attrs import frozen

from actors.jobs.base import Completion, Work
from actors.jobs.pipeline_run.blobsink import store_crawl
from actors.jobs.pipeline_run.crawl import Entry
from actors.jobs.pipeline_run.indexer import Indexer, Stats, Ticking
from actors.jobs.pipeline_run.ports import BlobStore, Crawler
from actors.jobs.pipeline_run.settings import PipelineSettings
from protocols.crawl import INITIAL_URLS, Target, effective_value, freeze_urls, parse_webcrawler_urls
from protocols.credits import Pricing
from protocols.failures import JsonObject
from protocols.runs import no_urls, too_many_urls
from schema.connection import Connection
from schema.pipelines import runs
from schema.pipelines.rows import Item
from schema.pipelines.runs import Published, RunContext
from schema.rows import Job

LEASES = 2
"""Of pipeline and connector."""


class Executor(Protocol):
    """Runs the pipelines of one type of connector."""

    @property
    def pricing(self) -> Pricing | None:
        """None: its runs are never billed."""
        ...

    async def targets(self, work: Work, context: RunContext) -> Sequence[Target]:
        """The list of a run that has none yet. RunFailed where there is nothing to do, or too much (G4, G5)."""
        ...

    def keeps_done(self, context: RunContext) -> bool:
        """Whether a run that is taken up again goes on where it stopped, or starts over."""
        ...

    async def execute(self, work: Work, context: RunContext, items: Sequence[Item]) -> Completion:
        """Do ``items``; the completion's settling part ends the run."""
        ...


@frozen
class WebCrawl:
    """``WEBCRAWLER_CONNECTOR``: pages into documents, or into one blob."""

    settings: PipelineSettings
    crawler: Crawler
    blobs: BlobStore

    @property
    def pricing(self) -> Pricing | None:
        return self.settings.pricing

    async def targets(self, work: Work, context: RunContext) -> Sequence[Target]:
        assert context.connector is not None
        value = effective_value(INITIAL_URLS, context.pipeline.config, context.connector.config)
        targets = freeze_urls(parse_webcrawler_urls(value))
        if not targets:
            raise no_urls()
        if len(targets) > self.settings.max_urls:
            raise too_many_urls(len(targets), self.settings.max_urls)
        return targets

    def keeps_done(self, context: RunContext) -> bool:
        return context.pipeline.save_to_kb

    async def execute(self, work: Work, context: RunContext, items: Sequence[Item]) -> Completion:
        entries = [Entry(item.ordinal, item.target, item.error) for item in items]
        if context.pipeline.save_to_kb:
            return await self._save(work, context, entries)
        return await self._store(work, context, entries)

    async def _save(self, work: Work, context: RunContext, entries: Sequence[Entry]) -> Completion:
        assert context.connector is not None
        stats: Stats = {}
        indexer = Indexer(work, self.crawler, self.settings)
        if entries:  # a run that died after its last page has none left
            await indexer.index_crawled_urls(
                context.connector.id, context.pipeline.workspace_id, context.actor_id,
                folder_id=context.pipeline.destination_folder_id, bill=False, stats=stats, update_last_indexed=True,
                ticking=Ticking(context.run.id, entries, LEASES),
            )  # fmt: skip
        return Completion(_result(context), partial(_succeed, context, None))

    async def _store(self, work: Work, context: RunContext, entries: Sequence[Entry]) -> Completion:
        key, size_bytes = await store_crawl(work, context, entries, self.crawler, self.blobs, self.settings)
        published = Published(self.blobs.backend_name, key, size_bytes, self.settings.retention_days)
        return Completion(_result(context), partial(_succeed, context, published))


async def _succeed(context: RunContext, published: Published | None, connection: Connection, job: Job) -> None:
    await runs.succeed_crawl(connection, job, context, published=published, leases_taken=LEASES)


def _result(context: RunContext) -> JsonObject:
    """What the job says; what was counted stands in the run."""
    return {"run_id": context.run.id, "pipeline_id": context.pipeline.id, "status": "succeeded"}
