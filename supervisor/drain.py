"""What a signal does, and in which order a supervisor ends (D12, D20).

running -> draining (nothing is claimed, jobs may finish) -> cancelling (jobs are given up and handed back) -> closing
(progress is flushed, beats end, connections close) -> gone. Each step is bounded; past the last bound the watchdog ends
the process by force, naming who did not end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.lifecycle import Lifecycle
from protocols.messages import Escalation, Phase
from supervisor import exitcodes

_log = structlog.get_logger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@frozen
class DrainRule:
    """Seconds. After ``drain_s`` the process ends within ten more: children, final writes, close."""

    drain_s: float = 25
    kill_s: float = 5
    write_s: float = 3
    close_s: float = 2

    @property
    def cancel_s(self) -> float:
        return self.kill_s + self.write_s

    @property
    def after_drain_s(self) -> float:
        return self.cancel_s + self.close_s


@define
class Drain:
    """Moves the lifecycle. ``end_by`` is told how long the process may still live, at most."""

    lifecycle: Lifecycle
    rule: DrainRule
    end_by: Callable[[float], None]
    exit_code: int = field(init=False, default=exitcodes.CLEAN)

    def on_signal(self, signum: int) -> None:
        """The first begins the drain, the second ends the jobs at once. (The third never comes here.)"""
        name = signal.Signals(signum).name
        if not self.begin(name):
            self.hurry(name)

    def bound_s(self, signals: int) -> float:
        """How long the process may live after this many signals."""
        return self.rule.after_drain_s + (self.rule.drain_s if signals < 2 else 0)

    def on_escalation(self, alarm: Escalation) -> None:
        """An actor asks for the end: the exit code says so, however orderly the rest goes."""
        _log.error("escalation", actor=alarm.actor, why=alarm.why)
        self.exit_code = exitcodes.ESCALATED
        self.begin(alarm.why)
        if alarm.at_once:
            self.hurry(alarm.why)

    def begin(self, why: str) -> bool:
        """False when it began already."""
        if not self.lifecycle.advance(Phase.DRAINING):
            return False
        _log.info("draining", why=why, jobs_may_finish_s=self.rule.drain_s)
        self.end_by(self.rule.drain_s + self.rule.after_drain_s)
        return True

    def hurry(self, why: str) -> None:
        """Give the jobs up now."""
        if self.lifecycle.advance(Phase.CANCELLING):
            _log.info("cancelling", why=why)
            self.end_by(self.rule.after_drain_s)

    async def conduct(self, ends: Ends) -> None:
        """Waits for the drain to begin, then sees it through up to ``CLOSING``. What is left is the caller's to cancel."""
        await self.lifecycle.reached(Phase.DRAINING)
        with trio.move_on_after(self.rule.drain_s):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._skip_when_hurried, nursery.cancel_scope)
                await ends.claimer.wait()
                ends.close_claims()
                await ends.jobs.wait()
                for served in ends.serving:
                    await served.wait()
                nursery.cancel_scope.cancel(reason="all jobs ended")
        if ends.jobs.is_set():
            self.lifecycle.advance(Phase.CANCELLING)  # nothing is left to give up
        else:
            self.hurry(f"jobs still run after {self.rule.drain_s:g} s")
        with trio.move_on_after(self.rule.cancel_s):
            await ends.claimer.wait()
            ends.close_claims()
            await ends.jobs.wait()
        self.lifecycle.advance(Phase.CLOSING)
        with trio.move_on_after(self.rule.close_s / 2):
            await ends.progress.wait()
        _log.info("closing", jobs="ended" if ends.jobs.is_set() else "still there")

    async def _skip_when_hurried(self, scope: trio.CancelScope) -> None:
        await self.lifecycle.reached(Phase.CANCELLING)
        scope.cancel(reason="hurry")


@frozen
class Ends:
    """The ends that the drain waits for, in the order of closing (SD-03)."""

    claimer: trio.Event
    close_claims: Callable[[], Any]
    jobs: trio.Event
    progress: trio.Event
    serving: tuple[trio.Event, ...] = ()
    """Those that answer clients: what they have begun to answer may end, as jobs may."""


@define
class Signals:
    """SIGTERM, SIGINT and SIGHUP alike (PR-06), from before the first actor until after the last (SD-05).

    SIGHUP counts only as the first: when a terminal closes, the kernel and the shell send one each, and neither is in a hurry.
    Where it is ignored from the start (``nohup``), it stays so.

    Before the loop runs, a signal ends the process at once, orderly, with ``exit_code``. While the loop starts it is kept.
    The third signal does what it does by default, even when the loop is stuck.
    """

    exit_code: int = exitcodes.CLEAN
    count: int = field(init=False, default=0)
    _kept: list[int] | None = field(init=False, default=None)
    _listener: Callable[[int], object] | None = field(init=False, default=None)
    _before: dict[int, Any] = field(init=False, factory=dict)

    def __enter__(self) -> Self:
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around the whole run of the loop: what arrives before ``listening`` is kept for it."""
        self._kept = []
        try:
            yield
        finally:
            self._kept = None

    @contextmanager
    def listening(self, listener: Callable[[int], object]) -> Iterator[None]:
        """``listener`` is called in the main thread between any two instructions: it may only hand the number on."""
        kept, self._kept = self._kept or [], []
        self._listener = listener
        for number in kept:
            listener(number)
        try:
            yield
        finally:
            self._listener = None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and self.count:
            return
        self.count += 1
        if self.count >= 3:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._listener is not None:
            self._listener(number)
        elif self._kept is not None:
            self._kept.append(number)
        else:
            raise SystemExit(self.exit_code)
