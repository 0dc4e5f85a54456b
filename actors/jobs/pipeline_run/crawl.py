"""Crawl a list with a few workers, and hand the outcomes on one by one in the order of the list.

A target is handed out only while it is less than a window ahead of what was handed on, so that a slow page at the front
holds the rest back instead of filling the memory: at most a window of pages is held, however long the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import structlog
import trio
from attrs import define, field, frozen

from actors.jobs.pipeline_run.ports import Crawler
from protocols.crawl import CrawlOutcome, CrawlStatus
from protocols.failures import JsonObject, gravest

MAX_HOST: Final = 100

_log = structlog.get_logger(__name__)


@frozen
class Entry:
    """One URL. ``ordinal`` is its place in the whole list of the run; ``fault``: it cannot be tried, and why."""

    ordinal: int
    url: str
    fault: str | None = None


class Sink(Protocol):
    """Where outcomes go: one at a time, in order."""

    async def admit(self, entry: Entry) -> bool:
        """Right before the fetch, from any worker. False: leave it out."""
        ...

    async def take(self, entry: Entry, outcome: CrawlOutcome | None) -> None:
        """None: it was left out."""
        ...


@define
class Tally:
    """What people see while it runs. No text of a page, and of a URL the host alone."""

    total: int
    report: Callable[[JsonObject], object]
    done: int = 0
    counts: dict[str, int] = field(factory=lambda: {"succeeded": 0, "empty": 0, "failed": 0, "skipped": 0})
    size_bytes: int = 0
    host: str = ""

    def begins(self, entry: Entry) -> None:
        try:
            self.host = (urlsplit(entry.url).hostname or "")[:MAX_HOST]
        except ValueError:
            self.host = ""
        self._tell()

    def ended(self, outcome: CrawlOutcome | None) -> None:
        word = "skipped" if outcome is None else _WORDS[outcome.status]
        self.counts[word] += 1
        self.done += 1
        self.size_bytes += 0 if outcome is None else outcome.size_bytes
        self._tell()

    def _tell(self) -> None:
        document: dict[str, Any] = {"phase": "crawl", "done": self.done, "total": self.total, **self.counts}
        self.report({**document, "current_host": self.host, "bytes": self.size_bytes})


_WORDS: Final = {CrawlStatus.SUCCESS: "succeeded", CrawlStatus.EMPTY: "empty", CrawlStatus.FAILED: "failed"}


async def crawl_all(
    crawler: Crawler, entries: Sequence[Entry], sink: Sink, tally: Tally, *, workers: int, window: int
) -> None:
    """Every entry, to its end. What the sink raises ends it, as it is; what a page does never does."""
    try:
        await _crawl_all(crawler, entries, sink, tally, workers, window)
    except ExceptionGroup as group:
        raise gravest(group) from group


async def _crawl_all(
    crawler: Crawler, entries: Sequence[Entry], sink: Sink, tally: Tally, workers: int, window: int
) -> None:
    async with trio.open_nursery() as nursery:
        hand_out, handed = trio.open_memory_channel[tuple[int, Entry]](0)
        hand_in, results = trio.open_memory_channel[tuple[int, CrawlOutcome | None]](workers)
        ahead = trio.Semaphore(window)
        nursery.start_soon(_dispatch, entries, hand_out, ahead)
        async with handed, hand_in:
            for _ in range(min(workers, len(entries))):
                nursery.start_soon(_work, crawler, sink, tally, handed.clone(), hand_in.clone())
        async with results:
            await _collect(entries, results, sink, tally, ahead)


async def _dispatch(
    entries: Sequence[Entry], hand_out: trio.MemorySendChannel[tuple[int, Entry]], ahead: trio.Semaphore
) -> None:
    async with hand_out:
        for position, entry in enumerate(entries):
            await ahead.acquire()
            await hand_out.send((position, entry))


async def _work(
    crawler: Crawler,
    sink: Sink,
    tally: Tally,
    handed: trio.MemoryReceiveChannel[tuple[int, Entry]],
    hand_in: trio.MemorySendChannel[tuple[int, CrawlOutcome | None]],
) -> None:
    async with handed, hand_in:
        async for position, entry in handed:
            admitted = await sink.admit(entry)
            if admitted:
                tally.begins(entry)
            await hand_in.send((position, await _crawl(crawler, entry) if admitted else None))


async def _crawl(crawler: Crawler, entry: Entry) -> CrawlOutcome:
    if entry.fault is not None:
        return CrawlOutcome(CrawlStatus.FAILED, error=entry.fault)
    try:
        return await crawler.crawl_url(entry.url)
    except Exception as error:  # noqa: BLE001 - one bad URL never ends a run; the log has what is ours to repair
        _log.exception("the crawler raised", host=urlsplit(entry.url).hostname)
        return CrawlOutcome(CrawlStatus.FAILED, error=f"the crawler broke: {type(error).__name__}")


async def _collect(
    entries: Sequence[Entry],
    results: trio.MemoryReceiveChannel[tuple[int, CrawlOutcome | None]],
    sink: Sink,
    tally: Tally,
    ahead: trio.Semaphore,
) -> None:
    early: dict[int, CrawlOutcome | None] = {}
    next_position = 0
    async for position, outcome in results:
        early[position] = outcome
        while next_position in early:
            ready = early.pop(next_position)
            await sink.take(entries[next_position], ready)
            tally.ended(ready)
            ahead.release()
            next_position += 1
