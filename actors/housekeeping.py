"""Slow ticks for the process itself: zombies that became ours are reaped, the oldest snapshot is measured (PR-03, D16)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.adopted import AdoptedReaper
from protocols.failures import DatabaseUnavailable, OutcomeUnclear

_log = structlog.get_logger(__name__)


@frozen
class HousekeepingRule:
    """Seconds. A snapshot older than ``old_snapshot_s`` keeps dead rows alive and makes claims slow: worth a warning."""

    zombies_s: float = 10
    snapshot_s: float = 60
    old_snapshot_s: float = 600
    answer_limit_s: float = 10


@define
class Housekeeping:
    """``measure_snapshot`` asks the database for the age of its oldest snapshot in seconds."""

    measure_snapshot: Callable[[], Awaitable[float]]
    zombies: AdoptedReaper = field(factory=AdoptedReaper)
    rule: HousekeepingRule = field(factory=HousekeepingRule)
    snapshot_age_s: float = field(init=False, default=0)
    reaped: int = field(init=False, default=0)
    _measured_at: float = field(init=False, default=-math.inf)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        task_status.started()
        while True:
            await self.run_once()
            await trio.sleep(self.rule.zombies_s)

    async def run_once(self) -> None:
        """Look at the process table; measure the snapshot when it is time."""
        pids = await trio.to_thread.run_sync(self.zombies.tick)
        if pids:
            self.reaped += len(pids)
            _log.info("zombies reaped", pids=pids)
        if trio.current_time() >= self._measured_at + self.rule.snapshot_s:
            self._measured_at = trio.current_time()
            await self._measure()

    async def _measure(self) -> None:
        try:
            with trio.move_on_after(self.rule.answer_limit_s):
                self.snapshot_age_s = await self.measure_snapshot()
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            _log.debug("snapshot not measured", error=error.message)
            return
        if self.snapshot_age_s > self.rule.old_snapshot_s:
            _log.warning("an old snapshot slows every claim down", age_s=round(self.snapshot_age_s))
