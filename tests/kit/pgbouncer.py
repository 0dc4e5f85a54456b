"""A server behind pgbouncer in transaction mode, where that is installed (Debian: ``apt install pgbouncer``).

- ``pooled``: a fresh, migrated database, to be reached through the pooler and directly.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from attrs import frozen

from schema.migrate import migrate
from supervisor.embedded import EmbeddedSettings, embedded_server
from tests.kit.postgres import PostgresServer, run_on, temporary_folder

SERVER_CONNECTIONS = 3
"""For each database, for all clients together: fewer than one supervisor has, so that sessions are really shared."""


@frozen
class Pooled:
    """One database. ``url`` leads through the pooler, ``direct_url`` round it."""

    url: str
    direct_url: str


@frozen
class PooledServer:
    databases: PostgresServer
    template: str
    pooler_url: str


@pytest.fixture(scope="session")
def pooled_server() -> Iterator[PooledServer]:
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    with temporary_folder() as folder:
        trust = folder / "hba.conf"
        trust.write_text("local all all trust\n")
        settings = EmbeddedSettings(
            base=folder / "base", durable=False, leave_wait_s=0, options={"hba_file": str(trust)}
        )
        with embedded_server(settings) as server, _pgbouncer(program, folder, server.url) as pooler_url:
            databases = PostgresServer(server.url, "pooled")
            with databases.fresh() as url:
                run_on(url, migrate)
                yield PooledServer(databases, urlsplit(url).path.removeprefix("/"), pooler_url)


@pytest.fixture
def pooled(pooled_server: PooledServer) -> Iterator[Pooled]:
    """A fresh, migrated database behind the pooler."""
    with pooled_server.databases.fresh(pooled_server.template) as direct_url:
        path = urlsplit(direct_url).path
        yield Pooled(urlsplit(pooled_server.pooler_url)._replace(path=path).geturl(), direct_url)


@contextmanager
def _pgbouncer(program: str, folder: Path, url: str) -> Iterator[str]:
    sockets = Path(parse_qs(urlsplit(url).query)["host"][0])
    port = _free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={sockets} user=regelrecht\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 100\n"
        "server_idle_timeout = 5\n"
    )
    # as the owner of the sockets: it refuses to be root, and nobody else may pass that folder
    owner = sockets.stat()
    become: dict[str, Any] = (
        {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    log = folder / "pgbouncer.log"
    with log.open("wb") as stderr, subprocess.Popen([program, config], stderr=stderr, cwd="/", **become) as process:
        try:
            _await_up(process, log)
            yield f"postgresql://regelrecht@127.0.0.1:{port}/postgres?sslmode=disable"
        finally:
            process.terminate()


def _await_up(process: subprocess.Popen[bytes], log: Path) -> None:
    while "process up" not in log.read_text():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"pgbouncer does not start: {log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
