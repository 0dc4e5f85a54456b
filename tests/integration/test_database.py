"""The database port on a calm day: units, their transactions, their errors, its figures."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from protocols.failures import DatabaseUnavailable, InvalidInput, LeaseLost
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.postgres_proxy import impostor, message, welcome


@pytest.fixture
async def db(database: Database) -> Database:
    await database.run(ledger.make)
    return database


async def write_then_fail(connection: Connection, failure: Exception) -> None:
    await ledger.write(connection, 1)
    raise failure


@pytest.mark.claim("C-004")
async def test_each_way_to_run_a_unit_passes_arguments_and_gives_back_its_result(db: Database) -> None:
    assert await db.run(ledger.write, 1, note="run") == 1
    assert await db.transact(ledger.write, 2, note="transact") == 2
    assert await db.beat(ledger.write, 3, note="beat") == 3
    assert await db.direct(ledger.write, 4, note="direct") == 4
    assert await db.shielded(shield_s=5).transact(ledger.write, 5) == 5
    assert await db.run(ledger.ids) == [1, 2, 3, 4, 5]


async def test_a_failed_transaction_leaves_nothing_and_its_error_passes_as_it_is(db: Database) -> None:
    failure = LeaseLost("gone")
    with pytest.raises(LeaseLost) as caught:
        await db.transact(write_then_fail, failure)
    assert caught.value is failure
    assert await db.run(ledger.ids) == []


async def test_without_a_transaction_each_statement_stands(db: Database) -> None:
    with pytest.raises(LeaseLost):
        await db.run(write_then_fail, LeaseLost("gone"))
    assert await db.run(ledger.ids) == [1]


async def test_a_constraint_violation_passes_and_the_connection_goes_on(db: Database) -> None:
    await db.transact(ledger.write, 1)
    with pytest.raises(Exception, match="ledger_pkey"):
        await db.transact(ledger.write, 1)
    assert await db.transact(ledger.write, 2) == 2
    assert db.statistics.pool_size == 1
    assert db.statistics.terminated == 0


async def test_a_savepoint_inside_a_unit_loses_only_its_own_part(db: Database) -> None:
    async def unit(connection: Connection) -> None:
        await ledger.write(connection, 1)
        try:
            async with connection.transaction():
                await write_then_fail(connection, LeaseLost("inner"))
        except Exception:
            await ledger.write(connection, 2)

    await db.transact(unit)
    assert await db.run(ledger.ids) == [1, 2]


async def test_a_transaction_is_read_committed_whatever_the_database_defaults_to(db: Database) -> None:
    async def isolation(connection: Connection) -> str:
        return str(await connection.fetchval("SHOW transaction_isolation"))

    async def default_to_serializable(connection: Connection) -> None:
        await connection.execute("SET default_transaction_isolation = serializable")

    await db.run(default_to_serializable)
    assert await db.transact(isolation) == "read committed"


async def test_our_sessions_have_limits_that_a_direct_connection_has_not(db: Database) -> None:
    async def limits(connection: Connection) -> tuple[str, str]:
        return (
            await connection.fetchval("SHOW statement_timeout"),
            await connection.fetchval("SHOW idle_in_transaction_session_timeout"),
        )

    for way in (db.run, db.transact, db.beat):
        assert await way(limits) == ("9500ms", "15s")
    assert await db.direct(limits) == ("0", "0")


async def test_json_is_text_both_ways(db: Database) -> None:
    async def there_and_back(connection: Connection, text: str) -> object:
        return await connection.fetchval("SELECT $1::text::jsonb", text)

    assert await db.run(there_and_back, '{"a": [1, null]}') == '{"a": [1, null]}'


# --- concurrency ---------------------------------------------------------------------------------------------------


async def test_units_at_once_have_a_connection_each_and_more_than_the_pool_wait_their_turn(db: Database) -> None:
    pids: list[int] = []

    async def unit(connection: Connection) -> None:
        pid = await ledger.backend_pid(connection)
        await ledger.dawdle(connection, 0.02)
        assert await ledger.backend_pid(connection) == pid
        pids.append(pid)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(db.transact, unit)
    assert len(pids) == 12
    assert len(set(pids)) == db.statistics.pool_max == 3


async def test_beats_at_once_go_one_after_the_other_on_their_one_connection(db: Database) -> None:
    pids: set[int] = set()

    async def beat(connection: Connection) -> None:
        pids.add(await ledger.backend_pid(connection))
        await ledger.dawdle(connection, 0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(db.beat, beat)
    assert len(pids) == 1


async def test_a_beat_does_not_wait_for_a_full_pool(db: Database) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(db.run, ledger.dawdle)
        await wait_until(lambda: db.statistics.waiting == 2)
        assert await db.beat(ledger.write, 1) == 1
        nursery.cancel_scope.cancel()


async def test_no_free_connection_within_the_limit_is_a_typed_error(database_url: str) -> None:
    async with open_database(DatabaseSettings(url=database_url, acquire_timeout_s=0.05)) as db:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(db.run, ledger.dawdle)
            await wait_until(lambda: db.statistics.pool_in_use == 3)
            with pytest.raises(DatabaseUnavailable, match=r"became free within 0.05 s \(3 in the pool\)"):
                await db.run(ledger.backend_pid)
            nursery.cancel_scope.cancel()
        assert await db.run(ledger.backend_pid)


async def test_a_deadlocked_unit_runs_again_and_both_get_through(db: Database) -> None:
    for row in (1, 2):
        await db.run(ledger.write, row)

    async def change_both(connection: Connection, first: int, second: int, *, runs: list[int]) -> None:
        runs.append(first)
        await connection.execute("UPDATE ledger SET note = 'x' WHERE id = $1", first)
        await connection.execute("SELECT pg_advisory_xact_lock_shared($1)", first)
        while runs.count(first) == 1 and runs.count(second) < 2:
            # the other has its first row too: now both want the second
            if await connection.fetchval("SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND granted"):
                break
        await connection.execute("UPDATE ledger SET note = note || 'y' WHERE id = $1", second)

    runs: list[int] = []
    async with trio.open_nursery() as nursery:
        for first, second in ((1, 2), (2, 1)):
            nursery.start_soon(lambda a, b: db.transact(change_both, a, b, runs=runs), first, second)
    assert len(runs) == 3
    assert db.statistics.repeated == 1


async def test_a_unit_that_never_serializes_is_given_up_after_six_runs_with_nothing_written(db: Database) -> None:
    runs: list[int] = []

    async def clash(connection: Connection) -> None:
        runs.append(1)
        await ledger.write(connection, 1)
        await connection.execute("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")

    with pytest.raises(DatabaseUnavailable, match="rolled back 6 times"):
        await db.transact(clash)
    assert len(runs) == 6
    assert await db.run(ledger.ids) == []


async def test_a_schema_that_changes_under_a_remembered_statement_costs_one_repeat(db: Database) -> None:
    async def all_of_it(connection: Connection) -> list[list[str]]:
        return [list(row.keys()) for row in await connection.fetch("SELECT * FROM ledger")]

    async def add_column(connection: Connection) -> None:
        await connection.execute("ALTER TABLE ledger ADD COLUMN later int")

    await db.transact(ledger.write, 1)
    assert await db.transact(all_of_it) == [["id", "note"]]
    await db.direct(add_column)
    assert await db.transact(all_of_it) == [["id", "note", "later"]]


# --- opening, closing, figures -------------------------------------------------------------------------------------


@pytest.mark.claim("S1-068")
@pytest.mark.parametrize(("pooler", "least"), [("none", 4), ("transaction", 3)])
def test_too_few_connections_are_refused_with_the_number_that_would_do(pooler: str, least: int) -> None:
    assert DatabaseSettings(url="x", max_connections=least, pooler=pooler).pool_size == 2  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=f"at least {least}"):
        DatabaseSettings(url="x", max_connections=least - 1, pooler=pooler)  # type: ignore[arg-type]


def test_addresses_do_not_show_in_the_settings() -> None:
    assert "s3cret" not in repr(
        DatabaseSettings(url="postgresql://u:s3cret@h/d", direct_url="postgresql://u:s3cret@h/d")
    )


async def test_an_exception_of_the_block_leaves_the_port_as_it_is(database_url: str) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with open_database(DatabaseSettings(url=database_url)):
            raise LookupError("mine")


async def test_a_closed_port_says_so(database_url: str) -> None:
    async with open_database(DatabaseSettings(url=database_url)) as db:
        pass
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await db.run(ledger.backend_pid)


async def test_an_old_server_is_refused_by_name() -> None:
    async with impostor(welcome("12.22")) as url:
        with pytest.raises(InvalidInput, match=r"PostgreSQL 12\.22, which is too old: 13 or newer"):
            async with open_database(DatabaseSettings(url=url)):
                pass


async def test_a_refused_password_is_named_without_being_shown() -> None:
    refusal = message(b"E", b'SFATAL\0C28P01\0Mpassword authentication failed for user "regelrecht"\0\0')
    async with impostor(refusal) as url:
        with pytest.raises(DatabaseUnavailable, match="password authentication failed") as caught:
            async with open_database(DatabaseSettings(url=url)):
                pass
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_never_answers_is_given_up_after_the_connect_limit() -> None:
    async with impostor() as url:
        with pytest.raises(DatabaseUnavailable, match=r"did not answer within 0\.1 s"):
            async with open_database(DatabaseSettings(url=url, connect_timeout_s=0.1)):
                pass


@pytest.mark.parametrize("url", ["nonsense://u:s3cret@h/d", "postgresql://u:s3cret@h:port/d"])
async def test_an_unreadable_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        async with open_database(DatabaseSettings(url=url)):
            pass
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_nothing_listening_there_is_unavailable() -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        async with open_database(DatabaseSettings(url="postgresql://u@127.0.0.1:1/d")):
            pass


async def test_the_kernel_watches_connections_over_tcp() -> None:
    # DB-06: a peer that is gone is noticed within a minute, not within two hours
    async def options(connection: Any) -> list[int]:
        peer = connection._transport.get_extra_info("socket")
        tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        return [peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)] + [
            peer.getsockopt(socket.IPPROTO_TCP, option) for option in tcp
        ]

    async with impostor(welcome("16.1")) as url, open_database(DatabaseSettings(url=url)) as db:
        assert await db.run(options) == [1, 30, 10, 3]


async def test_the_age_of_the_oldest_snapshot_is_seen(db: Database) -> None:
    held, enough = trio.Event(), trio.Event()

    async def hold_a_snapshot(connection: Connection) -> None:
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.execute("SELECT 1")
        held.set()
        while not enough.is_set():
            await ledger.dawdle(connection, 0.01)

    assert await db.oldest_snapshot_age_s() == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.transact, hold_a_snapshot)
        await held.wait()
        assert 0 < await db.oldest_snapshot_age_s() < 10
        enough.set()


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.lowlevel.checkpoint()
