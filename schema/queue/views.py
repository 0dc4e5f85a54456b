"""Looking at the queue without changing it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.budget import CLAUDE, PROVIDERS, hourly_cap, next_hour
from schema.connection import Connection
from schema.errors import JobNotFound
from schema.queue.budget import count_runs
from schema.queue.terms import BudgetRule
from schema.records import JOB_COLUMNS, job_of, json_of
from schema.rows import Job, JobStatus, JobType

_KNOWN: Final = [job_type.value for job_type in JobType]
"""A later release of the platform may have job types of its own; their rows are not ours to read (D23)."""

_FAILURE_COLUMNS: Final = ("job_type", "law_id", "at", "error", "kind")


@frozen
class JobFilter:
    """Which jobs to list. ``law_id`` is a part of the id, in any case of letters. ``limit`` None: all."""

    status: JobStatus | None = None
    job_type: JobType | None = None
    law_id: str | None = None
    limit: int | None = 50
    offset: int = 0


@frozen
class QueueCount:
    """How many jobs of a type are in a status; ``waiting`` of the pending ones are not due yet."""

    job_type: str
    status: JobStatus
    count: int
    waiting: int


@frozen
class HeldJob:
    """A job that somebody runs. Ages in seconds, by the database clock; ``beat_age_s`` is that of the last sign of life."""

    id: UUID
    job_type: str
    law_id: str
    holder: str | None
    """None: a worker of the existing platform, which does not sign."""
    attempt: int
    age_s: float
    beat_age_s: float
    progress: Any
    cancelling: bool


@frozen
class EndedBadly:
    """A failed job, for people. ``kind`` is the machine word of the failure where one is known."""

    id: UUID
    job_type: str
    law_id: str
    at: dt.datetime
    error: str
    kind: str | None


async def get_job(connection: Connection, job_id: UUID) -> Job:
    """JobNotFound."""
    row = await connection.fetchrow(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = $1", job_id)
    if row is None:
        raise JobNotFound(job_id)
    return job_of(row)


async def list_jobs(connection: Connection, status: JobStatus | None = None) -> Sequence[Job]:
    """All jobs, or those of one status: highest priority first, then oldest first."""
    rows = await connection.fetch(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs
        WHERE ($1::text IS NULL OR status = $1::text::job_status) AND job_type::text = ANY ($2::text[])
        ORDER BY priority DESC, created_at, id
        """,
        None if status is None else status.value,
        _KNOWN,
    )
    return [job_of(row) for row in rows]


