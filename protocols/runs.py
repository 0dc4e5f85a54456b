"""Pipeline runs as values: states, payload, counts, and how a run says why it failed (``pipelines.md`` 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from attrs import field, frozen

from protocols.failures import InvalidPayload, JsonObject, LeaseLost, Permanent
from protocols.redaction import MASK, redact
from protocols.scrub import scrub_text

MAX_MESSAGE: Final = 2000

_QUERY_SECRET: Final = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:token|key|secret|password|passwd|signature|sig|auth|credential|session)[\w.-]*)=)[^&;\s#'\"<>]+"
)


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self not in (RunStatus.PENDING, RunStatus.RUNNING)


class Trigger(StrEnum):
    MANUAL = "manual"
    SCHEDULED = "scheduled"
    UPLOAD = "upload"


class ItemOutcome(StrEnum):
    """What came of one target. No outcome yet: not done, and a run that is taken up again goes on there."""

    SUCCESS = "success"
    EMPTY = "empty"
    FAILED = "failed"
    SKIPPED = "skipped"


class DocAction(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"
    NONE = "none"


@frozen
class RunPayload:
    """``jobs.payload`` of a ``pipeline_run``."""

    run_id: int
    pipeline_id: int
    workspace_id: int
    trigger: Trigger

    def to_document(self) -> JsonObject:
        return {
            "run_id": self.run_id,
            "pipeline_id": self.pipeline_id,
            "workspace_id": self.workspace_id,
            "trigger": self.trigger.value,
        }


def read_run_payload(payload: Any) -> RunPayload:
    """InvalidPayload names what is wrong."""
    try:
        read = RunPayload(
            payload["run_id"], payload["pipeline_id"], payload["workspace_id"], Trigger(payload["trigger"])
        )
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidPayload("a pipeline_run job carries run_id, pipeline_id, workspace_id and trigger") from error
    if any(type(number) is not int for number in (read.run_id, read.pipeline_id, read.workspace_id)):
        raise InvalidPayload("run_id, pipeline_id and workspace_id of a pipeline_run job are whole numbers")
    return read


def pipeline_law_id(pipeline_id: int) -> str:
    """What ``jobs.law_id`` of a run says (D73): no law, and nothing that counts laws takes it for one."""
    return f"pipeline:{pipeline_id}"


def connector_law_id(connector_id: int) -> str:
    return f"connector:{connector_id}"


def claim_holder(job_id: object, attempts: int) -> str:
    """Who holds a lease or a document: one claim of one job."""
    return f"{job_id}:{attempts}"


@frozen
class RunCounts:
    """What came of the targets of a run. Money is counted from ``success`` alone, never from documents."""

    targets: int = 0
    success: int = 0
    empty: int = 0
    failed: int = 0
    skipped: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicate: int = 0

    @property
    def attempted(self) -> int:
        """Handed to the crawler; what was skipped was not."""
        return self.success + self.empty + self.failed

    @property
    def documents_indexed(self) -> int:
        return self.created + self.updated

    def to_summary(self) -> JsonObject:
        """What people read at a finished crawl run; the parts on documents only where there were any."""
        summary: JsonObject = {
            "urls": self.targets,
            "success": self.success,
            "empty": self.empty,
            "failed": self.failed,
            "skipped": self.skipped,
        }
        documents = {
            "created": self.created,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "duplicate": self.duplicate,
        }
        return {**summary, "documents": documents} if any(documents.values()) else summary


# --- why a run failed -------------------------------------------------------------------------------------------------


def shown(text: str, limit: int = MAX_MESSAGE) -> str:
    """``text`` as it may be stored and shown: no credentials of URLs, no secrets of queries, not too long."""
    return scrub_text(_QUERY_SECRET.sub(rf"\1{MASK}", redact(text)))[:limit]


@frozen
class RunError:
    """Always this shape in ``pipeline_runs.error``. ``type`` is the class name of an exception that nobody foresaw."""

    code: str
    message: str = field(converter=shown)
    type: str | None = None
    detail: Mapping[str, Any] | None = None

    def to_document(self) -> JsonObject:
        document: JsonObject = {"code": self.code, "message": self.message}
        if self.type is not None:
            document["type"] = self.type
        if self.detail is not None:
            document["detail"] = dict(self.detail)
        return document


class RunFailed(Permanent):
    """The run ends failed, for good: a run is driven again only when its worker was lost, never for what it met."""

    kind = "run_failed"

    def __init__(self, error: RunError) -> None:
        super().__init__(error.message, run_error=error.to_document())
        self.error = error


class RunGone(LeaseLost):
    """Run, pipeline, connector or workspace was deleted meanwhile. Nobody is left to tell, so nothing more is written."""

    kind = "run_gone"


def uploads_no_executor() -> RunFailed:
    return RunFailed(RunError("uploads_no_executor", "uploads pipeline has no fetch executor"))


def connector_ineligible(connector_type: str) -> RunFailed:
    return RunFailed(RunError("connector_ineligible", f"connector type {connector_type} no longer eligible"))


def executor_missing(connector_type: str) -> RunFailed:
    return RunFailed(RunError("executor_missing", f"executor not implemented for {connector_type}"))


def no_urls() -> RunFailed:
    return RunFailed(RunError("no_urls", "no URLs to crawl"))


def no_laws() -> RunFailed:
    return RunFailed(RunError("no_laws", "no laws to harvest"))


def too_many_urls(found: int, limit: int) -> RunFailed:
    return RunFailed(RunError("too_many_urls", f"{found} URLs exceed the per-run limit of {limit}"))


def already_in_progress() -> RunFailed:
    return RunFailed(RunError("already_in_progress", "a run for this pipeline is already in progress"))


def connector_busy() -> RunFailed:
    return RunFailed(RunError("connector_busy", "connector is currently indexing; retry later"))


def out_of_credit(required_micros: int, available_micros: int) -> RunFailed:
    detail = {"required_micros": required_micros, "available_micros": available_micros}
    return RunFailed(RunError("out_of_credit", "out of crawl credit", detail=detail))


def unforeseen(error: BaseException) -> RunFailed:
    return RunFailed(RunError("exception", str(error), type=type(error).__name__))


WORKER_LOST: Final = RunError("worker_lost", "worker stopped responding")
ORPHANED: Final = RunError("orphaned", "the job that carried this run is gone")
