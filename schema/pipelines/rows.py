"""Row types of pipelines, and how they come out of records. JSON arrives as text and is parsed here, once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from attrs import field, frozen

from protocols.runs import DocAction, ItemOutcome, RunStatus, Trigger
from schema.records import json_of, plain_uuid

PIPELINE_COLUMNS: Final = (
    "id, workspace_id, connector_id, destination_folder_id, created_by_id, name, config::text AS config, save_to_kb, "
    "schedule_cron, schedule_timezone, enabled, next_scheduled_at, last_fired_at, schedule_error, created_at, updated_at"
)
CONNECTOR_COLUMNS: Final = (
    "id, workspace_id, owner_id, name, connector_type, config::text AS config, is_indexable, periodic_indexing_enabled, "
    "indexing_frequency_minutes, next_scheduled_at, periodic_suppressed, periodic_saved::text AS periodic_saved, "
    "last_indexed_at, created_at, updated_at"
)
RUN_COLUMNS: Final = (
    "id, pipeline_id, job_id, claim_seq, status::text AS status, trigger::text AS trigger, triggered_by_id, "
    "scheduled_for, documents_indexed, crawls_attempted, crawls_succeeded, summary::text AS summary, error::text AS error, "
    "result_blob_key, result_blob_backend, result_bytes, result_expires_at, preflight_at, unit_price_micros, "
    "reserved_micros, reserved_owner_id, charged_micros, cancel_requested_at, created_at, started_at, finished_at"
)


@frozen
class Pipeline:
    """One row of ``pipelines``. ``connector_id`` None: filled by uploads; ``schedule_cron`` None: manual only."""

    id: int
    workspace_id: int
    connector_id: int | None
    destination_folder_id: int | None
    created_by_id: UUID | None
    name: str
    config: Mapping[str, Any]
    save_to_kb: bool
    schedule_cron: str | None
    schedule_timezone: str
    enabled: bool
    next_scheduled_at: dt.datetime | None
    last_fired_at: dt.datetime | None
    schedule_error: str | None
    created_at: dt.datetime
    updated_at: dt.datetime


@frozen
class Connector:
    """One row of ``connectors``. ``periodic_saved`` is what the user had set while a pipeline owns the schedule."""

    id: int
    workspace_id: int
    owner_id: UUID
    name: str
    connector_type: str
    config: Mapping[str, Any] = field(repr=False)
    is_indexable: bool
    periodic_indexing_enabled: bool
    indexing_frequency_minutes: int | None
    next_scheduled_at: dt.datetime | None
    periodic_suppressed: bool
    periodic_saved: Mapping[str, Any] | None
    last_indexed_at: dt.datetime | None
    created_at: dt.datetime
    updated_at: dt.datetime


@frozen
class Run:
    """One row of ``pipeline_runs``. Counts are None where nothing of the kind was counted."""

    id: int
    pipeline_id: int
    job_id: UUID | None
    claim_seq: int
    status: RunStatus
    trigger: Trigger
    triggered_by_id: UUID | None
    scheduled_for: dt.datetime | None
    documents_indexed: int | None
    crawls_attempted: int | None
    crawls_succeeded: int | None
    summary: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    result_blob_key: str | None
    result_blob_backend: str | None
    result_bytes: int | None
    result_expires_at: dt.datetime | None
    preflight_at: dt.datetime | None
    unit_price_micros: int | None
    reserved_micros: int
    reserved_owner_id: UUID | None
    charged_micros: int | None
    cancel_requested_at: dt.datetime | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def has_result(self) -> bool:
        return self.result_blob_key is not None


@frozen
class Item:
    """One frozen target of a run. ``outcome`` None: not done."""

    run_id: int
    ordinal: int
    target: str
    claim_seq: int
    outcome: ItemOutcome | None
    doc_action: DocAction | None
    document_id: int | None
    job_id: UUID | None
    tier: str | None
    http_status: int | None
    size_bytes: int | None
    duration_ms: int | None
    error: str | None
    finished_at: dt.datetime | None


def pipeline_of(record: Mapping[str, Any]) -> Pipeline:
    """A row that was read with ``PIPELINE_COLUMNS``."""
    return Pipeline(
        **_plain(record, PIPELINE_COLUMNS, skip=("created_by_id", "config")),
        created_by_id=plain_uuid(record["created_by_id"]),
        config=json_of(record["config"]),
    )


def connector_of(record: Mapping[str, Any]) -> Connector:
    """A row that was read with ``CONNECTOR_COLUMNS``."""
    return Connector(
        **_plain(record, CONNECTOR_COLUMNS, skip=("owner_id", "config", "periodic_saved")),
        owner_id=UUID(int=record["owner_id"].int),
        config=json_of(record["config"]),
        periodic_saved=json_of(record["periodic_saved"]),
    )


def run_of(record: Mapping[str, Any]) -> Run:
    """A row that was read with ``RUN_COLUMNS``."""
    uuids = ("job_id", "triggered_by_id", "reserved_owner_id")
    return Run(
        **_plain(record, RUN_COLUMNS, skip=(*uuids, "status", "trigger", "summary", "error")),
        job_id=plain_uuid(record["job_id"]),
        triggered_by_id=plain_uuid(record["triggered_by_id"]),
        reserved_owner_id=plain_uuid(record["reserved_owner_id"]),
        status=RunStatus(record["status"]),
        trigger=Trigger(record["trigger"]),
        summary=json_of(record["summary"]),
        error=json_of(record["error"]),
    )


def item_of(record: Mapping[str, Any]) -> Item:
    """A whole row of ``pipeline_run_items``."""
    return Item(
        run_id=record["run_id"],
        ordinal=record["ordinal"],
        target=record["target"],
        claim_seq=record["claim_seq"],
        outcome=None if record["outcome"] is None else ItemOutcome(record["outcome"]),
        doc_action=None if record["doc_action"] is None else DocAction(record["doc_action"]),
        document_id=record["document_id"],
        job_id=plain_uuid(record["job_id"]),
        tier=record["tier"],
        http_status=record["http_status"],
        size_bytes=record["bytes"],
        duration_ms=record["duration_ms"],
        error=record["error"],
        finished_at=record["finished_at"],
    )


def _plain(record: Mapping[str, Any], columns: str, *, skip: tuple[str, ...]) -> dict[str, Any]:
    """The columns whose values need no reading, by name."""
    names = (column.rpartition(" AS ")[2] for column in columns.split(", "))
    return {name: record[name] for name in names if name not in skip}
