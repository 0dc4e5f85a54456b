"""Fires due pipelines, once a minute by the clock on the wall (``pipelines.md`` 5, D66).

Any number of supervisors may tick at once: whatever is due is taken under a row lock that others skip. A tick that could
not begin within its time is dropped, one that takes longer is cut; nothing queues up, for what is due stays due.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.database import Units
from actors.ports.lifecycle import Lifecycle
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from protocols.messages import Phase
from schema.pipelines import scheduling
from schema.pipelines.scheduling import BATCH, Fired, ScheduleRules

_log = structlog.get_logger(__name__)

MINUTE_S = 60.0

Tally = Counter[str]
"""What became of the rows of a tick, by word."""


class ScheduleMeter(Protocol):
    """Counting never waits and never fails."""

    def ticked(self, outcome: str, seconds: float, rows: Mapping[str, int]) -> None:
        """``outcome`` is ``done``, ``dropped``, ``cut`` or ``failed``; ``rows`` what became of rows, by word."""
        ...


class NoScheduleMeter:
    """Counts nothing."""

    def ticked(self, outcome: str, seconds: float, rows: Mapping[str, int]) -> None: ...


@frozen
class TickRule:
    """Seconds. ``expiry_s`` after its minute a tick that has not begun is dropped, and its work is cut after as long.

    ``jitter_s``: supervisors that share a database do not all ask it in the same instant.
    """

    expiry_s: float = 50
    jitter_s: float = 5


@define
class ScheduleTick:
    """One tick: heal, fire, scan, a small transaction each. ``database`` is not shielded: a tick may be cut anywhere."""

    database: Units
    rules: ScheduleRules = field(factory=ScheduleRules)
    batch: int = BATCH

    async def __call__(self, at: dt.datetime | None = None) -> Tally:
        """``at`` stands in for the database's clock; tests and the debug prompt give it."""
        now = await self.database.run(scheduling.database_now) if at is None else at
        tally: Tally = Counter()
        healed, unusable = await self.database.transact(scheduling.heal, now, limit=self.batch)
        tally["healed"] = healed
        for pipeline_id, why in unusable:
            await self._alone(tally, "disabled", scheduling.disable, pipeline_id, why)
            _log.warning("pipeline switched off: its schedule cannot be used", pipeline_id=pipeline_id)
        for pipeline_id in await self.database.run(scheduling.due, now, limit=self.batch):
            await self._fire(tally, pipeline_id, now)
        for connector_id in await self.database.run(scheduling.due_connectors, now, limit=self.batch):
            await self._scan(tally, connector_id, now)
        return +tally

    async def _fire(self, tally: Tally, pipeline_id: int, now: dt.datetime) -> None:
        try:
            fired = await self.database.transact(scheduling.fire, pipeline_id, now, self.rules)
        except (DatabaseUnavailable, OutcomeUnclear):
            raise
        except Exception as error:  # noqa: BLE001 - one bad row must not keep the others from firing
            _log.exception("a pipeline could not fire", pipeline_id=pipeline_id)
            await self._alone(
                tally, "put_off", scheduling.put_off, pipeline_id, now, f"{type(error).__name__}: {error}"
            )
            return
        tally[fired.value] += 1
        if fired is Fired.DISABLED:
            _log.warning("pipeline switched off: its schedule cannot be used", pipeline_id=pipeline_id)

    async def _scan(self, tally: Tally, connector_id: int, now: dt.datetime) -> None:
        try:
            scanned = await self.database.transact(scheduling.scan, connector_id, now, self.rules)
        except (DatabaseUnavailable, OutcomeUnclear):
            raise
        except Exception:  # noqa: BLE001 - as above; it stays due
            _log.exception("a connector could not be queued", connector_id=connector_id)
            return
        tally[f"connector_{scanned.value}"] += 1

    async def _alone(self, tally: Tally, word: str, unit: Callable[..., Awaitable[None]], *args: object) -> None:
        """A repair in a transaction of its own, which may fail by itself too."""
        try:
            await self.database.transact(unit, *args)
            tally[word] += 1
        except (DatabaseUnavailable, OutcomeUnclear):
            raise
        except Exception:  # noqa: BLE001 - as above
            _log.exception("a schedule could not be repaired", what=word, row=args[0])


@define
class Scheduler:
    """The actor; it ends by itself when the drain begins. ``clock`` is the time of day in seconds since 1970; waiting is
    by the monotonic clock.
    """

    tick: Callable[[], Awaitable[Tally]]
    lifecycle: Lifecycle
    rule: TickRule = TickRule()
    clock: Callable[[], float] = time.time
    meter: ScheduleMeter = field(factory=NoScheduleMeter)
    ticks: int = field(init=False, default=0)
    dropped: int = field(init=False, default=0)
    cut: int = field(init=False, default=0)
    failed: int = field(init=False, default=0)
    counts: Tally = field(init=False, factory=Counter)
    """What became of rows, over all ticks."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until the drain."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_at_drain, nursery.cancel_scope)
            minute = 0.0
            while True:
                # Woken a hair before its minute, the clock would name that minute again.
                coming = math.floor(self.clock() / MINUTE_S + 1) * MINUTE_S
                minute = coming + MINUTE_S if coming == minute else coming
                await trio.sleep(minute - self.clock() + random.uniform(0, self.rule.jitter_s))
                await self.run_once(minute)

    async def run_once(self, minute: float) -> None:
        """The tick of ``minute``, unless it is too late for it. What goes wrong is logged and counted, never raised."""
        late_s = self.clock() - minute
        if late_s > self.rule.expiry_s:
            self.dropped += 1
            self.meter.ticked("dropped", 0, {})
            _log.warning("tick dropped: it comes too late", late_s=round(late_s))
            return
        outcome, tally, begun = "failed", Tally(), trio.current_time()
        with trio.move_on_after(self.rule.expiry_s) as limit:
            try:
                tally = await self.tick()
            except (DatabaseUnavailable, OutcomeUnclear) as error:
                self.failed += 1
                _log.warning("tick meets no database", error=error.message)
            except Exception:  # noqa: BLE001 - the next tick may go better
                self.failed += 1
                _log.exception("tick failed")
            else:
                outcome = "done"
                self.ticks += 1
                self.counts.update(tally)
                if tally:
                    _log.info("tick", **dict(tally))
        if limit.cancelled_caught:
            outcome = "cut"
            self.cut += 1
            _log.warning("tick cut: it took too long", limit_s=self.rule.expiry_s)
        self.meter.ticked(outcome, trio.current_time() - begun, tally)

    async def _stop_at_drain(self, scope: trio.CancelScope) -> None:
        await self.lifecycle.reached(Phase.DRAINING)
        scope.cancel(reason="drain")
