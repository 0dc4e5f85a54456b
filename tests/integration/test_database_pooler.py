"""Behind a transaction-mode pooler nothing may live in the session (D16, DB-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.failures import InvalidInput
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.pgbouncer import Pooled


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


async def test_a_thousand_units_through_a_real_pooler_meet_no_error(pooled: Pooled) -> None:
    # DB-03; also CL-06 without session state
    ids = iter(range(1000))

    async def worker(db: Database) -> None:
        for id_ in ids:
            await (db.transact if id_ % 2 else db.run)(ledger.write, id_)

    settings = DatabaseSettings(url=pooled.url, pooler="transaction", max_connections=8)
    async with open_database(settings) as db:
        await db.run(ledger.make)
        async with trio.open_nursery() as nursery:
            for _ in range(7):
                nursery.start_soon(worker, db)
        assert await db.run(ledger.ids) == list(range(1000))
        assert db.statistics.repeated == db.statistics.terminated == db.statistics.loop_errors == 0


async def test_units_cancelled_behind_a_real_pooler_leave_nothing_open(pooled: Pooled) -> None:
    settings = DatabaseSettings(url=pooled.url, pooler="transaction")
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
