"""What actors ask of the queue. PostgreSQL and the in-memory twin pass one conformance suite (D22).

Every call is one unit of work: it happened as a whole, or nothing changed. Typed answers to trouble:

- ``DatabaseUnavailable``: nothing was written; wait and try again.
- ``OutcomeUnclear``: it may have been written; each method says what the caller does then (D7).
- ``LeaseLost``: the claim is not ours any more (D1).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from protocols.failures import JsonObject, SupervisorError
from schema.connection import Connection
from schema.rows import Job, JobStatus, JobType, Lease, ReapedJob

UnitOfWork = Callable[[Connection, Job], Awaitable[None]]
"""Runs inside the transaction of the write it belongs to; asyncio side, so it awaits nothing but the connection."""


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


@frozen
class ClaimRequest:
    """``token`` is fresh for each claim statement (D7) and becomes the lease of every row it takes."""

    token: UUID
    holder: str
    wants: tuple[Want, ...]
    budget: BudgetRule = BudgetRule()


@frozen
class BudgetView:
    """What the claim counted, for people: ``used`` of ``cap`` claude runs in the current clock hour."""

    used: int
    cap: int
    local_hour: int
    blocked: bool


@frozen
class ClaimAnswer:
    """``next_due_s``: seconds until the next waiting row of a wanted type is due, by the database clock; None: none waits."""

    jobs: tuple[Job, ...] = ()
    next_due_s: float | None = None
    budget: BudgetView | None = None


@frozen
class BeatAnswer:
    """``unbeaten`` rows are still ours but were locked by another writer just now (D5)."""

    confirmed: frozenset[Lease] = field(converter=frozenset, default=frozenset())
    unbeaten: frozenset[Lease] = field(converter=frozenset, default=frozenset())
    lost: frozenset[Lease] = field(converter=frozenset, default=frozenset())


@frozen
class ReapRule:
    """Seconds. ``foreign_orphan_timeout_s`` is for rows without a lease and without a beat (D3)."""

    orphan_timeout_s: float = 300
    foreign_orphan_timeout_s: float = 1800


class QueuePort(Protocol):
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Promote due rows, then claim at most the wanted slots. OutcomeUnclear: rows may carry ``request.token``."""
        ...

    async def release_tokens(self, tokens: Collection[UUID], *, why: str) -> int:
        """Hand back whatever is still held under these suspect tokens (D7). How many rows that were."""
        ...

    async def beat(self, leases: Collection[Lease]) -> BeatAnswer:
        """One statement for all leases, on the beat connection (D5)."""
        ...

    async def write_progress(self, documents: Mapping[Lease, JsonObject]) -> None:
        """One statement for all; a lost lease is skipped silently, the beat finds it."""
        ...

    async def write(self, lease: Lease, unit: UnitOfWork) -> None:
        """Run ``unit`` in a transaction that first proves the lease. LeaseLost: nothing of it was kept."""
        ...

    async def complete(self, lease: Lease, result: JsonObject | None, settle: UnitOfWork | None = None) -> None:
        """Complete the job and run ``settle`` in one transaction. An unclear commit is resolved inside (D7)."""
        ...

    async def fail(self, lease: Lease, failure: SupervisorError) -> JobStatus:
        """Do what the verdict of ``failure`` says, with its law and task aftercare, in one transaction.

        The new status. Not for verdicts ABANDON (write nothing). COMPLETE and HAND_BACK verdicts are served too.
        """
        ...

    async def hand_back(self, lease: Lease, *, why: str) -> bool:
        """Back to pending at once, no attempt counted (D12). False: it was not ours any more."""
        ...

    async def reap(self, rule: ReapRule) -> ReapedJob | None:
        """Take one orphan from its dead holder, with aftercare (D3). None: there is none now."""
        ...

    async def sweep(self) -> Sequence[tuple[str, int]]:
        """Garbage collection of the reaper tick (``queue.md`` 2.9): what was deleted, by table."""
        ...
