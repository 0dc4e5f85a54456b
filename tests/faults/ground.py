"""The one private PostgreSQL server of a run, with a fresh database for each round, and the lines that lead to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from attrs import define

from schema.migrate import migrate
from supervisor.embedded import EmbeddedServer, EmbeddedSettings, embedded_server
from tests.kit.postgres import PostgresServer, PrivatePostgres, run_on, temporary_folder
from tests.kit.postgres_lines import Lines, lines

MAX_CONNECTIONS = 60


@define
class Ground:
    """``server`` and ``crash`` block: they are called from the main thread, while the lines go on in theirs."""

    server: PrivatePostgres
    lines: Lines
    _embedded: EmbeddedServer
    _databases: PostgresServer
    _template: str

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of a new migrated database. Outside any loop."""
        with self._databases.fresh(self._template) as url:
            yield url

    def crash(self) -> None:
        """An immediate shutdown: no goodbye to clients, recovery at the next start."""
        pid = self._embedded.pid
        assert pid is not None, "it does not run"
        os.kill(pid, signal.SIGQUIT)
        self._embedded.stop()


@contextmanager
def ground() -> Iterator[Ground]:
    """From the main thread, outside any loop."""
    with temporary_folder() as folder:
        settings = EmbeddedSettings(
            base=folder / "base", durable=False, leave_wait_s=0, options={"max_connections": str(MAX_CONNECTIONS)}
        )
        with embedded_server(settings) as embedded:
            databases = PostgresServer(embedded.url, "round")
            with databases.fresh() as url, lines(url) as made:
                run_on(url, migrate)
                template = urlsplit(url).path.removeprefix("/")
                yield Ground(PrivatePostgres(embedded), made, embedded, databases, template)
