"""Cancelling units at every moment: the pool is whole afterwards, and what was promised about the write holds."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, Units, open_database
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.postgres import PrivatePostgres, temporary_folder
from tests.kit.postgres_proxy import lossy_proxy


@pytest.fixture
async def db(database: Database) -> AsyncIterator[Database]:
    await database.run(ledger.make)
    yield database
    # what every test of this file must leave behind (DB-04)
    figures = database.statistics
    assert figures.pool_idle == figures.pool_size
    assert figures.pool_in_use == figures.waiting == figures.loop_errors == 0
    assert await database.run(ledger.open_transactions) == 0


async def write_and_dawdle(connection: Connection, id_: int, begun: trio.Event) -> None:
    await ledger.write(connection, id_)
    begun.set()
    await ledger.dawdle(connection)


async def commit_slowly(connection: Connection, id_: int, begun: trio.Event, *, seconds: float) -> int:
    """The COMMIT itself takes ``seconds``: a deferred trigger dawdles in it."""
    await connection.execute(
        "CREATE OR REPLACE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    )
    await connection.execute(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION dawdle()"
    )
    await ledger.write(connection, id_)
    begun.set()
    return id_


async def test_a_unit_cancelled_in_a_query_rolls_back_and_its_connection_goes_home(db: Database) -> None:
    pid = await db.run(ledger.backend_pid)
    begun = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.transact, write_and_dawdle, 1, begun)
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert await db.run(ledger.ids) == []
    assert await db.run(ledger.backend_pid) == pid, "the same connection serves again"
    assert db.statistics.terminated == 0


async def test_a_unit_that_waits_for_a_connection_is_cancelled_at_once(db: Database) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(db.run, ledger.dawdle)
        while db.statistics.pool_in_use < 3:
            await trio.lowlevel.checkpoint()
        with trio.move_on_after(0.05) as scope:
            await db.transact(ledger.write, 1)
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
    assert await db.run(ledger.ids) == []


async def test_a_unit_in_a_cancelled_scope_never_begins(db: Database) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await db.transact(ledger.write, 1)
    assert scope.cancelled_caught
    assert await db.run(ledger.ids) == []


async def test_a_cancelled_transaction_wrote_nothing_and_a_finished_one_wrote_all(db: Database) -> None:
    """200 deadlines spread over the life of a unit. Never is a result lost that landed, nor a cancelled one kept."""
    told: list[int] = []
    dice = random.Random(20261130)
    for id_ in range(200):
        with trio.move_on_after(dice.uniform(0, 0.002)):
            told.append(await db.transact(ledger.write, id_))
    assert await db.run(ledger.ids) == told
    assert 0 < len(told) < 200, "the deadlines fell on both sides"


async def test_two_hundred_cancelled_units_at_once_leave_the_pool_whole(db: Database) -> None:
    dice = random.Random(547)

    async def one(id_: int) -> None:
        with trio.move_on_after(dice.uniform(0, 0.05)):
            await db.transact(write_and_dawdle, id_, trio.Event())

    for _ in range(25):
        async with trio.open_nursery() as nursery:
            for id_ in range(8):
                nursery.start_soon(one, id_)
    assert await db.run(ledger.ids) == []
    assert db.statistics.pool_size == 3


async def test_fifty_cancelled_row_locks_leave_no_lock_no_transaction_and_a_port_that_closes(database_url: str) -> None:
    # DB-04
    dice = random.Random(4)

    async def lock_the_row(connection: Connection) -> None:
        await connection.execute("SELECT * FROM ledger FOR UPDATE")
        await ledger.dawdle(connection)

    async with open_database(DatabaseSettings(url=database_url)) as db:
        await db.run(ledger.make)
        await db.run(ledger.write, 1)
        for _ in range(50):
            with trio.move_on_after(dice.uniform(0, 0.05)):
                await db.transact(lock_the_row)
        figures = db.statistics
        assert figures.pool_idle == figures.pool_size
        assert await db.run(ledger.open_transactions) == 0
        with trio.fail_after(1):
            await db.transact(ledger.write, 2)
        closing = time.perf_counter()
    assert time.perf_counter() - closing < 2


async def test_a_port_closes_in_time_under_a_unit_that_still_runs(database_url: str) -> None:
    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        async with open_database(DatabaseSettings(url=database_url)) as db:
            nursery.start_soon(db.run, ledger.dawdle)
            while not db.statistics.pool_in_use:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert time.perf_counter() - started < 3


# --- the shield ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [Units.run, Units.transact, Units.beat])
async def test_a_shielded_unit_finishes_under_a_cancelled_scope(db: Database, way: object) -> None:
    assert callable(way)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await way(db.shielded(shield_s=5), ledger.write, 1) == 1
    assert await db.run(ledger.ids) == [1]


async def test_a_shield_is_bounded_and_then_nothing_of_the_transaction_was_written(db: Database) -> None:
    started = time.perf_counter()
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(DatabaseUnavailable, match=r"within 0\.2 s"):
            await db.shielded(shield_s=0.2).transact(write_and_dawdle, 1, trio.Event())
    assert time.perf_counter() - started < 2
    assert await db.run(ledger.ids) == []


async def test_outside_a_transaction_a_shield_that_ends_leaves_the_outcome_unclear(db: Database) -> None:
    with pytest.raises(OutcomeUnclear):
        await db.shielded(shield_s=0.2).run(write_and_dawdle, 1, trio.Event())
    assert await db.run(ledger.ids) == [1]
    assert db.statistics.unclear == 1


# --- the commit --------------------------------------------------------------------------------------------------------


async def test_a_cancellation_that_comes_during_the_commit_is_too_late(db: Database) -> None:
    begun = trio.Event()
    results: list[int] = []

    async def unit() -> None:
        results.append(await db.transact(lambda c: commit_slowly(c, 1, begun, seconds=0.3)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(unit)
        await begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.1)
        nursery.cancel_scope.cancel()
    assert results == [1]
    assert await db.run(ledger.ids) == [1]


async def test_a_commit_whose_answer_stays_away_after_a_cancellation_is_unclear(database_url: str) -> None:
    async with open_database(DatabaseSettings(url=database_url, go_home_limit_s=0.2)) as db:
        await db.run(ledger.make)
        begun = trio.Event()
        with pytest.RaisesGroup(OutcomeUnclear):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: db.transact(lambda c: commit_slowly(c, 1, begun, seconds=60)))
                await begun.wait()
                await trio.testing.wait_all_tasks_blocked(0.1)
                nursery.cancel_scope.cancel()
        assert db.statistics.unclear == 1
        assert db.statistics.pool_size == 0, "the connection is gone, whatever still comes on it"
        assert await db.run(ledger.open_transactions) == 0


async def test_a_commit_that_landed_while_its_answer_was_lost_is_unclear_and_terminated_first(
    private_postgres: PrivatePostgres,
) -> None:
    # D7: the caller must ask again by token, on another connection
    with temporary_folder() as folder:
        async with (
            lossy_proxy(private_postgres.url, Path(folder)) as proxy,
            open_database(DatabaseSettings(url=proxy.url)) as db,
        ):
            await db.run(ledger.make)
            proxy.lose_answer_to = b"COMMIT;"
            with pytest.raises(OutcomeUnclear, match="may have landed"):
                await db.transact(ledger.write, 1)
            await proxy.answered.wait()
            proxy.lose_answer_to = None
            assert await db.run(ledger.ids) == [1]
            assert db.statistics.pool_size == 1


async def test_a_line_lost_before_the_commit_means_that_nothing_was_written(private_postgres: PrivatePostgres) -> None:
    with temporary_folder() as folder:
        async with (
            lossy_proxy(private_postgres.url, Path(folder)) as proxy,
            open_database(DatabaseSettings(url=proxy.url)) as db,
        ):
            await db.run(ledger.make)
            proxy.lose_answer_to = b"INSERT"
            with pytest.raises(DatabaseUnavailable):
                await db.transact(ledger.write, 1)
            proxy.lose_answer_to = None
            assert await db.run(ledger.ids) == []
