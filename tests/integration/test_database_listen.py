"""LISTEN is lost and comes back, and says by itself whether it can be relied on."""

from __future__ import annotations

import os
import signal

import trio

from actors.ports.database import Database, DatabaseSettings, Subscription, open_database
from schema.connection import Connection
from tests.kit import ledger
from tests.kit.postgres import PrivatePostgres

CHANNEL = "regelrecht_jobs"


async def notify(connection: Connection, channel: str = CHANNEL, payload: str = "") -> None:
    await connection.execute("SELECT pg_notify($1, $2)", channel, payload)


async def listener_pid(connection: Connection) -> int:
    pid: int = await connection.fetchval(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE '%pg_notify($1, '''')%' AND pid <> pg_backend_pid()"
    )
    return pid


async def awake(subscription: Subscription, limit_s: float = 5) -> None:
    with trio.fail_after(limit_s):
        await subscription.wakeups.receive()


def is_quiet(subscription: Subscription) -> bool:
    try:
        subscription.wakeups.receive_nowait()
    except trio.WouldBlock:
        return True
    return False


async def test_the_first_session_is_proven_and_wakes_at_once(database: Database) -> None:
    subscription = database.listen({CHANNEL})
    before = database.statistics
    await awake(subscription)
    after = database.statistics
    assert (before.listening, before.listen_sessions) == (False, 0)
    assert (after.listening, after.listen_sessions) == (True, 1)


async def test_a_burst_of_notifications_is_one_wakeup(database: Database) -> None:
    subscription = database.listen({CHANNEL})
    await awake(subscription)

    async def burst(connection: Connection) -> None:
        for number in range(20):
            await notify(connection, payload=str(number))
        await notify(connection, "regelrecht_control", "all sent")  # one session hears in the order of sending

    await database.transact(burst)
    with trio.fail_after(5):
        await subscription.control.receive()
    assert not is_quiet(subscription)
    assert is_quiet(subscription)


async def test_control_messages_arrive_whole_and_in_order_and_wake_nobody_else(database: Database) -> None:
    subscription = database.listen({CHANNEL})
    await awake(subscription)
    for payload in ("cancel 1", "cancel 2"):
        await database.run(notify, "regelrecht_control", payload)
    with trio.fail_after(5):
        assert [await subscription.control.receive() for _ in range(2)] == ["cancel 1", "cancel 2"]
    assert is_quiet(subscription)


async def test_a_killed_listener_comes_back_wakes_and_hears_again(database: Database) -> None:
    # DB-01
    subscription = database.listen({CHANNEL})
    await awake(subscription)
    await database.run(ledger.end_backend, await database.run(listener_pid))
    await awake(subscription)
    assert subscription.proven
    assert database.statistics.listen_sessions == subscription.sessions == 2
    await database.run(notify)
    await awake(subscription, limit_s=1)


async def test_a_listener_that_went_deaf_is_found_by_its_own_probe(private_postgres: PrivatePostgres) -> None:
    # DB-01: a half-open connection raises nothing by itself
    settings = DatabaseSettings(url=private_postgres.url, probe_s=0.05, statement_timeout_s=0.5)
    async with open_database(settings) as database:
        subscription = database.listen({CHANNEL})
        await awake(subscription)
        pid = await database.run(listener_pid)
        os.kill(pid, signal.SIGSTOP)
        try:
            await awake(subscription)
            assert database.statistics.listen_sessions >= 2
            await database.run(notify)
            await awake(subscription)
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_while_the_server_is_away_listen_is_not_proven_and_its_return_wakes(
    private_postgres: PrivatePostgres,
) -> None:
    async with open_database(DatabaseSettings(url=private_postgres.url)) as database:
        subscription = database.listen({CHANNEL})
        await awake(subscription)
        private_postgres.stop()
        while subscription.proven:
            await trio.lowlevel.checkpoint()
        assert not database.statistics.listening
        private_postgres.start()
        await awake(subscription, limit_s=10)
        assert subscription.proven


async def test_a_port_that_listens_closes_at_once(database_url: str) -> None:
    with trio.fail_after(2):
        async with open_database(DatabaseSettings(url=database_url)) as database:
            await awake(database.listen({CHANNEL}))
