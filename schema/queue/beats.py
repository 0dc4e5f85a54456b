"""Signs of life of held jobs: beats, progress, and the look for cancel requests. One statement for all jobs at once (D5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from protocols.failures import JsonObject
from protocols.scrub import to_json
from schema.connection import Connection
from schema.rows import Lease


async def beat(connection: Connection, leases: Collection[Lease]) -> tuple[set[Lease], set[Lease]]:
    """One statement for all leases (D5). Confirmed ones, and ones that are still ours but were locked just now.

    Rows that another writer holds are skipped, so that one long transaction cannot stop every beat; what was not beaten
    is read again without a lock. The rest is lost. Not for use inside a transaction: the second look must see the present.
    What these claims hold beside their rows (``schema.pipelines.leases``) is renewed with them.
    """
    held = list(leases)
    if not held:
        return set(), set()
    rows = await connection.fetch(
        """
        WITH ours AS MATERIALIZED (
            SELECT j.id, j.attempts FROM jobs AS j
            JOIN unnest($1::uuid[], $2::uuid[], $3::int[]) AS h(id, lease, attempts)
              ON j.id = h.id AND j.lease = h.lease AND j.attempts = h.attempts
            WHERE j.status = 'processing' AND j.id = ANY ($1::uuid[])
            FOR NO KEY UPDATE OF j SKIP LOCKED), renewed AS (
            UPDATE leases SET expires_at = now() + ttl WHERE (kind, resource_id) IN (
                SELECT l.kind, l.resource_id FROM leases AS l
                WHERE l.holder = ANY (ARRAY(SELECT o.id || ':' || o.attempts FROM ours AS o))
                FOR UPDATE SKIP LOCKED))
        UPDATE jobs SET heartbeat_at = now() WHERE id = ANY (ARRAY(SELECT id FROM ours)) RETURNING id
        """,
        *lease_columns(held),
    )
    beaten = {row["id"] for row in rows}
    confirmed = {lease for lease in held if lease.job_id in beaten}
    missing = [lease for lease in held if lease.job_id not in beaten]
    if not missing:
        return confirmed, set()
    still = await connection.fetch(
        """
        SELECT j.id FROM jobs AS j
        JOIN unnest($1::uuid[], $2::uuid[], $3::int[]) AS h(id, lease, attempts)
          ON j.id = h.id AND j.lease = h.lease AND j.attempts = h.attempts
        WHERE j.status = 'processing' AND j.id = ANY ($1::uuid[])
        """,
        *lease_columns(missing),
    )
    ours = {row["id"] for row in still}
    return confirmed, {lease for lease in missing if lease.job_id in ours}


async def write_progress(connection: Connection, documents: Mapping[Lease, JsonObject]) -> None:
    """The latest progress of several jobs in one statement; rows that are not ours any more are left alone."""
    leases = list(documents)
    await connection.execute(
        """
        UPDATE jobs AS j SET progress = p.document::jsonb
        FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[]) AS p(id, lease, attempts, document)
        WHERE j.id = ANY ($1::uuid[]) AND j.id = p.id AND j.status = 'processing' AND j.lease = p.lease AND j.attempts = p.attempts
        """,
        *lease_columns(leases),
        [to_json(documents[lease]) for lease in leases],
    )


async def cancel_requests(connection: Connection, leases: Collection[Lease]) -> set[Lease]:
    """Which of our jobs somebody wants to end: the look every 2 s where there is no LISTEN (D26)."""
    held = list(leases)
    rows = await connection.fetch(
        """
        SELECT j.id FROM jobs AS j
        JOIN unnest($1::uuid[], $2::uuid[], $3::int[]) AS h(id, lease, attempts)
          ON j.id = h.id AND j.lease = h.lease AND j.attempts = h.attempts
        WHERE j.status = 'processing' AND j.id = ANY ($1::uuid[]) AND j.cancel_requested_at IS NOT NULL
        """,
        *lease_columns(held),
    )
    wanted = {row["id"] for row in rows}
    return {lease for lease in held if lease.job_id in wanted}


def lease_columns(leases: Sequence[Lease]) -> tuple[list[UUID], list[UUID], list[int]]:
    """Leases as three arrays for ``unnest``: job ids, tokens, attempts."""
    return (
        [lease.job_id for lease in leases],
        [lease.token for lease in leases],
        [lease.attempts for lease in leases],
    )
