"""The connector index job: a connector that fetches what it is for, without a pipeline (``pipelines.md`` 3.5, 5 step 3).

It takes the very lease that a pipeline run takes, so that one connector is never crawled twice at once, and pays for its
own crawls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from attrs import frozen

from actors.jobs import Means
from actors.jobs.base import Completion, JobHandler, Work
from actors.jobs.pipeline_run.indexer import Indexer, IndexReport, unpack_indexed
from actors.jobs.pipeline_run.ports import Crawler
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.jobs.pipeline_run.tools import CrawlTools
from actors.jobs.pipeline_run.writes import written
from protocols import runs as texts
from protocols.connectors import WEB_CRAWLER
from protocols.failures import JsonObject, LeaseLost, Permanent, SupervisorError
from protocols.runs import RunGone, claim_holder
from schema.connection import Connection
from schema.pipelines import indexing, leases
from schema.pipelines.aftercare import give_back_index_hold
from schema.pipelines.indexing import ConnectorNotFound, IndexContext
from schema.pipelines.leases import Resource
from schema.rows import Job, JobType


class IndexingFailed(Permanent):
    """Nothing was indexed. The next time is that of the schedule."""

    kind = "indexing_failed"


@frozen
class ConnectorIndex:
    """The handler."""

    settings: PipelineSettings
    crawler: Crawler
    job_type: JobType = JobType.CONNECTOR_INDEX

    async def run(self, work: Work) -> Completion:
        """IndexingFailed where nothing came of it; a connector that was deleted meanwhile is no failure."""
        connector_id = indexing.read_index_payload(work.job.payload)
        try:
            context = await written(work, partial(_load, connector_id))
            return await self._index(work, context)
        except (RunGone, ConnectorNotFound):
            return Completion({"gone": True}, _let_go)
        except (LeaseLost, IndexingFailed):
            raise
        except SupervisorError as error:
            raise IndexingFailed(texts.shown(error.message)) from error

    async def _index(self, work: Work, context: IndexContext) -> Completion:
        connector = context.connector
        if not self.settings.registry.is_pipeline_eligible(connector.connector_type):
            raise IndexingFailed(texts.connector_ineligible(connector.connector_type).message)
        if connector.connector_type != WEB_CRAWLER:
            raise IndexingFailed(texts.executor_missing(connector.connector_type).message)
        await written(work, partial(_take_lease, connector.id, self.settings.lease_ttl_s))
        work.started()
        indexer = Indexer(work, self.crawler, self.settings)
        report = unpack_indexed(
            await indexer.index_crawled_urls(connector.id, connector.workspace_id, connector.owner_id)
        )
        if report.failed:
            raise IndexingFailed(texts.shown(report.text or ""))
        return Completion(_result(connector.id, report), indexer.settle)


@asynccontextmanager
async def open_connector_index(means: Means) -> AsyncIterator[JobHandler]:
    """The handler, with the crawler that pipeline runs use too."""
    async with means.get(CrawlTools).opened() as (crawler, _):
        yield ConnectorIndex(means.get(PipelineSettings), crawler)


async def _load(connector_id: int, connection: Connection, _: Job) -> IndexContext:
    return await indexing.load(connection, connector_id)


async def _take_lease(connector_id: int, ttl_s: float, connection: Connection, job: Job) -> None:
    await indexing.require(connection, connector_id)
    holder = claim_holder(job.id, job.attempts)
    if not await leases.acquire(connection, Resource.CONNECTOR, connector_id, holder, ttl_s=ttl_s):
        raise IndexingFailed(texts.connector_busy().message)


async def _let_go(connection: Connection, job: Job) -> None:
    await give_back_index_hold(connection, job)
    await leases.release(connection, claim_holder(job.id, job.attempts))


def _result(connector_id: int, report: IndexReport) -> JsonObject:
    return {"connector_id": connector_id, "documents_indexed": report.indexed, "warning": report.text}
