"""Our crawler as a run without saving uses it: fetched, extracted, written in order into one blob on the disk."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import trio
from attrs import define, field

from actors.jobs.pipeline_run.crawl import Entry, Tally, crawl_all
from actors.ports.blobs import BlobSettings, open_blobs
from actors.ports.crawler import Crawler, open_crawler
from actors.ports.crawlsettings import CrawlSettings, ExtractSettings
from benchmarks.contestants import tell
from protocols.crawl import CrawlOutcome, blob_entry
from protocols.scrub import payload_to_json
from protocols.webpolicy import WebRules

FETCHERS = 4
EXTRACTORS = 2
EARLY = 1_000
"""Pages after which memory is what it will be."""


@define
class Sink:
    """What the run's own sink does, without its database."""

    send: trio.MemorySendChannel[bytes]
    good: int = 0
    written: int = 0
    resident: dict[int, int] = field(factory=dict)

    async def admit(self, entry: Entry) -> bool:
        return True

    async def take(self, entry: Entry, outcome: CrawlOutcome | None) -> None:
        assert outcome is not None
        self.good += outcome.succeeded
        self.written += 1
        await self.send.send((payload_to_json(blob_entry(entry.url, outcome)) or "{}").encode())
        if self.written % EARLY == 0:
            self.resident[self.written] = _resident_bytes()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def crawl(crawler: Crawler, urls: list[str], folder: Path) -> Sink:
    blobs = await open_blobs(BlobSettings(local_root=folder))
    entries = [Entry(number, url) for number, url in enumerate(urls)]
    async with trio.open_nursery() as nursery:
        send, receive = trio.open_memory_channel[bytes](0)
        nursery.start_soon(blobs.put_stream, "pipeline_runs/1/1/result-1.json", receive)
        async with send:
            sink = Sink(send)
            await crawl_all(
                crawler,
                entries,
                sink,
                Tally(len(entries), lambda document: None),
                workers=FETCHERS,
                window=2 * FETCHERS,
            )
    return sink


async def main(port: int, kind: str, pages: int) -> None:
    settings = CrawlSettings(
        rules=WebRules(ports={port}, allow=("127.0.0.0/8",)),
        host_delay_s=0.0,
        host_concurrency=FETCHERS,
        extract=ExtractSettings(workers=EXTRACTORS),
    )
    urls = [f"http://127.0.0.1:{port}/{kind}/{number}" for number in range(pages)]
    with tempfile.TemporaryDirectory() as folder:
        async with open_crawler(settings) as crawler:
            await crawl(crawler, urls[:20], Path(folder))  # processes started, connections made
            begin = time.perf_counter()
            sink = await crawl(crawler, urls, Path(folder))
            took_s = time.perf_counter() - begin
    assert sink.good == pages, f"{sink.good} of {pages} pages were good"
    tell(took_s=took_s, early_bytes=sink.resident.get(EARLY, 0), most_bytes=max(sink.resident.values(), default=0))


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
