"""How a claim ends: completed, failed, back in the queue. Every write is fenced on the lease (D1).

These functions change the job row and nothing else; what belongs to it (law, tasks, follow-ups) stands in
``schema.outcomes`` and runs in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final
from uuid import UUID

from protocols.backoff import retry_backoff
from protocols.failures import JobCancelled, JsonObject
from protocols.scrub import to_json
from schema.connection import Connection
from schema.errors import JobNotFound, JobNotProcessing
from schema.queue.beats import lease_columns
from schema.queue.budget import refund_run
from schema.records import JOB_COLUMNS, columns_of, job_of
from schema.rows import Job, JobStatus, Lease

FENCE: Final = "id = $1 AND status = 'processing' AND lease = $2 AND attempts = $3"

WAKE: Final = "SELECT pg_notify('regelrecht_jobs', '')"
"""Tells idle claimers that a row became claimable by another way than an insert (D10)."""


class Standing(StrEnum):
    """What became of a write whose answer was lost (D7)."""

    LANDED = "landed"
    OURS = "ours"
    """Nothing was written and the claim still stands: write again."""
    LOST = "lost"


async def prove(connection: Connection, lease: Lease) -> Job:
    """The row under ``lease``, locked against other writers until the transaction ends. JobNotProcessing: not ours."""
    row = await connection.fetchrow(
        f"SELECT {JOB_COLUMNS} FROM jobs WHERE {FENCE} FOR NO KEY UPDATE", lease.job_id, lease.token, lease.attempts
    )
    if row is None:
        raise JobNotProcessing(lease.job_id)
    return job_of(row)


async def complete(connection: Connection, lease: Lease, result: JsonObject | None) -> Job:
    """The row, completed. JobNotProcessing: the lease is gone and nothing was written."""
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET status = 'completed', completed_at = now(), result = $4::text::jsonb,
            heartbeat_at = NULL, claimed_by = NULL, lease = NULL, last_lease = $2
        WHERE {FENCE} RETURNING {JOB_COLUMNS}
        """,
        lease.job_id,
        lease.token,
        lease.attempts,
        to_json(result),
    )
    if row is None:
        raise JobNotProcessing(lease.job_id)
    return job_of(row)


async def complete_many(connection: Connection, results: Mapping[Lease, JsonObject | None]) -> set[Lease]:
    """Complete jobs that have nothing to settle, in one statement. The leases that were still ours."""
    leases = list(results)
    rows = await connection.fetch(
        """
        UPDATE jobs AS j SET status = 'completed', completed_at = now(), result = r.result::jsonb,
            heartbeat_at = NULL, claimed_by = NULL, lease = NULL, last_lease = r.lease
        FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[]) AS r(id, lease, attempts, result)
        WHERE j.id = ANY ($1::uuid[]) AND j.id = r.id AND j.status = 'processing' AND j.lease = r.lease AND j.attempts = r.attempts
        RETURNING j.id
        """,
        *lease_columns(leases),
        [to_json(results[lease]) for lease in leases],
    )
    done = {row["id"] for row in rows}
    return {lease for lease in leases if lease.job_id in done}


async def fail(connection: Connection, job: Job, result: JsonObject, *, terminal: bool = False) -> Job:
    """End the claim of a proved ``job`` by a failure: pending with backoff while attempts are left, else failed.

    A job whose cancel was asked for does not run again (D26).
    """
    again = not terminal and job.attempts < job.max_attempts and job.cancel_requested_at is None
    return await _end(
        connection,
        job,
        JobStatus.PENDING if again else JobStatus.FAILED,
        result,
        delay_s=retry_backoff(job.deaths) if again else None,
    )


async def hand_back(connection: Connection, job: Job, *, refund: bool) -> Job:
    """Put a proved ``job`` back for another holder at once; the claim costs no attempt (D12).

    ``refund`` takes its run from the hourly budget again (D11). A job whose cancel was asked for ends failed instead.
    """
    if job.cancel_requested_at is not None:
        return await _end(connection, job, JobStatus.FAILED, JobCancelled("cancelled on request").to_result())
    if refund:
        await refund_run(connection, job.id)
    row = await _end(connection, job, JobStatus.PENDING, None, released=1)
    await connection.execute(WAKE)
    return row


async def release_tokens(connection: Connection, tokens: Collection[UUID]) -> list[Job]:
    """Hand back every row that carries a token of an unclear claim: nobody ever ran it, so nothing else was touched (D7)."""
    rows = await connection.fetch(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs WHERE status = 'processing' AND lease = ANY ($1::uuid[])
        ORDER BY id FOR NO KEY UPDATE
        """,
        list(tokens),
    )
    return [await hand_back(connection, job_of(row), refund=True) for row in rows]


async def standing(connection: Connection, lease: Lease) -> Standing:
    """After an unclear commit of a write that ends the claim: did it land (D7)?"""
    row = await connection.fetchrow(
        f"SELECT last_lease = $2 AS landed, {FENCE} AS ours FROM jobs WHERE id = $1",
        lease.job_id,
        lease.token,
        lease.attempts,
    )
    if row is None:
        return Standing.LOST
    if row["landed"]:
        return Standing.LANDED
    return Standing.OURS if row["ours"] else Standing.LOST


async def status_of(connection: Connection, job_id: UUID) -> JobStatus:
    """The present status. JobNotFound."""
    status = await connection.fetchval("SELECT status::text FROM jobs WHERE id = $1", job_id)
    if status is None:
        raise JobNotFound(job_id)
    return JobStatus(status)


async def _end(
    connection: Connection,
    job: Job,
    status: JobStatus,
    result: JsonObject | None,
    *,
    delay_s: float | None = None,
    released: int = 0,
) -> Job:
    """Write the end of a proved claim. The row is locked, so the id is enough; last_lease tells that it was the holder."""
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET status = $2::text::job_status, result = $3::text::jsonb,
            completed_at = CASE WHEN $2 = 'failed' THEN now() END,
            scheduled_at = now() + $4 * interval '1 second',
            releases = releases + $5, max_attempts = max_attempts + $5,
            heartbeat_at = NULL, claimed_by = NULL, lease = NULL, last_lease = COALESCE($6, last_lease)
        WHERE id = $1 AND status = 'processing' RETURNING {columns_of("jobs")}
        """,
        job.id,
        status.value,
        to_json(result),
        delay_s,
        released,
        job.lease,
    )
    if row is None:
        raise JobNotProcessing(job.id)
    return job_of(row)
