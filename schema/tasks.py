"""Review tasks, the blobs that travel with jobs, and uploads (``corpus-and-tasks.md`` 2-5).

Task rows are an audit trail and are never deleted. Blobs live until the last open task of their job is resolved.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.failures import InvalidInput
from protocols.scrub import scrub_text, to_json
from schema.connection import Connection
from schema.records import JOB_COLUMNS, job_of, json_of, plain_uuid
from schema.rows import Job

TASK_FLOW_TYPES: Final = ("enrich", "document_convert", "law_convert", "traject_harvest")
UPLOAD_TYPES: Final = ("document_convert", "law_convert")
"""Job types whose ``payload.upload_id`` keeps an upload alive; a new one that is missing here loses its uploads."""

OPEN_LIMIT: Final = 100
RUNNING_LIMIT: Final = 50
BLOB_DAYS: Final = 7
UPLOAD_MINUTES: Final = 15


class TaskType(StrEnum):
    JOB_REVIEW = "job_review"
    JOB_FAILED = "job_failed"


class TaskStatus(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    DISMISSED = "dismissed"


class BlobKind(StrEnum):
    INPUT = "input"
    RESULT = "result"
    PARTIAL = "partial"
    """Models of an attempt that did not end (D43)."""
    PENDING_RESULT = "pending_result"
    """The result of a push whose completion may be missing (D53)."""


@frozen
class Task:
    """One row of ``tasks``. ``title`` is Dutch and for the person it is assigned to (D30)."""

    id: UUID
    task_type: TaskType
    status: TaskStatus
    title: str
    created_at: dt.datetime
    assignee_account_id: UUID | None = None
    traject_id: UUID | None = None
    job_id: UUID | None = None
    payload: Any = None
    resolved_at: dt.datetime | None = None
    resolved_by: UUID | None = None


@frozen
class NewTask:
    """A task to create. Ids that point to nothing are a foreign key violation of the driver."""

    task_type: TaskType
    title: str
    job_id: UUID | None = None
    assignee_account_id: UUID | None = None
    traject_id: UUID | None = None
    payload: Mapping[str, Any] | None = None


@frozen
class Blob:
    path: str
    content: str


_TASK_COLUMNS: Final = (
    "id, task_type, status::text AS status, title, created_at, assignee_account_id, traject_id, job_id, "
    "payload::text AS payload, resolved_at, resolved_by"
)


async def create_task(connection: Connection, task: NewTask) -> Task:
    """A new open task."""
    row = await connection.fetchrow(
        f"""
        INSERT INTO tasks (task_type, title, job_id, assignee_account_id, traject_id, payload)
        VALUES ($1, $2, $3, $4, $5, $6::text::jsonb) RETURNING {_TASK_COLUMNS}
        """,
        task.task_type.value,
        scrub_text(task.title),
        task.job_id,
        task.assignee_account_id,
        task.traject_id,
        to_json(task.payload),
    )
    assert row is not None
    return _task_of(row)


async def existing_addressee(
    connection: Connection, account_id: UUID | None, traject_id: UUID | None
) -> tuple[UUID, UUID | None] | None:
    """Who a task can be shown to: None when the account is gone. A traject that is gone is left out."""
    row = await connection.fetchrow(
        """
        SELECT EXISTS (SELECT FROM accounts WHERE id = $1) AS account, EXISTS (SELECT FROM trajects WHERE id = $2) AS traject
        """,
        account_id,
        traject_id,
    )
    if account_id is None or row is None or not row["account"]:
        return None
    return account_id, traject_id if row["traject"] else None


async def list_open_tasks_for_account(connection: Connection, account_id: UUID) -> Sequence[Task]:
    """The newest 100; ``count_open_tasks_for_account`` tells how many there are in all."""
    rows = await connection.fetch(
        f"""
        SELECT {_TASK_COLUMNS} FROM tasks WHERE assignee_account_id = $1 AND status = 'open'
        ORDER BY created_at DESC, id LIMIT {OPEN_LIMIT}
        """,
        account_id,
    )
    return [_task_of(row) for row in rows]


async def count_open_tasks_for_account(connection: Connection, account_id: UUID) -> int:
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM tasks WHERE assignee_account_id = $1 AND status = 'open'", account_id
        )
    )


async def list_running_task_jobs_for_account(connection: Connection, account_id: UUID) -> Sequence[Job]:
    """Task-flow jobs that the account asked for and that are pending or processing: the newest 50."""
    rows = await connection.fetch(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs
        WHERE job_type::text = ANY ($2::text[]) AND status IN ('pending', 'processing')
          AND payload->>'deliver' = 'task' AND payload->>'requested_by' = $1
        ORDER BY created_at DESC, id LIMIT {RUNNING_LIMIT}
        """,
        str(account_id),
        list(TASK_FLOW_TYPES),
    )
    return [job_of(row) for row in rows]


