"""Takes jobs from dead holders, one row and its aftercare a transaction (D3), and sweeps what is left behind."""

from __future__ import annotations

import math

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.meter import Meter, NoMeter
from actors.ports.queue import QueuePort, ReapRule
from protocols.failures import DatabaseUnavailable, OutcomeUnclear

_log = structlog.get_logger(__name__)


@frozen
class ReaperRule:
    """Seconds. ``reconnect_wait_s`` is two beats: after an outage the living get their chance to beat first (D3)."""

    interval_s: float = 60
    reconnect_wait_s: float = 60
    reap: ReapRule = field(factory=ReapRule)


@define
class Reaper:
    """An actor of its own, on its own tick, so that no hung job can stop it (QH-21)."""

    queue: QueuePort
    rule: ReaperRule = ReaperRule()
    meter: Meter = field(factory=NoMeter)
    _database_was_away: bool = field(init=False, default=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled: at once, then at every tick counted from the start."""
        origin = trio.current_time()
        task_status.started()
        while True:
            await self.run_once()
            ticks = math.floor((trio.current_time() - origin) / self.rule.interval_s) + 1
            await trio.sleep_until(origin + ticks * self.rule.interval_s)

    async def run_once(self) -> int:
        """One sweep, then every orphan there is now. How many jobs were taken.

        The sweep comes first because it proves the connection: nothing is reaped in the two beats after an outage.
        """
        try:
            for table, rows in await self.queue.sweep():
                if rows:
                    _log.info("swept", table=table, rows=rows)
            if self._database_was_away:
                _log.info("database is back; reaping waits for beats", wait_s=self.rule.reconnect_wait_s)
                await trio.sleep(self.rule.reconnect_wait_s)
                self._database_was_away = False
            return await self._reap_all()
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            self._database_was_away = True
            _log.warning("reaper meets no database", error=error.message)
            return 0

    async def _reap_all(self) -> int:
        taken = 0
        while (job := await self.queue.reap(self.rule.reap)) is not None:
            taken += 1
            self.meter.reaped(job.job_type)
            if job.aftercare_failed:
                self.meter.aftercare_failed()
            _log.warning(
                "job reaped",
                job_id=str(job.id),
                job_type=job.job_type.value,
                law_id=job.law_id,
                status=job.status.value,
                attempts=job.attempts,
                aftercare="failed" if job.aftercare_failed else "done",
            )
        return taken
