"""Row types and enums of the shared database (``queue.md`` 1). Values are typed here once and stay typed."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any
from uuid import UUID

from attrs import field, frozen


class JobType(StrEnum):
    HARVEST = "harvest"
    ENRICH = "enrich"
    DOCUMENT_CONVERT = "document_convert"
    LAW_CONVERT = "law_convert"
    TRAJECT_HARVEST = "traject_harvest"
    PIPELINE_RUN = "pipeline_run"
    CONNECTOR_INDEX = "connector_index"
    PROBE = "probe"
    """Known duration, no purpose: exists in test databases only (D27)."""


class JobStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


ACTIVE_STATUSES = frozenset({JobStatus.PENDING, JobStatus.PROCESSING})


class LawStatus(StrEnum):
    UNKNOWN = "unknown"
    QUEUED = "queued"
    HARVESTING = "harvesting"
    HARVESTED = "harvested"
    HARVEST_FAILED = "harvest_failed"
    HARVEST_EXHAUSTED = "harvest_exhausted"
    ENRICHING = "enriching"
    ENRICHED = "enriched"
    ENRICH_FAILED = "enrich_failed"
    ENRICH_EXHAUSTED = "enrich_exhausted"
    NOT_HARVESTABLE = "not_harvestable"


@frozen(cache_hash=True)
class Lease:
    """The right to write one job row: every write of a claim is fenced on all three values (D1)."""

    job_id: UUID
    token: UUID
    attempts: int


@frozen
class Job:
    """One row of ``jobs``. Times are aware UTC; ``payload``, ``result`` and ``progress`` are parsed JSON."""

    id: UUID
    job_type: JobType
    law_id: str
    status: JobStatus
    priority: int
    attempts: int
    max_attempts: int
    created_at: dt.datetime
    updated_at: dt.datetime
    payload: Any = None
    result: Any = None
    progress: Any = None
    started_at: dt.datetime | None = None
    completed_at: dt.datetime | None = None
    scheduled_at: dt.datetime | None = None
    heartbeat_at: dt.datetime | None = None
    traject_ref: str | None = None
    lease: UUID | None = field(default=None, repr=False)
    claimed_by: str | None = None
    releases: int = 0
    run_provider: str | None = None
    cancel_requested_at: dt.datetime | None = None
    """A person wants the running job to end (D26); whoever holds it sees to that, else the reaper."""

    @property
    def lease_held(self) -> Lease:
        """The lease of a claimed row. ValueError when the row is not claimed with a lease."""
        if self.lease is None:
            raise ValueError(f"job {self.id} holds no lease")
        return Lease(self.id, self.lease, self.attempts)

    @property
    def deaths(self) -> int:
        """Attempts that were really spent, the running one included: hand-backs do not count (D12). The number that people see."""
        return self.attempts - self.releases


@frozen
class LawEntry:
    """One row of ``law_entries``."""

    law_id: str
    status: LawStatus
    created_at: dt.datetime
    updated_at: dt.datetime
    law_name: str | None = None
    slug: str | None = None
    harvest_job_id: UUID | None = None
    enrich_job_id: UUID | None = None
    coverage_score: float | None = None
    harvest_fail_count: int = 0
    enrich_fail_count: int = 0
    settled_status: LawStatus | None = None
    enrich_exhausted_at: dt.datetime | None = None


def _clamp_priority(value: int) -> int:
    return max(0, min(100, value))


def _clamp_attempts(value: int) -> int:
    return max(1, value)


@frozen
class JobRequest:
    """A job to create. Priority is clamped to 0..100 and max_attempts to at least 1, never refused."""

    job_type: JobType
    law_id: str
    priority: int = field(default=50, converter=_clamp_priority)
    payload: Any = None
    max_attempts: int = field(default=3, converter=_clamp_attempts)
    traject_ref: str | None = None
    delay_s: float | None = None
    """Earliest claim this long after creation; None is at once."""


@frozen
class ReapedJob:
    """A job that the reaper took from a dead holder; ``status`` is the new one."""

    id: UUID
    job_type: JobType
    law_id: str
    status: JobStatus
    priority: int
    attempts: int
    payload: Any = None
    aftercare_failed: bool = False
    """True when the aftercare raised and the row was reaped bare in a second transaction (D3)."""
