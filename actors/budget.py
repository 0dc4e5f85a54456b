"""Keeps the hourly claude budget of this supervisor: its limits, what was last counted, and the word to people (D11).

Counting and enforcing happen in the claim, in one transaction. The claimer tells this actor what came of it; the actor
says once that the hour is used up, sees the hour turn, and wakes the claimer then. While it does not run, the gate is
closed and no claude job is claimed.
"""

from __future__ import annotations

import math

import structlog
import trio
from attrs import define, evolve, field

from actors.ports.budgetgate import BudgetGate
from protocols.messages import BudgetCounted, ClaimerMessage, Reply, Wake

_log = structlog.get_logger(__name__)

AFTER_THE_HOUR_S = 0.1
"""The hour turns by the clock of the database; a claim that comes a moment early would count the old one."""


@define
class BudgetKeeper:
    """Runs until cancelled. What it was told before it started is old and is not read."""

    gate: BudgetGate
    inbox: trio.MemoryReceiveChannel[BudgetCounted]
    claimer: Reply[ClaimerMessage]
    _hour_ends: float = field(init=False, default=math.inf)
    _told: bool = field(init=False, default=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open the gate, and close it at the end, whatever that is."""
        self._forget_old()
        self.gate.is_open = True
        try:
            task_status.started()
            if self.gate.blocked:
                _log.info("no claude job runs here: ENRICH_HOURLY_LIMIT is 0 or unset")
                self._told = True
            while True:
                await self.run_once()
        finally:
            self.gate.is_open = False

    async def run_once(self) -> None:
        """Take one count, or see the clock hour end."""
        with trio.CancelScope(deadline=self._hour_ends) as hour:
            self._take(await self.inbox.receive())
        if hour.cancelled_caught:
            self._turn_hour()

    def _forget_old(self) -> None:
        self.gate.counted = None
        while True:
            try:
                self.inbox.receive_nowait()
            except trio.WouldBlock:
                return

    def _take(self, message: BudgetCounted) -> None:
        view = message.view
        used = view.used + message.taken
        self.gate.counted = evolve(view, used=used, blocked=used >= view.cap)
        self._hour_ends = math.inf if view.left_s is None else message.at + view.left_s + AFTER_THE_HOUR_S
        if not self.gate.counted.blocked:
            self._told = False
            return
        say = _log.debug if self._told else _log.info
        say("claude budget of this hour is used up: its jobs wait", used=used, cap=view.cap, left_s=view.left_s)
        self._told = True

    def _turn_hour(self) -> None:
        """A new bucket: nothing is counted in it yet, and what waited may go."""
        waited = self.gate.blocked
        self.gate.counted = None
        self._hour_ends = math.inf
        self._told = False
        if waited:
            _log.debug("a new hour for claude")
            self.claimer.send_nowait(Wake("a new hour for claude"))
