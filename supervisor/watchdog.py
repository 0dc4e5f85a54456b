"""A thread beside the loop that sees what the loop cannot say itself (D17, D19).

It names a task that holds the loop for more than 100 ms, with its stack taken while it holds; it dumps all stacks when
the loop has not turned for 10 s; and it ends the process by force when the drain passes its last bound (D12).
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import define, field, frozen

from supervisor import exitcodes

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = structlog.get_logger(__name__)

_FRAMES_SHOWN = 25


@frozen
class WatchdogRule:
    """Seconds."""

    sample_s: float = 0.025
    hold_s: float = 0.1
    stand_still_s: float = 10
    tick_s: float = 1


@define(eq=False)
class Watchdog(trio.abc.Instrument):
    """Use ``watching()`` around what the loop does. Figures are for ``/healthz`` and the metrics."""

    survivors: Callable[[], Sequence[str]] = lambda: ()
    rule: WatchdogRule = field(factory=WatchdogRule)
    end: Callable[[int], object] = os._exit
    also: Callable[[], object] = lambda: None
    """Called by the thread at every sample; must be quick and never raise."""
    holds: int = field(init=False, default=0)
    """How often a task held the loop for too long."""
    lag_s: float = field(init=False, default=0)
    """How late the last tick of the loop was."""
    _main: int = field(init=False, factory=threading.get_ident)
    _step: tuple[trio.lowlevel.Task, float] | None = field(init=False, default=None)
    _reported: object = field(init=False, default=None)
    _ticked_at: float = field(init=False, factory=time.monotonic)
    _dumped: bool = field(init=False, default=False)
    _end_at: float | None = field(init=False, default=None)
    _stopped: bool = field(init=False, default=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """From inside the loop's thread, before and after all else."""
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped = True
            thread.join()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Let the loop say that it turns, until cancelled."""
        trio.lowlevel.add_instrument(self)
        task_status.started()
        try:
            while True:
                due = trio.current_time() + self.rule.tick_s
                await trio.sleep_until(due)
                self.lag_s = trio.current_time() - due
                self._ticked_at = time.monotonic()
        finally:
            trio.lowlevel.remove_instrument(self)
            self._step = None

    def end_by(self, seconds: float) -> None:
        """End the process this many seconds from now; the earliest moment that was ever named counts."""
        moment = time.monotonic() + seconds
        if self._end_at is None or moment < self._end_at:
            self._end_at = moment

    @property
    def standing_still_s(self) -> float:
        """How long the loop has not turned."""
        return max(0.0, time.monotonic() - self._ticked_at - self.rule.tick_s)

    # --- called by trio around each step of each task ------------------------------------------------------------------

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step = (task, time.monotonic())

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step = None

    # --- the thread ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopped:
            time.sleep(self.rule.sample_s)  # noqa: TID251 - a thread beside the loop
            self._look_at_step()
            self._look_at_tick()
            self.also()
            if self._end_at is not None and time.monotonic() >= self._end_at:
                self._end_by_force()
                return

    def _look_at_step(self) -> None:
        step = self._step
        if step is None or step is self._reported or time.monotonic() - step[1] < self.rule.hold_s:
            return
        self._reported = step
        self.holds += 1
        held_ms = round(1000 * (time.monotonic() - step[1]))
        stack = _stack(sys._current_frames().get(self._main))
        if self._step is step:  # else it ended meanwhile, and the stack is somebody else's
            _log.warning("a task holds the loop", task=step[0].name, held_ms=held_ms, stack=stack)

    def _look_at_tick(self) -> None:
        still_s = self.standing_still_s
        if still_s < self.rule.stand_still_s:
            self._dumped = False
        elif not self._dumped and self._step is not None:
            self._dumped = True
            frames = sys._current_frames()
            stacks = {thread.name: _stack(frames.get(thread.ident or 0)) for thread in threading.enumerate()}
            _log.error("the loop stands still", seconds=round(still_s, 1), stacks=stacks)

    def _end_by_force(self) -> None:
        names = list(self.survivors())
        _log.error("ended by force: the drain passed its last bound", survivors=names)
        self.end(exitcodes.ESCALATED)


def _stack(frame: FrameType | None) -> list[str]:
    """Innermost last, one line a frame; no values of locals."""
    if frame is None:
        return []
    summary = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_FRAMES_SHOWN, lookup_lines=False)
    return [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in reversed(summary)]
