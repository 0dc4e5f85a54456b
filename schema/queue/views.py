"""Looking at the queue without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from attrs import frozen

from schema.connection import Connection
from schema.errors import JobNotFound
from schema.records import JOB_COLUMNS, job_of
from schema.rows import Job, JobStatus, JobType

_KNOWN: Final = [job_type.value for job_type in JobType]
"""A later release of the platform may have job types of its own; their rows are not ours to read (D23)."""


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
    """One line per job type and status that occurs."""
    rows = await connection.fetch(
        """
        SELECT job_type::text AS job_type, status::text AS status, count(*) AS count,
               count(*) FILTER (WHERE status = 'pending' AND scheduled_at > now()) AS waiting
        FROM jobs GROUP BY 1, 2 ORDER BY 1, 2
        """
    )
    return [QueueCount(row["job_type"], JobStatus(row["status"]), row["count"], row["waiting"]) for row in rows]


def _escaped(text: str) -> str:
    """``text`` as itself inside a LIKE pattern."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
