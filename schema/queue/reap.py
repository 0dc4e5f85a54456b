"""Rows whose holder shows no sign of life (D3). The job row alone decides; there is no table of workers (QH-01).

How long a job has been running does not count (QH-04).
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from protocols.failures import JobCancelled, JsonObject
from protocols.scrub import to_json
from schema.connection import Connection
from schema.queue.endings import WAKE
from schema.queue.terms import ReapRule
from schema.records import JOB_COLUMNS, job_of
from schema.rows import Job, JobStatus

# An existing worker of the older kind never beats: its rows get the longer limit. GREATEST skips NULLs; the last two are
# for a row that somebody set to processing by hand.
_ORPHANED: Final = """
status = 'processing' AND COALESCE(GREATEST(heartbeat_at, started_at), updated_at) < now() - interval '1 second' *
    CASE WHEN lease IS NULL AND (heartbeat_at IS NULL OR heartbeat_at <= started_at) THEN $2::float8 ELSE $1::float8 END
"""


async def orphans(connection: Connection, rule: ReapRule, limit: int = 20) -> list[UUID]:
    """Ids of orphaned rows, oldest claim first; read without a lock, so each is looked at again when it is reaped."""
    rows = await connection.fetch(
        f"SELECT id FROM jobs WHERE {_ORPHANED} ORDER BY started_at NULLS FIRST, id LIMIT $3",
        float(rule.orphan_timeout_s),
        float(rule.foreign_orphan_timeout_s),
        limit,
    )
    return [UUID(int=row["id"].int) for row in rows]


async def reap(connection: Connection, job_id: UUID, rule: ReapRule) -> tuple[Job, Job] | None:
    """The row before and after: pending at once while attempts are left, else failed. None: locked, or not an orphan.

    ``last_lease`` stays: the holder must not take the reaper's write for its own (D7).
    """
    row = await connection.fetchrow(
        f"SELECT {JOB_COLUMNS} FROM jobs WHERE {_ORPHANED} AND id = $3 FOR UPDATE SKIP LOCKED",
        float(rule.orphan_timeout_s),
        float(rule.foreign_orphan_timeout_s),
        job_id,
    )
    if row is None:
        return None
    before = job_of(row)
    again = before.attempts < before.max_attempts and before.cancel_requested_at is None
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET status = $2::text::job_status, result = $3::text::jsonb, scheduled_at = NULL,
            completed_at = CASE WHEN $2 = 'failed' THEN now() END, heartbeat_at = NULL, claimed_by = NULL, lease = NULL
        WHERE id = $1 RETURNING {JOB_COLUMNS}
        """,
        job_id,
        (JobStatus.PENDING if again else JobStatus.FAILED).value,
        to_json(_result(before, again)),
    )
    assert row is not None
    if again:
        await connection.execute(WAKE)
    return before, job_of(row)


def _result(job: Job, again: bool) -> JsonObject:
    if job.cancel_requested_at is not None:
        return JobCancelled("cancelled on request; its worker had died").to_result()
    text = "reaped: job stuck in processing"
    if not again:  # QH-16
        text += f"; its worker died {max(job.deaths, 1)} times"
    return {"error": text, "kind": "reaped"}
