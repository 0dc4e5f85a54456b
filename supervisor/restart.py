"""What happens when an actor ends: restart it, let it be, or bring the supervisor down (D17)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.lifecycle import Lifecycle
from actors.ports.meter import Meter, NoMeter
from protocols.failures import leaves
from protocols.messages import Escalation, Reply

_log = structlog.get_logger(__name__)


class Actor(Protocol):
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Calls ``task_status.started()`` once it can do its work, and not before."""
        ...


class Policy(StrEnum):
    PERMANENT = "permanent"
    """Must always run: an end is a crash, and a crash is a restart."""
    TRANSIENT = "transient"
    """May end; only a crash is a restart."""
    FATAL = "fatal"
    """Cannot be missed for a moment: jobs are handed back and the supervisor goes."""


@frozen
class RestartRule:
    """Pauses double from ``first_s`` to ``longest_s``; more than ``limit`` restarts within ``window_s`` escalate."""

    first_s: float = 1
    longest_s: float = 30
    limit: int = 5
    window_s: float = 60


@define(eq=False)
class Keeper:
    """Runs one actor in a nursery of its own, again and again as its policy says.

    An actor that fails before it was ever ready is not tried again: its error leaves ``run``, and the start fails.
    """

    name: str
    policy: Policy
    make: Callable[[], Actor]
    alarm: Reply[Escalation]
    lifecycle: Lifecycle
    rule: RestartRule = RestartRule()
    meter: Meter = field(factory=NoMeter)
    done: trio.Event = field(init=False, factory=trio.Event)
    state: str = field(init=False, default="starting")
    restarts: int = field(init=False, default=0)
    _ready: bool = field(init=False, default=False)
    _crashes: deque[float] = field(init=False, factory=deque)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until the actor has ended for good."""
        structlog.contextvars.bind_contextvars(actor=self.name)
        try:
            while True:
                error = await self._run_once(task_status)
                if not self._again(error):
                    return
                self.state = "restarting"
                await trio.sleep(self._pause_s())
                self.restarts += 1
                self.meter.restarted(self.name)
        finally:
            self.state = "ended"
            self.done.set()

    async def _run_once(self, task_status: trio.TaskStatus[None]) -> Exception | None:
        """What the actor ended with. A cancellation of ours passes, without what was raised on the way."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.make().run, name=f"{self.name}:run")
                self.state = "running"
                if not self._ready:
                    self._ready = True
                    task_status.started()
        except Exception as error:
            if not self._ready:
                raise
            return error
        except BaseExceptionGroup as group:
            passing, rest = group.split(trio.Cancelled)
            if rest is not None:
                _log.error("actor failed while it was cancelled", exc_info=rest)
            if passing is not None:
                raise passing from None
            raise
        return None

    def _again(self, error: Exception | None) -> bool:
        """Judge the end of the actor, log it in one line, and escalate where the policy says so."""
        if error is None and (self.policy is not Policy.PERMANENT or self.lifecycle.stopping):
            return False
        what = "ended without being asked" if error is None else "; ".join(_words(leaf) for leaf in leaves(error))
        _log.error("actor crashed", policy=self.policy.value, error=what, exc_info=error)
        if self.policy is Policy.FATAL:
            self.alarm.send_nowait(Escalation(self.name, f"{self.name} crashed: {what}", at_once=True))
            return False
        if self.lifecycle.stopping:
            return False
        now = trio.current_time()
        self._crashes.append(now)
        while self._crashes[0] < now - self.rule.window_s:
            self._crashes.popleft()
        if len(self._crashes) > self.rule.limit:
            why = f"{self.name} crashed {len(self._crashes)} times within {self.rule.window_s:g} s, last: {what}"
            self.alarm.send_nowait(Escalation(self.name, why))
            return False
        return True

    def _pause_s(self) -> float:
        return min(self.rule.first_s * 2.0 ** (len(self._crashes) - 1), self.rule.longest_s)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
