"""The calls of a job's slices, run side by side: who is stuck, who goes in circles, and what became of them (D45, D51).

The job listens to one channel for all slices. Its receive timeout is the time until every live slice counts as quiet;
when it runs out, the question is asked anew, because bytes stamp their moment without a message.
"""

from __future__ import annotations

import math

import structlog
import trio
from attrs import define, field, frozen

from actors.agent import AgentActor, CallOutcome, Record, SliceCall
from actors.ports.agentprocess import AgentRunner, Stopped
from protocols import callfailure
from protocols.agentevents import AgentEvent, StepEnded
from protocols.agentview import AgentView
from protocols.dialects.base import Dialect
from protocols.failures import SupervisorError
from protocols.messages import AgentGone, AgentMessage, AgentSaid
from protocols.stall import LoopWatch, StallLimits, named_wait_s, time_left

_log = structlog.get_logger(__name__)


@frozen
class CallsEnd:
    """What became of the calls. ``failure`` None: all of them may go on to the gates, though not each is ``ok`` (D51)."""

    outcomes: tuple[CallOutcome, ...]
    """In the order of the slices."""
    failure: SupervisorError | None = None


@define(eq=False)
class AgentCalls:
    """Makes calls for one job, one after the other or one a slice at once. ``view`` is the job's, over all its calls.

    ``record`` hears of each call once, however it ended, also when everything is cancelled. ``secrets`` are taken out
    of error texts.
    """

    dialect: Dialect
    view: AgentView
    runner: AgentRunner
    record: Record
    limits: StallLimits = field(factory=StallLimits)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    async def run(self, *calls: SliceCall, enrichment: bool = True) -> CallsEnd:
        """Run ``calls`` at once, slice 0 first. The first that fails stops the others.

        ``enrichment`` False (conversions): silence is no stall. OSError from a disk that is full; cancellation ends
        all processes first.
        """
        limits = self.limits.for_call(quiet_means_stalled=self.dialect.quiet_means_stalled, enrichment=enrichment)
        together = _Together(self, limits)
        return await together.run(calls)


@define(eq=False)
class _Together:
    """One round of calls."""

    calls: AgentCalls
    limits: StallLimits
    actors: list[AgentActor] = field(init=False, factory=list)
    live: set[int] = field(init=False, factory=set)
    outcomes: dict[int, CallOutcome] = field(init=False, factory=dict)
    stalled: dict[int, str] = field(init=False, factory=dict)
    """By slice: which limit of silence it passed, in words."""
    waits: dict[int, float] = field(init=False, factory=dict)
    """By slice: the wait that the provider named, when it is too long to sit out."""
    failure: SupervisorError | None = field(init=False, default=None)
    _loops: list[LoopWatch] = field(init=False, factory=list)

    async def run(self, calls: tuple[SliceCall, ...]) -> CallsEnd:
        sender, receiver = trio.open_memory_channel[AgentMessage](math.inf)
        now = trio.current_time()
        for number, call in enumerate(calls):
            view = self.calls.view.begin(call.label, now, call.asked_model)
            self.actors.append(
                AgentActor(number, call, self.calls.dialect, view, self.calls.runner, sender)
            )
            self._loops.append(LoopWatch(self.limits))
            self.live.add(number)
        async with trio.open_nursery() as nursery:
            for actor in self.actors:
                nursery.start_soon(self._live, actor, sender)
            while self.live:
                await self._listen(receiver)
        return CallsEnd(tuple(self.outcomes[number] for number in range(len(calls))), self.failure)

    async def _live(self, actor: AgentActor, sender: trio.MemorySendChannel[AgentMessage]) -> None:
        outcome: CallOutcome | None = None
        try:
            outcome = await actor.run()
        finally:
            self._note(outcome if outcome is not None else actor.outcome())
            sender.send_nowait(AgentGone(actor.slice))

    def _note(self, outcome: CallOutcome) -> None:
        cost = self.calls.view.end(outcome.view, trio.current_time())
        noted = CallOutcome(**{**_fields(outcome), "cost_millicents": cost})
        self.outcomes[outcome.slice] = noted
        self.calls.record(noted)
