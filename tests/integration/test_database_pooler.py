"""Behind a transaction-mode pooler nothing may live in the session (D16, DB-03)."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.failures import InvalidInput
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.postgres import PrivatePostgres, temporary_folder


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


@pytest.fixture
def pooled_url(private_postgres: PrivatePostgres) -> Iterator[str]:
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        pytest.skip("no pgbouncer on this machine")
    parts = urlsplit(private_postgres.url)
    with temporary_folder() as folder, _pgbouncer(program, folder, parse_qs(parts.query)["host"][0]) as port:
        yield f"postgresql://regelrecht@127.0.0.1:{port}/postgres?sslmode=disable"


class _pgbouncer:  # noqa: N801 - used like a function
    def __init__(self, program: str, folder: Path, host: str) -> None:
        self.program, self.folder, self.host = program, folder, host

    def __enter__(self) -> int:
        return 0

    def __exit__(self, *_: object) -> None:
        return None
