"""Crawled pages into one JSON object, streamed: ``{"runs": [entry, ...]}`` in the order of the list (``pipelines.md`` 3.6, 7).

Nothing of the workspace is touched. The key belongs to this claim alone and becomes the run's with its success (D65).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio
from attrs import define, field

from actors.jobs.base import Work
from actors.jobs.pipeline_run.crawl import Entry, Tally, crawl_all
from actors.jobs.pipeline_run.ports import BlobStore, Crawler
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.jobs.pipeline_run.writes import written
from protocols.crawl import CrawlOutcome, CrawlStatus, blob_entry, blob_key
from protocols.failures import gravest
from protocols.runs import RunError, RunFailed
from protocols.scrub import payload_to_json
from schema.connection import Connection
from schema.pipelines import items, runs, tombstones
from schema.pipelines.items import ItemResult
from schema.pipelines.runs import RunContext
from schema.rows import Job

CONTENT_TYPE: Final = "application/json"
BATCH: Final = 50
"""Items ticked off in one transaction. If the claim dies the run starts over, so none of them is missed."""


async def store_crawl(
    work: Work,
    context: RunContext,
    entries: Sequence[Entry],
    crawler: Crawler,
    blobs: BlobStore,
    settings: PipelineSettings,
) -> tuple[str, int]:
    """Crawl ``entries`` into a blob: its key and size in bytes. Whatever goes wrong, nothing of it becomes visible."""
    key = blob_key(workspace_id=context.pipeline.workspace_id, run_id=context.run.id, claim_seq=work.job.attempts)
    await written(work, partial(_announce, context, blobs.backend_name, key))
    try:
        return key, await _stream(work, context, entries, crawler, blobs, settings, key)
    except ExceptionGroup as group:
        raise gravest(group) from group


async def _stream(
    work: Work,
    context: RunContext,
    entries: Sequence[Entry],
    crawler: Crawler,
    blobs: BlobStore,
    settings: PipelineSettings,
    key: str,
) -> int:
    stored: list[int] = []

    async def put(parts: trio.MemoryReceiveChannel[bytes]) -> None:
        async with parts:
            stored.append(await blobs.put_stream(key, parts, CONTENT_TYPE))

    async with trio.open_nursery() as nursery:
        send, receive = trio.open_memory_channel[bytes](0)
        nursery.start_soon(put, receive)
        sink = EntrySink(work, context, send, settings.max_result_bytes)
        tally = Tally(len(entries), work.report)
        try:
            await sink.begin()
            await crawl_all(crawler, entries, sink, tally, workers=settings.workers, window=settings.window)
            await sink.end()
        except BaseException:
            # Closing the channel would publish half a stream: the upload is cancelled first.
            nursery.cancel_scope.cancel(reason="the crawl did not come to its end")
            raise
        send.close()
    return stored[-1]


@define
class EntrySink:
    """Entries as they come, in order; their items in batches."""

    work: Work
    context: RunContext
    send: trio.MemorySendChannel[bytes]
    max_bytes: int
    _size_bytes: int = field(init=False, default=0)
    _entries: int = field(init=False, default=0)
    _waiting: list[tuple[int, ItemResult]] = field(init=False, factory=list)

    async def admit(self, entry: Entry) -> bool:
        """Every run fetches everything anew: nothing is left out."""
        return True

    async def take(self, entry: Entry, outcome: CrawlOutcome | None) -> None:
        found = outcome or CrawlOutcome(CrawlStatus.FAILED, error="left out")
        text = payload_to_json(blob_entry(entry.url, found)) or "{}"
        await self._write(f"{',' if self._entries else ''}\n{text}".encode())
        self._entries += 1
        self._waiting.append((entry.ordinal, ItemResult.of(found)))
        if len(self._waiting) >= BATCH:
            await self._tick_off()

    async def begin(self) -> None:
        await self._write(b'{"runs":[')

    async def end(self) -> None:
        await self._write(b"\n]}\n")
        await self._tick_off()

    async def _write(self, data: bytes) -> None:
        self._size_bytes += len(data)
        if self._size_bytes > self.max_bytes:
            raise RunFailed(RunError("result_too_large", f"the result is larger than {self.max_bytes} bytes"))
        await self.send.send(data)

    async def _tick_off(self) -> None:
        batch, self._waiting = self._waiting, []

        async def unit(connection: Connection, job: Job) -> None:
            await runs.owned(connection, job, self.context.run.id)
            await runs.require_leases(connection, job, 2)
            await items.record_many(connection, self.context.run.id, job.attempts, batch)

        await written(self.work, unit)


async def _announce(context: RunContext, backend: str, key: str, connection: Connection, job: Job) -> None:
    await runs.owned(connection, job, context.run.id)
    await tombstones.announce(connection, job, backend=backend, key=key)
