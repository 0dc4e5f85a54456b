"""The one job that a handler sees, and the limits that hold it: time, fence, effect (D6)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from actors.ports.latest import LatestWins
from actors.ports.queue import QueuePort, UnitOfWork
from protocols.failures import JsonObject, LeaseLost, Transient
from protocols.messages import Beaten, ClaimedJob, ConfirmAnswer, ConfirmBeat, HeartbeatMessage, LeaseGone, Reply
from schema.rows import Job, Lease

_CONFIRM_PAUSE_S = 0.5
"""Between two tries for a confirmed beat; the fence ends them."""


@define
class Fence:
    """Until when we may act without a word from the database. Each confirmed beat moves it (D6).

    ``scopes`` are cut at the fence, each at ``share`` of it; the earlier of fence and their own limit counts.
    """

    fence_s: float
    confirmed_at: float
    _scopes: dict[trio.CancelScope, tuple[float, float]] = field(init=False, factory=dict)

    @property
    def at(self) -> float:
        return self.confirmed_at + self.fence_s

    @property
    def passed(self) -> bool:
        return trio.current_time() >= self.at

    def confirm(self, at: float) -> None:
        """A beat that was sent at ``at`` was confirmed."""
        self.confirmed_at = max(self.confirmed_at, at)
        for scope, (limit, share) in self._scopes.items():
            scope.deadline = self._deadline(limit, share)

    def hold(self, scope: trio.CancelScope, *, limit: float = math.inf, share: float = 1.0) -> trio.CancelScope:
        """Tie ``scope`` to the fence and to ``limit`` (a moment). Let go of it with :meth:`release`."""
        self._scopes[scope] = (limit, share)
        scope.deadline = self._deadline(limit, share)
        return scope

    def release(self, scope: trio.CancelScope) -> None:
        self._scopes.pop(scope, None)

    def _deadline(self, limit: float, share: float) -> float:
        return min(limit, self.confirmed_at + share * self.fence_s)


@define
class LiveWork:
    """The ``Work`` of a job that a runner holds."""

    claimed: ClaimedJob
    queue: QueuePort
    heartbeat: Reply[HeartbeatMessage]
    board: LatestWins[Lease, JsonObject]
    fence: Fence
    has_started: bool = field(init=False, default=False)
    reported: JsonObject | None = field(init=False, default=None)
    """The newest progress, written to the row by now or not."""

    @property
    def job(self) -> Job:
        return self.claimed.job

    @property
    def lease(self) -> Lease:
        return self.claimed.lease

    def report(self, document: JsonObject) -> None:
        """Latest-wins progress; never blocks."""
        self.reported = document
        self.board.put(self.lease, document)

    def started(self) -> None:
        """From here on the claim counts as a run (D11)."""
        self.has_started = True

    async def write(self, unit: UnitOfWork) -> None:
        """A fenced write in the middle of the job. LeaseLost: nothing was kept."""
        await self.queue.write(self.lease, unit)

    async def confirm(self) -> None:
        """Wait for a confirmed beat of this row. LeaseLost if it is gone; the fence ends the wait."""
        while True:
            answer = await self._ask()
            match answer:
                case Beaten():
                    self.fence.confirm(answer.at)
                    return
                case LeaseGone():
                    raise LeaseLost(f"before an outside effect: {answer.why}")
                case _:
                    await trio.sleep(_CONFIRM_PAUSE_S)

    @asynccontextmanager
    async def effect(self, what: str, *, limit_s: float) -> AsyncIterator[None]:
        """Confirm the lease, then do ``what`` in the body: a push, a publish.

        The body is cancelled after ``limit_s`` (Transient), or once the last confirmed beat is older than half the
        fence (LeaseLost): then nobody knows whose the job will be when the effect lands (D6).
        """
        await self.confirm()
        limit = trio.current_time() + limit_s
        with trio.CancelScope() as scope:
            self.fence.hold(scope, limit=limit, share=0.5)
            try:
                yield
            finally:
                self.fence.release(scope)
        if scope.cancelled_caught:
            if trio.current_time() >= limit:
                raise Transient(f"{what} took longer than {limit_s:g} s", limit_s=limit_s)
            raise LeaseLost(f"{what} was stopped: no confirmed beat for {self.fence.fence_s / 2:g} s")

    async def _ask(self) -> ConfirmAnswer:
        sender, receiver = trio.open_memory_channel[ConfirmAnswer](1)
        self.heartbeat.send_nowait(ConfirmBeat(self.lease, sender))
        return await receiver.receive()
