"""The crawler and the blob store of a supervisor: opened by the first job type that needs them, shared by all.

One crawler for the process, because its manners (one request a host, a second apart) hold for the process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define, field

from actors.jobs.pipeline_run.ports import BlobStore, Crawler
from actors.ports.blobs import BlobSettings, open_blobs
from actors.ports.crawler import open_crawler
from actors.ports.crawlsettings import CrawlSettings


@define
class CrawlTools:
    """Offered to job types. Whoever opens first closes last, so openings must nest, as those of a supervisor do."""

    crawl: CrawlSettings
    blob: BlobSettings
    _opened: tuple[Crawler, BlobStore] | None = field(init=False, default=None)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Crawler, BlobStore]]:
        """InvalidInput when the blob store cannot be used."""
        if self._opened is not None:
            yield self._opened
            return
        async with open_crawler(self.crawl) as crawler:
            self._opened = crawler, await open_blobs(self.blob)
            try:
                yield self._opened
            finally:
                self._opened = None
