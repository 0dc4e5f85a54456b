"""What a run asks of the outside: one that crawls, one that keeps results. Real ones are in ``actors.ports``."""

from __future__ import annotations

from typing import Protocol

from protocols.crawl import CrawlOutcome


class Crawler(Protocol):
    async def crawl_url(self, url: str) -> CrawlOutcome:
        """Never raises but when cancelled. Any number at once."""
        ...


class Parts(Protocol):
    """The receiving end of a channel of bytes, closed where the result ends."""

    async def receive(self) -> bytes: ...


class BlobStore(Protocol):
    @property
    def backend_name(self) -> str: ...

    async def put_stream(self, key: str, parts: Parts, content_type: str = "application/json") -> int:
        """Store what ``parts`` gives until its channel is closed, all or nothing; the size in bytes."""
        ...
