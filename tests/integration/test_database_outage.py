"""The server dies, freezes, restarts: typed errors in bounded time, and work goes on afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, Refused, open_database
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.postgres import PrivatePostgres

_LIMIT_S = 1.0
_SLACK_S = 1.5
"""For a busy machine; without the limit it would be for ever."""


@pytest.fixture
async def db(private_postgres: PrivatePostgres) -> AsyncIterator[Database]:
    """A port with short limits, on a server that may be hurt."""
    settings = DatabaseSettings(url=private_postgres.url, statement_timeout_s=_LIMIT_S, go_home_limit_s=0.3)
    async with open_database(settings) as opened:
        await opened.run(ledger.make)
        yield opened
        assert opened.statistics.loop_errors == 0
        assert opened.statistics.pool_in_use == 0


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_limits_of_the_field_are_the_defaults() -> None:
    # DB-06
    settings = DatabaseSettings(url="")
    assert (settings.statement_timeout_s, settings.connect_timeout_s) == (10, 10)
    assert (settings.keepalive_idle_s, settings.keepalive_interval_s, settings.keepalive_probes) == (30, 10, 3)


async def write_and_die(connection: Connection, id_: int) -> None:
    await ledger.write(connection, id_)
    await ledger.end_backend(connection)


async def test_a_backend_killed_in_a_transaction_is_unavailable_and_the_next_unit_works(db: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        await db.transact(write_and_die, 1)
    assert await db.run(ledger.ids) == []
    assert db.statistics.unclear == 0


async def test_a_backend_killed_outside_a_transaction_leaves_the_outcome_unclear(db: Database) -> None:
    with pytest.raises(OutcomeUnclear):
        await db.run(write_and_die, 1)
    assert await db.run(ledger.ids) == [1]
    assert db.statistics.unclear == 1


async def test_a_backend_killed_while_idle_is_replaced_without_anybody_noticing(db: Database) -> None:
    pid = await db.run(ledger.backend_pid)
    await db.beat(ledger.end_backend, pid)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert await db.transact(ledger.write, 1) == 1
    assert await db.run(ledger.backend_pid) != pid


async def test_a_beat_after_its_backend_was_killed_has_a_new_connection(db: Database) -> None:
    pid = await db.beat(ledger.backend_pid)
    await db.run(ledger.end_backend, pid)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert await db.beat(ledger.backend_pid) != pid


async def test_a_beat_on_a_frozen_backend_ends_within_the_limit_and_the_next_one_works(db: Database) -> None:
    # DB-06
    pid = await db.beat(ledger.backend_pid)
    with frozen(pid):
        started = time.perf_counter()
        with pytest.raises(OutcomeUnclear, match="TimeoutError"):
            await db.beat(ledger.write, 1)
        assert time.perf_counter() - started < _LIMIT_S + _SLACK_S
        assert await db.beat(ledger.backend_pid) != pid


async def test_a_transaction_on_a_frozen_backend_ends_within_the_limit_and_wrote_nothing(db: Database) -> None:
    pid = await db.run(ledger.backend_pid)
    with frozen(pid):
        started = time.perf_counter()
        with pytest.raises(DatabaseUnavailable, match="TimeoutError"):
            await db.transact(ledger.write, 1)
        assert time.perf_counter() - started < _LIMIT_S + _SLACK_S
        assert await db.transact(ledger.write, 2) == 2
    assert await db.run(ledger.ids) == [2]
    assert db.statistics.terminated == 1


async def test_a_cancelled_unit_on_a_frozen_backend_is_rid_of_its_connection_in_time(db: Database) -> None:
    pid = await db.run(ledger.backend_pid)
    with frozen(pid):
        started = time.perf_counter()
        with trio.move_on_after(0.05):
            await db.transact(ledger.write, 1)
        assert time.perf_counter() - started < 0.05 + 0.3 + _SLACK_S
        assert await db.transact(ledger.write, 2) == 2


async def test_a_slow_statement_is_stopped_by_the_server_and_the_connection_stays(db: Database) -> None:
    pid = await db.run(ledger.backend_pid)
    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        await db.transact(ledger.dawdle)
    assert await db.run(ledger.backend_pid) == pid
    assert db.statistics.terminated == 0


async def test_a_restart_of_the_server_in_the_middle_of_work_costs_typed_errors_and_nothing_else(
    db: Database, private_postgres: PrivatePostgres
) -> None:
    done: list[int] = []
    unclear: list[int] = []
    refused = trio.Event()

    async def worker(first: int) -> None:
        for id_ in range(first, first + 1000):
            try:
                done.append(await db.transact(ledger.write, id_))
            except DatabaseUnavailable:
                refused.set()
                await trio.lowlevel.checkpoint()
            except OutcomeUnclear:
                unclear.append(id_)

    async def enough(more: int) -> None:
        want = len(done) + more
        while len(done) < want:
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for first in (0, 1000, 2000):
            nursery.start_soon(worker, first)
        await enough(20)
        private_postgres.stop()
        await refused.wait()
        private_postgres.start()
        await enough(20)
        private_postgres.kill()
        private_postgres.start()
        await enough(20)
        nursery.cancel_scope.cancel()
    landed = set(await db.run(ledger.ids))
    assert set(done) <= landed
    assert landed <= set(done) | set(unclear)


async def test_a_server_that_is_down_is_unavailable_for_every_way_to_run_a_unit(
    db: Database, private_postgres: PrivatePostgres
) -> None:
    await db.beat(ledger.backend_pid)
    private_postgres.stop()
    await trio.testing.wait_all_tasks_blocked(0.05)
    for way in (db.run, db.transact, db.beat, db.direct, db.shielded(shield_s=5).transact):
        with pytest.raises(DatabaseUnavailable, match="cannot connect"):
            await way(ledger.write, 1)
    private_postgres.start()
    for id_, way in enumerate((db.run, db.transact, db.beat, db.direct, db.shielded(shield_s=5).transact)):
        assert await way(ledger.write, id_) == id_


async def test_a_database_that_is_read_only_is_unavailable_for_every_way_to_run_a_unit(
    db: Database, private_postgres: PrivatePostgres
) -> None:
    """A failover: sessions on a standby, or of a database that was locked for the move, can read and nothing else."""
    ways = (db.run, db.transact, db.beat, db.direct, db.shielded(shield_s=5).transact)
    await db.beat(ledger.backend_pid)
    await db.direct(ledger.set_read_only, "on")
    await trio.testing.wait_all_tasks_blocked(0.05)
    for way in ways:
        with pytest.raises(DatabaseUnavailable, match="ReadOnly"):
            await way(ledger.write, 1)
    assert await db.run(ledger.ids) == []
    assert db.statistics.unclear == 0
    await db.direct(ledger.set_read_only, "off")
    await trio.testing.wait_all_tasks_blocked(0.05)
    for id_, way in enumerate(ways):
        assert await way(ledger.write, id_) == id_


TROUBLE = (
    *(
        "25006",
        "08006",
        "25P03",
        "53000",
        "53100",
        "53200",
        "53300",
        "53400",
        "57000",
        "57014",
        "57P01",
        "57P02",
        "57P03",
    ),
    *("57P04", "57P05", "58000", "58030", "58P01"),
)


@pytest.mark.parametrize("sqlstate", TROUBLE)
async def test_whatever_a_server_in_trouble_answers_is_unavailable_and_rolled_back(db: Database, sqlstate: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        await db.transact(ledger.write_and_fail, sqlstate)
    assert await db.run(ledger.ids) == []
    assert db.statistics.unclear == 0


@pytest.mark.parametrize("sqlstate", ["23505", "22003", "42501", "25001", "XX000"])
async def test_what_a_unit_asked_for_and_did_not_get_is_no_trouble_of_the_server(db: Database, sqlstate: str) -> None:
    with pytest.raises(Refused) as refused:
        await db.transact(ledger.write_and_fail, sqlstate)
    assert refused.value.sqlstate == sqlstate
