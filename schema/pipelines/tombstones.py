"""Stored objects that are to be removed, or will be unless their claim lives to publish them (D65).

A row is there before the first byte is stored, and the transaction that publishes the key deletes it; so whatever dies in
between leaves a row behind and not an object that nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from schema.connection import Connection
from schema.rows import Job


@frozen
class Tombstone:
    """``attempts`` counts removals that failed."""

    id: int
    backend: str
    key: str
    attempts: int


async def announce(connection: Connection, job: Job, *, backend: str, key: str) -> None:
    """This claim is about to store ``key``. Safe to repeat."""
    await connection.execute(
        """
        INSERT INTO blob_tombstones (backend, key, job_id, claim_seq)
        SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT FROM blob_tombstones WHERE backend = $1 AND key = $2)
        """,
        backend,
        key,
        job.id,
        job.attempts,
    )


async def lift(connection: Connection, *, backend: str, key: str) -> None:
    """The key is published, in this transaction."""
    await connection.execute("DELETE FROM blob_tombstones WHERE backend = $1 AND key = $2", backend, key)


async def bury(connection: Connection, *, backend: str, key: str) -> None:
    """Nothing points at ``key`` any more, from this transaction on."""
    await connection.execute("INSERT INTO blob_tombstones (backend, key) VALUES ($1, $2)", backend, key)


async def removable(connection: Connection, *, backend: str, limit: int = 100) -> Sequence[Tombstone]:
    """Keys whose claim is dead, or that never had one: the fewest failed removals first, then the oldest."""
    rows = await connection.fetch(
        """
        SELECT t.id, t.backend, t.key, t.attempts FROM blob_tombstones AS t
        WHERE t.backend = $1 AND NOT EXISTS (
            SELECT FROM jobs AS j WHERE j.id = t.job_id AND j.status = 'processing' AND j.attempts = t.claim_seq)
        ORDER BY t.attempts, t.id LIMIT $2
        """,
        backend,
        limit,
    )
    return [Tombstone(row["id"], row["backend"], row["key"], row["attempts"]) for row in rows]


async def removed(connection: Connection, tombstone_id: int) -> None:
    """The object is gone."""
    await connection.execute("DELETE FROM blob_tombstones WHERE id = $1", tombstone_id)


async def not_removed(connection: Connection, tombstone_id: int) -> None:
    """The store would not do it now; others go first next time."""
    await connection.execute("UPDATE blob_tombstones SET attempts = attempts + 1 WHERE id = $1", tombstone_id)


async def expire_results(connection: Connection, *, limit: int = 100) -> int:
    """Results past their time: the run loses its key and the object gets a tombstone. How many. Needs a transaction."""
    rows = await connection.fetch(
        """
        WITH old AS (
            SELECT id, result_blob_key AS key, COALESCE(result_blob_backend, 'local') AS backend FROM pipeline_runs
            WHERE result_blob_key IS NOT NULL AND result_expires_at <= now()
            ORDER BY result_expires_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
        ), buried AS (
            INSERT INTO blob_tombstones (backend, key) SELECT backend, key FROM old
        )
        UPDATE pipeline_runs SET result_blob_key = NULL, result_blob_backend = NULL
        WHERE id IN (SELECT id FROM old) RETURNING id
        """,
        limit,
    )
    return len(rows)