async def get_task_for_account(
    connection: Connection, task_id: UUID, account_id: UUID
) -> tuple[Task, list[Blob]] | None:
    """The task with the result blobs of its job, by path. None: no such task, or it is somebody else's."""
    row = await connection.fetchrow(
        f"SELECT {_TASK_COLUMNS} FROM tasks WHERE id = $1 AND assignee_account_id = $2", task_id, account_id
    )
    if row is None:
        return None
    task = _task_of(row)
    blobs = [] if task.job_id is None else await load_blobs(connection, task.job_id, BlobKind.RESULT)
    return task, blobs


async def resolve_task(connection: Connection, task_id: UUID, account_id: UUID, status: TaskStatus) -> Task | None:
    """By the assignee, from open, once. None: a stranger, a second click and an unknown id look the same; so does ``open``."""
    if status is TaskStatus.OPEN:
        return None
    row = await connection.fetchrow(
        f"""
        UPDATE tasks SET status = $3::text::task_status, resolved_at = now(), resolved_by = $2
        WHERE id = $1 AND assignee_account_id = $2 AND status = 'open' RETURNING {_TASK_COLUMNS}
        """,
        task_id,
        account_id,
        status.value,
    )
    return None if row is None else _task_of(row)


async def open_document_task_target_paths(connection: Connection, traject_ref: str) -> set[str]:
    """Names that a new upload of the traject may not take: of unfinished conversions and of open document reviews."""
    rows = await connection.fetch(
        """
        SELECT payload->>'target_path' AS path FROM jobs
        WHERE job_type = 'document_convert' AND status <> 'completed' AND traject_ref = $1
        UNION
        SELECT payload->>'target_path' FROM tasks
        WHERE task_type = 'job_review' AND status = 'open'
          AND payload->>'kind' = 'document' AND payload->>'traject_ref' = $1
        """,
        traject_ref,
    )
    return {row["path"] for row in rows if row["path"] is not None}


async def insert_blob(connection: Connection, job_id: UUID, kind: BlobKind, path: str, content: str) -> None:
    """The driver's unique violation when the job has one at this path: a duplicate is meant to fail loudly."""
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise InvalidInput(f"a blob's path is relative to the repository and stays inside it, not {path!a}")
    await connection.execute(
        "INSERT INTO job_blobs (job_id, kind, path, content) VALUES ($1, $2, $3, $4)",
        job_id,
        kind.value,
        scrub_text(path),
        scrub_text(content),
    )


async def load_blobs(connection: Connection, job_id: UUID, kind: BlobKind) -> list[Blob]:
    """By path."""
    rows = await connection.fetch(
        "SELECT path, content FROM job_blobs WHERE job_id = $1 AND kind = $2 ORDER BY path", job_id, kind.value
    )
    return [Blob(row["path"], row["content"]) for row in rows]


async def delete_blobs_for_job(connection: Connection, job_id: UUID) -> int:
    rows = await connection.fetch("DELETE FROM job_blobs WHERE job_id = $1 RETURNING id", job_id)
    return len(rows)


async def delete_blobs_for_finished_job(connection: Connection, job_id: UUID) -> int:
    """Only when no task of the job is open: asked inside the statement, so that two reviewers at once do not both skip."""
    rows = await connection.fetch(
        """
        DELETE FROM job_blobs WHERE job_id = $1
          AND NOT EXISTS (SELECT FROM tasks WHERE tasks.job_id = $1 AND tasks.status = 'open')
        RETURNING id
        """,
        job_id,
    )
    return len(rows)


async def delete_upload(connection: Connection, upload_id: UUID) -> None:
    await connection.execute("DELETE FROM document_uploads WHERE id = $1", upload_id)


async def sweep(connection: Connection) -> list[tuple[str, int]]:
    """What the reaper's tick deletes: blobs and uploads that nobody can need any more. Counts by table.

    A job that waits for longer than the blobs' age keeps its input (``queue.md`` Q9).
    """
    blobs = await connection.fetch(
        f"""
        DELETE FROM job_blobs AS b WHERE b.created_at < now() - interval '{BLOB_DAYS} days'
          AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.job_id = b.job_id AND t.status = 'open')
          AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.id = b.job_id AND j.status IN ('pending', 'processing'))
        RETURNING 1
        """
    )
    uploads = await connection.fetch(
        f"""
        DELETE FROM document_uploads AS u WHERE u.created_at < now() - interval '{UPLOAD_MINUTES} minutes'
          AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.job_type::text = ANY ($1::text[])
                          AND j.status IN ('pending', 'processing') AND j.payload->>'upload_id' = u.id::text)
        RETURNING 1
        """,
        list(UPLOAD_TYPES),
    )
    return [("job_blobs", len(blobs)), ("document_uploads", len(uploads))]


def _task_of(row: Mapping[str, Any]) -> Task:
    return Task(
        id=UUID(int=row["id"].int),
        task_type=TaskType(row["task_type"]),
        status=TaskStatus(row["status"]),
        title=row["title"],
        created_at=row["created_at"],
        assignee_account_id=plain_uuid(row["assignee_account_id"]),
        traject_id=plain_uuid(row["traject_id"]),
        job_id=plain_uuid(row["job_id"]),
        payload=json_of(row["payload"]),
        resolved_at=row["resolved_at"],
        resolved_by=plain_uuid(row["resolved_by"]),
    )
