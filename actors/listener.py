"""Hears what others say through the database: there is work, a job is to be cancelled (D10, D26).

A notification only shortens a wait. What may have been lost is found by looking: every 2 s while nothing proves that
notifications arrive (so always behind a pooler), every 30 s otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.database import Subscription
from actors.ports.queue import QueuePort
from protocols import control
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from protocols.messages import CancelJob, ClaimerMessage, ListenState, Reply, Wake
from schema.rows import Lease

_log = structlog.get_logger(__name__)


@frozen
class ListenRule:
    """Seconds between two looks for cancel requests, and how long one may take."""

    look_s: float = 2
    proven_look_s: float = 30
    look_limit_s: float = 10
    state_s: float = 1


@define
class Listener:
    """``held`` names the leases of running jobs."""

    subscription: Subscription
    claimer: Reply[ClaimerMessage]
    jobs: Reply[CancelJob]
    held: Callable[[], Collection[Lease]]
    queue: QueuePort
    rule: ListenRule = field(factory=ListenRule)
    _proven: bool = field(init=False, default=False)
    _sessions: int = field(init=False, default=0)
    _looked_at: float = field(init=False, default=-math.inf)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on_wakeups)
            nursery.start_soon(self._pass_on_control)
            task_status.started()
            while True:
                await self.run_once()
                await trio.sleep(self.rule.state_s)

    async def run_once(self) -> None:
        """Tell the claimer when listening became proven or stopped being so; look for cancel requests when it is time."""
        if self.subscription.proven != self._proven:
            self._proven = self.subscription.proven
            _log.info("listening for notifications", proven=self._proven)
            self.claimer.send_nowait(ListenState(self._proven))
            self._looked_at = -math.inf
        if self.subscription.sessions != self._sessions:
            self._sessions = self.subscription.sessions
            self._looked_at = -math.inf  # a control message may have been lost in between, however short it was
        if trio.current_time() >= self._looked_at + (self.rule.proven_look_s if self._proven else self.rule.look_s):
            self._looked_at = trio.current_time()
            await self._look()

    async def _look(self) -> None:
        leases = self.held()
        if not leases:
            return
        wanted: Collection[Lease] = ()
        try:
            with trio.move_on_after(self.rule.look_limit_s):
                wanted = await self.queue.cancel_requests(leases)
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            _log.debug("no look for cancel requests", error=error.message)
        for lease in wanted:
            self.jobs.send_nowait(CancelJob(lease.job_id))

    async def _pass_on_wakeups(self) -> None:
        async for _ in self.subscription.wakeups:
            self.claimer.send_nowait(Wake("notification"))

    async def _pass_on_control(self) -> None:
        async for payload in self.subscription.control:
            match control.parse(payload):
                case control.CancelHint():
                    # Looked up, not believed: whoever can connect can notify.
                    await self._look()
                case control.PausesChanged():
                    self.claimer.send_nowait(Wake("a job type or provider was resumed"))
                case None:
                    _log.info("unknown control message", payload=payload[:80])
