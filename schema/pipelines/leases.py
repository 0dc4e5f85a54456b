"""Who works on a pipeline or a connector: lease rows with a holder and an end (``pipelines.md`` 2.4).

The holder is one claim of one job (``protocols.runs.claim_holder``). Each beat of that job renews its leases in the same
statement (``schema.queue.beats``), so a lease outlives its claim by its time to live and no longer. Times are the
database's alone. Nothing here waits: a lease is had at once or not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from uuid import UUID

from schema.connection import Connection


class Resource(StrEnum):
    """What can be leased."""

    PIPELINE = "pipeline"
    CONNECTOR = "connector"


_ACQUIRE: Final = """
INSERT INTO leases AS l (kind, resource_id, holder, acquired_at, expires_at, ttl)
VALUES ($1, $2, $3, now(), now() + $4 * interval '1 second', $4 * interval '1 second')
ON CONFLICT (kind, resource_id) DO UPDATE
    SET holder = excluded.holder, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at, ttl = excluded.ttl
    WHERE l.expires_at <= now() OR l.holder = excluded.holder
RETURNING l.resource_id
"""


async def acquire(connection: Connection, kind: Resource, resource_id: int, holder: str, *, ttl_s: float) -> bool:
    """Free, expired or already ours: then it is ours for ``ttl_s`` from now."""
    return await connection.fetchval(_ACQUIRE, kind.value, resource_id, holder, float(ttl_s)) is not None


async def held(connection: Connection, holder: str) -> int:
    """How many leases the holder has that have not ended. Fewer than it took: one was lost to somebody else."""
    return int(
        await connection.fetchval("SELECT count(*) FROM leases WHERE holder = $1 AND expires_at > now()", holder)
    )


async def release(connection: Connection, holder: str) -> None:
    """Whatever this holder has. One that was taken over meanwhile is somebody else's and stays."""
    await connection.execute("DELETE FROM leases WHERE holder = $1", holder)


async def release_of_job(connection: Connection, job_id: UUID) -> None:
    """Those of every claim of a job, for when its holder is dead: its next claim must not meet its own past."""
    await connection.execute("DELETE FROM leases WHERE holder LIKE $1", f"{job_id}:%")


async def is_locked(connection: Connection, kind: Resource, resource_id: int) -> bool:
    """Whether somebody works on it just now."""
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM leases WHERE kind = $1 AND resource_id = $2 AND expires_at > now())",
            kind.value,
            resource_id,
        )
    )
