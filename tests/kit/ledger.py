"""One table for tests of the database port: a row is proof that a write landed."""

from __future__ import annotations

from collections.abc import Sequence

from schema.connection import Connection


async def make(connection: Connection) -> None:
    await connection.execute("CREATE TABLE ledger (id int PRIMARY KEY, note text NOT NULL DEFAULT '')")


async def write(connection: Connection, id_: int, *, note: str = "") -> int:
    await connection.execute("INSERT INTO ledger (id, note) VALUES ($1, $2)", id_, note)
    return id_


async def ids(connection: Connection) -> Sequence[int]:
    return [row["id"] for row in await connection.fetch("SELECT id FROM ledger ORDER BY id")]


async def dawdle(connection: Connection, seconds: float = 60) -> None:
    """A statement that takes long, for tests that interrupt it."""
    await connection.execute("SELECT pg_sleep($1)", seconds)


async def backend_pid(connection: Connection) -> int:
    pid: int = await connection.fetchval("SELECT pg_backend_pid()")
    return pid


async def end_backend(connection: Connection, pid: int | None = None) -> None:
    """Kill the session of ``pid``, or the very one that asks."""
    await connection.execute("SELECT pg_terminate_backend(COALESCE($1, pg_backend_pid()))", pid)


async def open_transactions(connection: Connection) -> int:
    """Sessions of others in this database that sit in a transaction and do nothing."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
    )
    return count


async def set_read_only(connection: Connection, word: str) -> None:
    """``on`` or ``off`` for all sessions to come; those that are there are ended, as a failover does."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {word}')
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def write_and_fail(connection: Connection, sqlstate: str) -> None:
    """A row, and then an error of the server's with this ``sqlstate``."""
    await write(connection, 1)
    await connection.execute(
        f"DO $do$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}', MESSAGE = 'so it is'; END $do$"
    )
