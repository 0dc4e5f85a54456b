"""From a record of the driver to a row type: JSON and enums are parsed here, once, for every query (D24)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from schema.rows import Job, JobStatus, JobType, LawEntry, LawStatus

JOB_COLUMNS: Final = (
    "id, job_type::text AS job_type, law_id, status::text AS status, priority, payload::text AS payload, "
    "result::text AS result, progress::text AS progress, attempts, max_attempts, created_at, updated_at, started_at, "
    "completed_at, scheduled_at, heartbeat_at, traject_ref, lease, claimed_by, releases, run_provider, cancel_requested_at"
)
LAW_COLUMNS: Final = (
    "law_id, law_name, slug, status::text AS status, harvest_job_id, enrich_job_id, coverage_score, created_at, "
    "updated_at, harvest_fail_count, enrich_fail_count, settled_status::text AS settled_status, enrich_exhausted_at"
)


def columns_of(alias: str, columns: str = JOB_COLUMNS) -> str:
    """The column list with each column of table ``alias``; needed where a join makes bare names ambiguous."""
    return ", ".join(f"{alias}.{column}" for column in columns.split(", "))


def json_of(text: str | None) -> Any:
    """The value of a ``json`` or ``jsonb`` column, which arrives as text."""
    return None if text is None else json.loads(text)


def plain_uuid(value: UUID | None) -> UUID | None:
    """The driver has a UUID class of its own; rows carry the standard one."""
    return None if value is None else UUID(int=value.int)


def job_of(record: Mapping[str, Any]) -> Job:
    """A row that was read with ``JOB_COLUMNS``."""
    return Job(
        id=UUID(int=record["id"].int),
        job_type=JobType(record["job_type"]),
        law_id=record["law_id"],
        status=JobStatus(record["status"]),
        priority=record["priority"],
        payload=json_of(record["payload"]),
        result=json_of(record["result"]),
        progress=json_of(record["progress"]),
        attempts=record["attempts"],
        max_attempts=record["max_attempts"],
        created_at=record["created_at"],
        updated_at=record["updated_at"],
        started_at=record["started_at"],
        completed_at=record["completed_at"],
        scheduled_at=record["scheduled_at"],
        heartbeat_at=record["heartbeat_at"],
        traject_ref=record["traject_ref"],
        lease=plain_uuid(record["lease"]),
        claimed_by=record["claimed_by"],
        releases=record["releases"],
        run_provider=record["run_provider"],
        cancel_requested_at=record["cancel_requested_at"],
    )


def law_of(record: Mapping[str, Any]) -> LawEntry:
    """A row that was read with ``LAW_COLUMNS``."""
    settled = record["settled_status"]
    return LawEntry(
        law_id=record["law_id"],
        law_name=record["law_name"],
        slug=record["slug"],
        status=LawStatus(record["status"]),
        harvest_job_id=plain_uuid(record["harvest_job_id"]),
        enrich_job_id=plain_uuid(record["enrich_job_id"]),
        coverage_score=record["coverage_score"],
        created_at=record["created_at"],
        updated_at=record["updated_at"],
        harvest_fail_count=record["harvest_fail_count"],
        enrich_fail_count=record["enrich_fail_count"],
        settled_status=None if settled is None else LawStatus(settled),
        enrich_exhausted_at=record["enrich_exhausted_at"],
    )
