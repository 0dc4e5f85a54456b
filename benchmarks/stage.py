"""A durable PostgreSQL for the length of the benchmarks, with a database per contestant."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
from attrs import define, field

from schema.migrate import migrate
from supervisor.embedded import EmbeddedSettings, embedded_server

T = TypeVar("T")


@define
class Stage:
    """``url`` is the maintenance database of the server; fsync is on, as in production."""

    url: str
    _made: int = field(init=False, default=0)

    def database(self, *, migrated: bool = True) -> str:
        """The URL of a new database, with our schema unless told otherwise."""
        self._made += 1
        name = f"bench_{self._made}"
        on(self.url, lambda connection: connection.execute(f"CREATE DATABASE {name}"))
        url = urlsplit(self.url)._replace(path=f"/{name}").geturl()
        if migrated:
            on(url, migrate)
        return url


def on(url: str, unit: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run one asyncio function with a connection of its own."""

    async def main() -> T:
        connection = await asyncpg.connect(url)
        try:
            return await unit(connection, *args)
        finally:
            await connection.close()

    return asyncio.run(main())


@contextmanager
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="regelrecht-bench-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        settings = EmbeddedSettings(base=folder / "postgres", options={"shared_buffers": "512MB"})
        with embedded_server(settings) as server:
            yield Stage(server.url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
