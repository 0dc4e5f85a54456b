"""Slow ticks for the process itself: zombies that became ours are reaped (PR-03), the oldest snapshot is measured (D16), and
what is paused is read, so that probes can tell without asking the database.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.adopted import AdoptedReaper
from protocols.failures import DatabaseUnavailable, OutcomeUnclear

_log = structlog.get_logger(__name__)
T = TypeVar("T")


@frozen
class HousekeepingRule:
    """Seconds. A snapshot older than ``old_snapshot_s`` keeps dead rows alive and makes claims slow: worth a warning."""

    tick_s: float = 10
    snapshot_s: float = 60
    old_snapshot_s: float = 600
    answer_limit_s: float = 10


@define
class Housekeeping:
    """``measure_snapshot`` asks the database for the age of its oldest snapshot in seconds, ``read_pauses`` for the names of
    what is paused. ``paused`` is what it said last; claims read for themselves.
    """

    measure_snapshot: Callable[[], Awaitable[float]]
    read_pauses: Callable[[], Awaitable[tuple[str, ...]]]
    zombies: AdoptedReaper = field(factory=AdoptedReaper)
    rule: HousekeepingRule = field(factory=HousekeepingRule)
    snapshot_age_s: float = field(init=False, default=0)
    reaped: int = field(init=False, default=0)
    paused: tuple[str, ...] = field(init=False, default=())
    _measured_at: float = field(init=False, default=-math.inf)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        task_status.started()
        while True:
            await self.run_once()
            await trio.sleep(self.rule.tick_s)

    async def run_once(self) -> None:
        """Look at the process table; ask the database what it is time to ask."""
        pids = await trio.to_thread.run_sync(self.zombies.tick)
        if pids:
            self.reaped += len(pids)
            _log.info("zombies reaped", pids=pids)
        if trio.current_time() >= self._measured_at + self.rule.snapshot_s:
            self._measured_at = trio.current_time()
            await self._measure()
        self.paused = await self._asked(self.read_pauses, self.paused)

    async def _asked(self, ask: Callable[[], Awaitable[T]], before: T) -> T:
        """The answer, or what was known ``before`` when there is none."""
        try:
            with trio.move_on_after(self.rule.answer_limit_s):
                return await ask()
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            _log.debug("the database did not say", error=error.message)
        return before

    async def _measure(self) -> None:
        self.snapshot_age_s = await self._asked(self.measure_snapshot, self.snapshot_age_s)
        if self.snapshot_age_s > self.rule.old_snapshot_s:
            _log.warning("an old snapshot slows every claim down", age_s=round(self.snapshot_age_s))