async def find_jobs(connection: Connection, wanted: JobFilter) -> Sequence[Job]:
    """The newest first."""
    pattern = None if wanted.law_id is None else f"%{_escaped(wanted.law_id)}%"
    rows = await connection.fetch(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs
        WHERE ($1::text IS NULL OR status = $1::text::job_status) AND job_type::text = ANY ($2::text[])
          AND ($3::text IS NULL OR law_id ILIKE $3)
        ORDER BY created_at DESC, id LIMIT $4 OFFSET $5
        """,
        None if wanted.status is None else wanted.status.value,
        _KNOWN if wanted.job_type is None else [wanted.job_type.value],
        pattern,
        wanted.limit,
        wanted.offset,
    )
    return [job_of(row) for row in rows]


async def find_job_ids(connection: Connection, prefix: str) -> Sequence[UUID]:
    """Ids that begin with ``prefix``, at most ten: people copy the short form that a table shows."""
    rows = await connection.fetch(
        "SELECT id FROM jobs WHERE id::text LIKE $1 ORDER BY created_at DESC LIMIT 10", f"{_escaped(prefix.lower())}%"
    )
    return [UUID(int=row["id"].int) for row in rows]


async def count_jobs(connection: Connection) -> Sequence[QueueCount]:
    """One line per job type and status that occurs. Reads the whole table."""
    return sorted(
        [*await count_active(connection), *await count_ended(connection)],
        key=lambda count: (count.job_type, count.status.value),
    )


async def count_active(connection: Connection) -> Sequence[QueueCount]:
    """Pending and processing jobs only: as quick as the queue is short, whatever its history."""
    rows = await connection.fetch(
        """
        SELECT job_type::text AS job_type, 'pending' AS status, count(*) AS count, 0::bigint AS waiting
        FROM jobs WHERE status = 'pending' AND scheduled_at IS NULL GROUP BY 1
        UNION ALL
        SELECT job_type::text, 'pending', count(*), count(*) FILTER (WHERE scheduled_at > now())
        FROM jobs WHERE status = 'pending' AND scheduled_at IS NOT NULL GROUP BY 1
        UNION ALL
        SELECT job_type::text, 'processing', count(*), 0 FROM jobs WHERE status = 'processing' GROUP BY 1
        """
    )
    sums: dict[tuple[str, JobStatus], tuple[int, int]] = {}
    for row in rows:
        key = (row["job_type"], JobStatus(row["status"]))
        count, waiting = sums.get(key, (0, 0))
        sums[key] = (count + row["count"], waiting + row["waiting"])
    return [QueueCount(job_type, status, *sums[job_type, status]) for job_type, status in sums]


async def count_ended(connection: Connection) -> Sequence[QueueCount]:
    """Completed and failed jobs. Reads the whole table: not for every second."""
    rows = await connection.fetch(
        """
        SELECT job_type::text AS job_type, status::text AS status, count(*) AS count
        FROM jobs WHERE status IN ('completed', 'failed') GROUP BY 1, 2
        """
    )
    return [QueueCount(row["job_type"], JobStatus(row["status"]), row["count"], 0) for row in rows]


async def held_jobs(connection: Connection, limit: int) -> Sequence[HeldJob]:
    """What runs now, on any supervisor: the longest first."""
    rows = await connection.fetch(
        """
        SELECT id, job_type::text AS job_type, law_id, claimed_by, attempts - releases AS attempt,
               COALESCE(EXTRACT(EPOCH FROM now() - started_at), 0)::float8 AS age_s,
               COALESCE(EXTRACT(EPOCH FROM now() - GREATEST(heartbeat_at, started_at)), 0)::float8 AS beat_age_s,
               progress::text AS progress, cancel_requested_at IS NOT NULL AS cancelling
        FROM jobs WHERE status = 'processing' ORDER BY started_at, id LIMIT $1
        """,
        limit,
    )
    return [
        HeldJob(
            UUID(int=row["id"].int), row["job_type"], row["law_id"], row["claimed_by"], row["attempt"], row["age_s"],
            row["beat_age_s"], json_of(row["progress"]), row["cancelling"],
        )
        for row in rows
    ]  # fmt: skip


async def recent_failures(connection: Connection, limit: int) -> Sequence[EndedBadly]:
    """The newest first."""
    rows = await connection.fetch(
        """
        SELECT id, job_type::text AS job_type, law_id, COALESCE(completed_at, created_at) AS at,
               COALESCE(result->>'error', '') AS error, result->>'kind' AS kind
        FROM jobs WHERE status = 'failed' ORDER BY COALESCE(completed_at, created_at) DESC LIMIT $1
        """,
        limit,
    )
    return [EndedBadly(UUID(int=row["id"].int), *(row[name] for name in _FAILURE_COLUMNS)) for row in rows]


@frozen
class BudgetNow:
    """The claude budget by the database clock. Hours are clock hours of Amsterdam; ``waiting`` counts due claude jobs."""

    used: int
    cap: int
    local_hour: int
    next_local_hour: int
    """What clocks show when this hour ends: in the nights of the clock change it is not the next number."""
    at: dt.datetime
    next_hour_at: dt.datetime
    waiting: int

    @property
    def blocked(self) -> bool:
        """No claude job is claimed before ``next_hour_at``."""
        return self.used >= self.cap

    @property
    def left_s(self) -> float:
        return (self.next_hour_at - self.at).total_seconds()


async def budget_now(connection: Connection, rule: BudgetRule, *, at: dt.datetime | None = None) -> BudgetNow:
    """As a claim by ``rule`` would find it now. ``at`` stands in for the database clock; only tests give it."""
    used, local_hour, moment = await count_runs(connection, includes_convert=rule.includes_convert, at=at)
    ends = next_hour(moment)
    next_local = await connection.fetchval(
        "SELECT EXTRACT(HOUR FROM $1::timestamptz AT TIME ZONE 'Europe/Amsterdam')::int", ends
    )
    cap = hourly_cap(rule.hourly_limit, rule.night_multiplier, local_hour)
    waiting = await count_pending_runs(connection, CLAUDE, rule.default_provider)
    return BudgetNow(used, cap, local_hour, next_local, moment, ends, waiting)


async def count_pending_runs(connection: Connection, provider: str, default_provider: str) -> int:
    """Due agent jobs that ``provider`` would run: what waits when its hour is used up."""
    return int(
        await connection.fetchval(
            """
            SELECT count(*) FROM jobs
            WHERE status = 'pending' AND scheduled_at IS NULL AND job_type IN ('enrich', 'document_convert', 'law_convert')
              AND CASE WHEN payload->>'provider' = ANY ($3::text[]) THEN payload->>'provider' ELSE $2 END = $1
            """,
            provider,
            default_provider,
            list(PROVIDERS),
        )
    )


def _escaped(text: str) -> str:
    """``text`` as itself inside a LIKE pattern."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
