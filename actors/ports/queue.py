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

from protocols.failures import JsonObject, SupervisorError
from schema.connection import Connection
from schema.queue.terms import BeatAnswer, BudgetRule, BudgetView, ClaimAnswer, ClaimRequest, ReapRule, Want
from schema.rows import Job, JobStatus, Lease, ReapedJob

__all__ = [
    "BeatAnswer",
    "BudgetRule",
    "BudgetView",
    "ClaimAnswer",
    "ClaimRequest",
    "QueuePort",
    "ReapRule",
    "UnitOfWork",
    "Want",
]

UnitOfWork = Callable[[Connection, Job], Awaitable[None]]
"""Runs inside the transaction of the write it belongs to; asyncio side, so it awaits nothing but the connection."""


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

    async def fail(self, lease: Lease, failure: SupervisorError, *, refund: bool = False) -> JobStatus:
        """Do what the verdict of ``failure`` says, with its law and task aftercare, in one transaction.

        The new status. Not for verdicts ABANDON (write nothing). COMPLETE and HAND_BACK verdicts are served too.
        ``refund`` is for HAND_BACK verdicts, as in ``hand_back``.
        """
        ...

    async def hand_back(self, lease: Lease, *, why: str, refund: bool = False) -> bool:
        """Back to pending at once, no attempt counted (D12). False: it was not ours any more.

        ``refund``: no run was started, so the claim leaves the hourly budget too (D11). A job whose cancel was asked
        for ends failed instead (D26).
        """
        ...

    async def cancel_requests(self, leases: Collection[Lease]) -> frozenset[Lease]:
        """Which of our jobs somebody wants to end (D26). Reads only."""
        ...

    async def reap(self, rule: ReapRule) -> ReapedJob | None:
        """Take one orphan from its dead holder, with aftercare (D3). None: there is none now."""
        ...

    async def sweep(self) -> Sequence[tuple[str, int]]:
        """Garbage collection of the reaper tick (``queue.md`` 2.9): what was deleted, by table."""
        ...
