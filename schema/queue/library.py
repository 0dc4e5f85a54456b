"""The queue as a library for other programs (D24): the calls of the package README, each one unit on a connection.

A worker passes the ``Job`` that it claimed, and every report is fenced on its lease. A bare id works too, for rows that
``claim_job`` of this module claimed and for rows without a lease; for any other it is refused. The law is left to the
caller here (S1-023).
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from protocols.budget import CLAUDE
from protocols.failures import JsonObject
from protocols.scrub import to_json
from schema.connection import Connection
from schema.errors import JobNotProcessing, LeaseNotOurs
from schema.queue import beats, endings, reap
from schema.queue.budget import count_runs
from schema.queue.claim import claim
from schema.queue.terms import BudgetRule, ClaimRequest, ReapRule, Want
from schema.records import JOB_COLUMNS, job_of
from schema.rows import Job, JobStatus, JobType, ReapedJob

_MARK: Final = 0x6C696272 << 96
"""The first four bytes of a token made here, so that a later call with a bare id can tell without asking anyone."""
_TYPES: Final = (
    JobType.HARVEST,
    JobType.ENRICH,
    JobType.DOCUMENT_CONVERT,
    JobType.LAW_CONVERT,
    JobType.TRAJECT_HARVEST,
)
_UNLEASED: Final = "status = 'processing' AND lease IS NULL AND attempts = $2"


async def claim_job(
    connection: Connection, job_type: JobType | None = None, *, claude_blocked: bool = False
) -> Job | None:
    """The highest-priority due pending job, of one type or of any of the platform's five; None: there is none.

    The hourly budget is not counted here; ``claude_blocked`` leaves claude runs alone. The row is yours for 5 minutes
    after each ``beat``: without beats it is reaped and given to somebody else.
    """
    token = UUID(int=_MARK | (uuid4().int & ((1 << 96) - 1)))
    holder = f"library:{os.uname().nodename}:{os.getpid()}"
    for wanted in await _types_by_best(connection) if job_type is None else [job_type]:
        request = ClaimRequest(token, holder, (Want((wanted,), 1),), BudgetRule(), count_budget=claude_blocked)
        answer = await claim(connection, request)
        if answer.jobs:
            return answer.jobs[0]
    return None


async def complete_job(connection: Connection, job: Job | UUID, result: Any = None) -> Job:
    """Processing to completed. JobNotProcessing: it is not, or not under this claim any more; LeaseNotOurs for a bare id."""
    claimed = await _proved(connection, job)
    if claimed.lease is not None:
        return await endings.complete(connection, claimed.lease_held, result)
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET status = 'completed', completed_at = now(), result = $3::text::jsonb, heartbeat_at = NULL
        WHERE id = $1 AND {_UNLEASED} RETURNING {JOB_COLUMNS}
        """,
        claimed.id,
        claimed.attempts,
        to_json(result),
    )
    if row is None:
        raise JobNotProcessing(claimed.id)
    return job_of(row)


async def fail_job(connection: Connection, job: Job | UUID, error: Any = None) -> Job:
    """Processing to pending, with backoff, while attempts are left; else to failed. The answered row says which."""
    return await _fail(connection, job, error, terminal=False)


async def fail_job_terminal(connection: Connection, job: Job | UUID, error: Any = None) -> Job:
    """Processing to failed at once, whatever attempts are left."""
    return await _fail(connection, job, error, terminal=True)


async def beat(connection: Connection, job: Job) -> bool:
    """A sign of life, due every 30 s while you hold the job. False: it was taken away; stop and write nothing."""
    lease = job.lease_held
    confirmed, unbeaten = await beats.beat(connection, [lease])
    return lease in confirmed or lease in unbeaten


async def update_progress(connection: Connection, job_id: UUID, progress: JsonObject) -> None:
    """By id only, whatever the row's state; an unknown id is silently nothing (``queue.md`` 2.6)."""
    await connection.execute("UPDATE jobs SET progress = $2::text::jsonb WHERE id = $1", job_id, to_json(progress))


async def reap_orphaned_jobs(connection: Connection, orphan_timeout: dt.timedelta) -> Sequence[ReapedJob]:
    """Every job whose holder gave no sign of life for so long, and what became of it. No aftercare."""
    seconds = orphan_timeout.total_seconds()
    rule = ReapRule(seconds, seconds)
    reaped: list[ReapedJob] = []
    for job_id in await reap.orphans(connection, rule, limit=2**31 - 1):
        found = await reap.reap(connection, job_id, rule)
        if found is not None:
            row = found[1]
            reaped.append(
                ReapedJob(row.id, row.job_type, row.law_id, row.status, row.priority, row.attempts, row.payload)
            )
    return reaped


async def count_enrich_jobs_started_this_hour(connection: Connection, provider: str = CLAUDE) -> tuple[int, int]:
    """Enrich runs of ``provider`` in the current clock hour of Europe/Amsterdam, and that hour (0..23)."""
    used, local_hour, _ = await count_runs(connection, includes_convert=False, provider=provider)
    return used, local_hour


async def _fail(connection: Connection, job: Job | UUID, error: Any, *, terminal: bool) -> Job:
    return await endings.fail(connection, await _proved(connection, job), error, terminal=terminal)


async def _proved(connection: Connection, job: Job | UUID) -> Job:
    """The present row of the claim that ``job`` stands for, locked; a bare id stands for the claim that the row has now."""
    if isinstance(job, Job) and job.lease is not None:
        return await endings.prove(connection, job.lease_held)
    job_id, attempts = (job.id, job.attempts) if isinstance(job, Job) else (job, None)
    row = await connection.fetchrow(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = $1 FOR NO KEY UPDATE", job_id)
    found = None if row is None else job_of(row)
    if found is None or found.status is not JobStatus.PROCESSING or attempts not in (None, found.attempts):
        raise JobNotProcessing(job_id)
    if found.lease is not None and found.lease.int >> 96 != _MARK >> 96:
        raise LeaseNotOurs(job_id)
    return found


async def _types_by_best(connection: Connection) -> Sequence[JobType]:
    """The platform's types, the one with the best due job first."""
    rows = await connection.fetch(
        """
        SELECT t.job_type FROM unnest($1::text[]) AS t(job_type) CROSS JOIN LATERAL (
            SELECT priority, created_at, id FROM jobs
            WHERE status = 'pending' AND job_type = t.job_type::job_type AND (scheduled_at IS NULL OR scheduled_at <= now())
            ORDER BY priority DESC, created_at, id LIMIT 1) AS best
        ORDER BY best.priority DESC, best.created_at, best.id
        """,
        [job_type.value for job_type in _TYPES],
    )
    return [JobType(row["job_type"]) for row in rows]
