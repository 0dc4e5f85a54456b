"""What is asked of the queue and what it answers: values without behaviour, shared by the SQL and the port above it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from uuid import UUID

from attrs import field, frozen

from protocols.budget import CLAUDE
from schema.rows import Job, JobType, Lease


@frozen
class Want:
    """Free slots of one role. ``job_types`` share the slots and are served in the order given (``queue.md`` 2.3)."""

    job_types: tuple[JobType, ...]
    slots: int


@frozen
class BudgetRule:
    """The hourly claude budget as configured (D11). ``hourly_limit`` 0: no claude run."""

    hourly_limit: int = 0
    night_multiplier: int = 1
    includes_convert: bool = True
    default_provider: str = "opencode"


def is_counted(job_type: JobType, provider: str | None, rule: BudgetRule) -> bool:
    """Whether a claim of such a job is a run that the budget counts; ``provider`` is who runs it."""
    return provider == CLAUDE and (job_type is JobType.ENRICH or rule.includes_convert)


@frozen
class ClaimRequest:
    """``token`` is fresh for each claim statement (D7) and becomes the lease of every row it takes.

    ``credentials`` are the (provider, hash) pairs that this supervisor holds: a provider of which all are benched is not
    claimed for (D52). ``count_budget`` False leaves the budget out: for programs that count for themselves.
    ``at`` stands in for the database clock; only tests of clock rules give it.
    """

    token: UUID
    holder: str
    wants: tuple[Want, ...]
    budget: BudgetRule = BudgetRule()
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    count_budget: bool = True
    at: dt.datetime | None = None


@frozen
class BudgetView:
    """What the claim counted before it took rows: ``used`` of ``cap`` claude runs in the current clock hour.

    ``left_s``: seconds left of that hour, by the database clock. None when nothing was counted, because no run is allowed.
    """

    used: int
    cap: int
    local_hour: int
    blocked: bool
    left_s: float | None = None


@frozen
class ClaimAnswer:
    """``next_due_s``: seconds until it is worth looking again, by the database clock; None: nothing known waits.

    ``budget`` is None when nothing was counted: no claude row was in question, or another claim held the count just now.
    """

    jobs: tuple[Job, ...] = ()
    next_due_s: float | None = None
    budget: BudgetView | None = None


def _leases(leases: Iterable[Lease]) -> frozenset[Lease]:
    return frozenset(leases)


@frozen
class BeatAnswer:
    """``unbeaten`` rows are still ours but were locked by another writer just now (D5)."""

    confirmed: frozenset[Lease] = field(converter=_leases, default=())
    unbeaten: frozenset[Lease] = field(converter=_leases, default=())
    lost: frozenset[Lease] = field(converter=_leases, default=())


@frozen
class ReapRule:
    """Seconds. ``foreign_orphan_timeout_s`` is for rows without a lease and without a beat (D3)."""

    orphan_timeout_s: float = 300
    foreign_orphan_timeout_s: float = 1800
