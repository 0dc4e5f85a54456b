"""The pipeline run job: what a pipeline reads is fetched, kept and paid (``pipelines.md`` 2).

``engine`` drives a run through its guards, ``executors`` and ``laws`` do what its connector asks for, ``crawl`` is the
loop over a list, ``indexer`` and ``blobsink`` are where its results go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.jobs import Means
from actors.jobs.base import JobHandler
from actors.jobs.pipeline_run.engine import PipelineRun
from actors.jobs.pipeline_run.executors import WebCrawl
from actors.jobs.pipeline_run.laws import LawHarvest
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.jobs.pipeline_run.tools import CrawlTools
from protocols.connectors import BWB_LAWS, WEB_CRAWLER


@asynccontextmanager
async def open_pipeline_run(means: Means) -> AsyncIterator[JobHandler]:
    """The handler, with an executor for each type of connector that has one."""
    settings = means.get(PipelineSettings)
    async with means.get(CrawlTools).opened() as (crawler, blobs):
        yield PipelineRun(settings, {WEB_CRAWLER: WebCrawl(settings, crawler, blobs), BWB_LAWS: LawHarvest()})
