"""Behind a transaction-mode pooler nothing may live in the session (D16, DB-03)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.failures import InvalidInput
from schema.connection import Connection
from supervisor.embedded import EmbeddedSettings, embedded_server
from tests.kit import ledger
from tests.kit.postgres import copy_tree, temporary_folder


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """Pooler settings, without a pooler: what they leave in the session can be looked at."""
    async with open_database(DatabaseSettings(url=database_url, pooler="transaction")) as opened:
        await opened.run(ledger.make)
        yield opened


async def limits(connection: Connection) -> tuple[str, str]:
    return (
        await connection.fetchval("SHOW statement_timeout"),
        await connection.fetchval("SHOW idle_in_transaction_session_timeout"),
    )


async def test_every_unit_is_a_transaction_with_our_limits(db: Database) -> None:
    async def in_transaction(connection: Connection) -> bool:
        first = await connection.fetchval("SELECT txid_current()")
        return bool(first == await connection.fetchval("SELECT txid_current()"))

    for way in (db.run, db.transact, db.beat):
        assert await way(in_transaction)
        assert await way(limits) == ("9500ms", "15s")


async def test_nothing_is_left_in_the_session(db: Database) -> None:
    sessions: dict[int, list[str]] = {}

    async def prepared(connection: Connection) -> list[str]:
        return [row["statement"] for row in await connection.fetch("SELECT statement FROM pg_prepared_statements")]

    async def outside_a_transaction(connection: Connection) -> tuple[str, str]:
        await connection.execute("COMMIT")
        try:
            return await limits(connection)
        finally:
            await connection.execute("BEGIN")

    for id_ in range(5):
        await db.transact(ledger.write, id_)
        sessions[id_] = await db.run(prepared)
    assert set(map(len, sessions.values())) == {0}
    assert await db.run(outside_a_transaction) == ("0", "0")


async def test_there_is_no_listen_and_the_subscription_says_so(db: Database) -> None:
    subscription = db.listen({"regelrecht_jobs"})
    with trio.move_on_after(0.2) as scope:
        await subscription.wakeups.receive()
    assert scope.cancelled_caught
    assert not subscription.proven
    assert db.statistics.pool_max == 4


async def test_migrations_need_the_direct_address(db: Database, database_url: str) -> None:
    with pytest.raises(InvalidInput, match="DATABASE_DIRECT_URL"):
        await db.direct(ledger.backend_pid)
    settings = DatabaseSettings(url=database_url, direct_url=database_url, pooler="transaction")
    async with open_database(settings) as opened:
        assert await opened.direct(limits) == ("0", "0")


# --- through a real pooler -------------------------------------------------------------------------------------------


@pytest.fixture
def pooled_url(_private_template: Path) -> Iterator[str]:
    """A server of its own behind pgbouncer in transaction mode, two server connections for everybody."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    with temporary_folder() as folder:
        base = folder / "base"
        copy_tree(_private_template, base)
        trust = folder / "hba.conf"
        trust.write_text("local all all trust\n")
        settings = EmbeddedSettings(base=base, durable=False, leave_wait_s=0, options={"hba_file": str(trust)})
        with embedded_server(settings) as server, _pgbouncer(program, folder, server.url) as url:
            yield url


@contextmanager
def _pgbouncer(program: str, folder: Path, url: str) -> Iterator[str]:
    sockets = Path(parse_qs(urlsplit(url).query)["host"][0])
    port = _free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={sockets} user=regelrecht\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\n"
    )
    # as the owner of the sockets: it refuses to be root, and nobody else may pass that folder
    owner = sockets.stat()
    become: dict[str, Any] = (
        {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    with subprocess.Popen([program, config], stderr=subprocess.PIPE, text=True, cwd="/", **become) as process:
        try:
            assert process.stderr is not None
            while "process up" not in process.stderr.readline():
                assert process.poll() is None, "pgbouncer does not start"
            yield f"postgresql://regelrecht@127.0.0.1:{port}/postgres?sslmode=disable"
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def test_a_thousand_units_through_a_real_pooler_meet_no_error(pooled_url: str) -> None:
    # DB-03; also CL-06 without session state
    ids = iter(range(1000))

    async def worker(db: Database) -> None:
        for id_ in ids:
            await (db.transact if id_ % 2 else db.run)(ledger.write, id_)

    settings = DatabaseSettings(url=pooled_url, pooler="transaction", max_connections=8)
    async with open_database(settings) as db:
        await db.run(ledger.make)
        async with trio.open_nursery() as nursery:
            for _ in range(7):
                nursery.start_soon(worker, db)
        assert await db.run(ledger.ids) == list(range(1000))
        assert db.statistics.repeated == db.statistics.terminated == db.statistics.loop_errors == 0


async def test_units_cancelled_behind_a_real_pooler_leave_nothing_open(pooled_url: str) -> None:
    settings = DatabaseSettings(url=pooled_url, pooler="transaction")
    async with open_database(settings) as db:
        await db.run(ledger.make)
        for id_ in range(50):
            with trio.move_on_after(0.001 * (id_ % 10)):
                await db.transact(_write_and_dawdle, id_)
        assert await db.run(ledger.ids) == []
        assert await db.run(ledger.open_transactions) == 0


async def _write_and_dawdle(connection: Connection, id_: int) -> None:
    await ledger.write(connection, id_)
    await ledger.dawdle(connection)
