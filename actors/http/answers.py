"""What clients are told. Made from rows by name; the places of stored results are left out."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from protocols.runs import DocAction, ItemOutcome, RunStatus, Trigger
from schema.rows import JobStatus

A = TypeVar("A", bound=msgspec.Struct)

Moment = Annotated[dt.datetime, Meta(tz=True)]


class PeriodicChanged(msgspec.Struct):
    """What the request did to the connector's own schedule."""

    suppressed: bool
    restored: bool


class PipelineAnswer(msgspec.Struct, kw_only=True):
    """A pipeline. ``connector_periodic`` is there in answers to a creation and a change."""

    id: int
    workspace_id: int
    connector_id: int | None
    destination_folder_id: int | None
    created_by_id: UUID | None
    name: str
    config: dict[str, Any]
    save_to_kb: bool
    schedule_cron: str | None
    schedule_timezone: str
    enabled: bool
    next_scheduled_at: Moment | None
    last_fired_at: Moment | None
    schedule_error: str | None
    created_at: Moment
    updated_at: Moment
    connector_periodic: PeriodicChanged | UnsetType = UNSET


class ConnectorAnswer(msgspec.Struct, kw_only=True):
    """A connector. ``periodic_suppressed``: pipelines own its schedule now, ``periodic_saved`` comes back after them."""

    id: int
    workspace_id: int
    owner_id: UUID
    name: str
    connector_type: str
    config: dict[str, Any]
    is_indexable: bool
    periodic_indexing_enabled: bool
    indexing_frequency_minutes: int | None
    next_scheduled_at: Moment | None
    periodic_suppressed: bool
    periodic_saved: dict[str, Any] | None
    last_indexed_at: Moment | None
    created_at: Moment
    updated_at: Moment


class FolderAnswer(msgspec.Struct, kw_only=True):
    """A folder."""

    id: int
    workspace_id: int
    parent_id: int | None
    name: str
    position: str
    created_by_id: UUID | None
    created_at: Moment
    updated_at: Moment


class WalletAnswer(msgspec.Struct, kw_only=True):
    """The credit of the owner, over all its workspaces; 1000000 micros are one dollar."""

    balance_micros: int
    reserved_micros: int
    spendable_micros: int


class WorkspaceAnswer(msgspec.Struct, kw_only=True):
    """A workspace."""

    id: int
    name: str
    wallet: WalletAnswer


class RunAnswer(msgspec.Struct, kw_only=True):
    """A run. Counts are null where nothing of the kind was counted; amounts are micros."""

    id: int
    pipeline_id: int
    job_id: UUID | None
    claim_seq: int
    status: RunStatus
    trigger: Trigger
    triggered_by_id: UUID | None
    scheduled_for: Moment | None
    documents_indexed: int | None
    crawls_attempted: int | None
    crawls_succeeded: int | None
    summary: dict[str, Any] | None
    error: dict[str, Any] | None
    has_result: bool
    result_bytes: int | None
    result_expires_at: Moment | None
    preflight_at: Moment | None
    unit_price_micros: int | None
    reserved_micros: int
    charged_micros: int | None
    cancel_requested_at: Moment | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None


class ChildrenAnswer(msgspec.Struct, kw_only=True):
    """The harvests that a run over laws has queued, as they are now."""

    pending: int
    processing: int
    completed: int
    failed: int
    changed: int


class RunDetailAnswer(RunAnswer, kw_only=True):
    """A run with how far it is."""

    progress: dict[str, Any] | None
    children: ChildrenAnswer


class ItemAnswer(msgspec.Struct, kw_only=True):
    """One target of a run. ``outcome`` null: not done."""

    ordinal: int
    target: str
    outcome: ItemOutcome | None
    doc_action: DocAction | None
    document_id: int | None
    job_id: UUID | None
    tier: str | None
    http_status: int | None
    size_bytes: int | None
    duration_ms: int | None
    error: str | None
    finished_at: Moment | None


class JobAnswer(msgspec.Struct, kw_only=True):
    """A job that was made."""

    id: UUID
    status: JobStatus
    created_at: Moment


class PipelinePage(msgspec.Struct):
    """A part of a list, and how many there are in all."""

    items: list[PipelineAnswer]
    total: int


class ConnectorPage(msgspec.Struct):
    """A part of a list, and how many there are in all."""

    items: list[ConnectorAnswer]
    total: int


class FolderPage(msgspec.Struct):
    """A part of a list, and how many there are in all."""

    items: list[FolderAnswer]
    total: int


class RunPage(msgspec.Struct):
    """A part of a list, and how many there are in all."""

    items: list[RunAnswer]
    total: int


class ItemPage(msgspec.Struct):
    """A part of a list, and how many there are in all."""

    items: list[ItemAnswer]
    total: int


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """``code`` is for programs and stable, ``message`` is for people."""

    code: str
    message: str
    details: dict[str, Any] | None = None


class ErrorAnswer(msgspec.Struct):
    """Every answer that is no success."""

    error: ErrorBody


def told(kind: type[A], row: object, **more: Any) -> A:
    """An answer from a row, by the names of its fields; ``more`` are those that the row does not have."""
    names = [field.name for field in msgspec.structs.fields(kind) if field.name not in more and field.required]
    return kind(**{name: getattr(row, name) for name in names}, **more)
