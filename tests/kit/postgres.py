"""A real PostgreSQL for every test, as pytest fixtures.

- ``database_url``: a fresh, migrated database of its own; ``empty_database_url``: the same, not migrated.
- ``database``: the opened port (``actors.ports.database.Database``) on a fresh, migrated database.
- ``private_postgres``: a whole server of its own that a test may stop, kill, freeze and start again.

One server serves a test process: that of ``DATABASE_URL`` when it is set, else one in a container when an engine
answers, else the embedded one. Databases are copies of a template that is migrated once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
from attrs import define

from actors.ports.database import Database, DatabaseSettings, open_database
from schema.migrate import migrate
from supervisor.embedded import EmbeddedServer, EmbeddedSettings, embedded_server

_CONTAINER_IMAGE = "postgres:16-alpine"
_FILE_COPY_SINCE = 150000
_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30


@define
class PostgresServer:
    """Makes and drops databases on one running server. ``url`` is that of its maintenance database."""

    url: str
    _prefix: str
    _made: int = 0

    def url_of(self, name: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    @contextmanager
    def fresh(self, template: str | None = None) -> Iterator[str]:
        """The URL of a new database, dropped at the end with whoever is still connected."""
        self._made += 1
        name = f"{self._prefix}_{self._made}"
        self.run(_create, name, template)
        try:
            yield self.url_of(name)
        finally:
            self.run(_drop, name)

    def run(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """``fn(connection, *args)`` on the maintenance database, from a synchronous fixture."""
        return run_on(self.url, fn, *args)


def run_on(url: str, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """``fn(connection, *args)`` on a plain asyncpg connection of its own, for synchronous code outside any loop."""

    async def connected() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await fn(connection, *args)
        finally:
            await connection.close()

    return asyncio.run(connected())


async def _create(connection: asyncpg.Connection, name: str, template: str | None) -> None:
    # FILE_COPY is twice as fast as the default where nothing is flushed; servers before 15 know only that way
    how = " STRATEGY FILE_COPY" if await _version(connection) >= _FILE_COPY_SINCE else ""
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template or 'template0'}{how}")


async def _drop(connection: asyncpg.Connection, name: str) -> None:
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


async def _version(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SHOW server_version_num"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for this test process."""
    given = os.environ.get("DATABASE_URL")
    if given:
        source: AbstractContextManager[str] = contextlib.nullcontext(given)
    elif docker_answers():
        source = _container()
    else:
        source = _embedded_url()
    with source as url:
        yield PostgresServer(url, f"regelrecht_test_{uuid4().hex[:12]}")


@pytest.fixture(scope="session")
def _template(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.fresh() as url:
        run_on(url, migrate)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def database_url(postgres_server: PostgresServer, _template: str) -> Iterator[str]:
    """A fresh database with the whole schema."""
    with postgres_server.fresh(_template) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database with nothing in it."""
    with postgres_server.fresh() as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The opened database port on a fresh database with the whole schema."""
    async with open_database(DatabaseSettings(url=database_url)) as opened:
        yield opened


# --- a server that a test may hurt ---------------------------------------------------------------------------------


@define
class PrivatePostgres:
    """A migrated server that belongs to one test. ``url`` stays the same over stops and starts."""

    _server: EmbeddedServer

    @property
    def url(self) -> str:
        return self._server.url

    def stop(self) -> None:
        """A clean shutdown, clients cut off. Then connecting fails until ``start``."""
        self._server.stop()

    def start(self) -> None:
        self._server.start()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """``kill -9`` of the postmaster; ``start`` then recovers what was committed."""
        pid = self._server.pid
        assert pid is not None, "it does not run"
        os.kill(pid, signal.SIGKILL)
        self._server.stop()


@pytest.fixture(scope="session")
def _private_template() -> Iterator[Path]:
    with temporary_folder() as folder:
        with embedded_server(_test_settings(folder / "base")) as server:
            run_on(server.url, migrate)
        yield folder / "base"


@pytest.fixture
def private_postgres(_private_template: Path) -> Iterator[PrivatePostgres]:
    """A server of the test's own, always the embedded one, whatever the other fixtures use."""
    with temporary_folder() as folder:
        copy_tree(_private_template, folder / "base")
        with embedded_server(_test_settings(folder / "base")) as server:
            yield PrivatePostgres(server)


def copy_tree(source: Path, target: Path) -> None:
    """With owners, and without copying bytes where the file system can share them."""
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


@contextmanager
def temporary_folder(place: Path | None = None) -> Iterator[Path]:
    """A folder with a short path that every user may enter, unlike those of pytest: a server that is not root works in it."""
    folder = Path(tempfile.mkdtemp(prefix="rr-", dir=place))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- where the shared server comes from -----------------------------------------------------------------------------


def _test_settings(base: Path) -> EmbeddedSettings:
    return EmbeddedSettings(base=base, durable=False, leave_wait_s=0)


@contextmanager
def _embedded_url() -> Iterator[str]:
    with temporary_folder(_in_memory()) as folder, embedded_server(_test_settings(folder / "base")) as server:
        yield server.url


def _in_memory() -> Path | None:
    """Where files live in memory, if there is room. A database is 500 files, and on a disk that has just removed those of
    the test before, making them takes half a second instead of 15 ms."""
    with contextlib.suppress(OSError):
        if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_SHARED_MEMORY).free > _ROOM_BYTES:
            return _SHARED_MEMORY
    return None


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer(_CONTAINER_IMAGE, driver=None) as container:
        yield container.get_connection_url()


def docker_answers() -> bool:
    """Whether a container engine listens on its socket; asked without any client library."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return False
    with socket.socket(socket.AF_UNIX) as engine:
        engine.settimeout(0.5)
        try:
            engine.connect(host.removeprefix("unix://"))
            engine.sendall(b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return b" 200 " in engine.recv(64)
        except OSError:
            return False
