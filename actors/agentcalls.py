"""The calls of a job's slices, run side by side: who is stuck, who goes in circles, and what became of them (D45, D51).

The job listens to one channel for all slices. Its receive timeout is the time until every live slice counts as quiet;
when it runs out, the question is asked anew, because bytes stamp their moment without a message.
"""

from __future__ import annotations

import math

import msgspec
import structlog
import trio
from attrs import define, evolve, field, frozen

from actors.agent import AgentActor, CallOutcome, Record, SliceCall
from actors.agentfailures import failure_of
from actors.ports.agentprocess import AgentRunner, Stopped
from protocols.agentevents import AgentEvent, ApiError, Retry, StepEnded
from protocols.agentview import AgentView
from protocols.dialects.base import Dialect
from protocols.failures import JsonObject, SupervisorError
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

        ``enrichment`` False (conversions): silence is no stall. Cancelled from outside, all processes are ended first.
        """
        limits = self.limits.for_call(quiet_means_stalled=self.dialect.quiet_means_stalled, enrichment=enrichment)
        return await _Together(self, limits).run(calls)


@define(eq=False)
class _Together:
    """One round of calls."""

    calls: AgentCalls
    limits: StallLimits
    actors: dict[int, AgentActor] = field(init=False, factory=dict)
    """Of the slices whose call is not over yet."""
    outcomes: dict[int, CallOutcome] = field(init=False, factory=dict)
    failure: SupervisorError | None = field(init=False, default=None)
    _loops: dict[int, LoopWatch] = field(init=False, factory=dict)
    _why: dict[int, str] = field(init=False, factory=dict)
    """By slice: why it was stopped as stuck, in words."""
    _waits: dict[int, float] = field(init=False, factory=dict)

    async def run(self, calls: tuple[SliceCall, ...]) -> CallsEnd:
        sender, receiver = trio.open_memory_channel[AgentMessage](math.inf)
        now = trio.current_time()
        for number, call in enumerate(calls):
            view = self.calls.view.begin(call.label, now, call.asked_model)
            self.actors[number] = AgentActor(number, call, self.calls.dialect, view, self.calls.runner, sender)
            self._loops[number] = LoopWatch(self.limits)
        async with trio.open_nursery() as nursery:
            for actor in self.actors.values():
                nursery.start_soon(self._live, actor)
            while self.actors:
                await self._listen(receiver)
        return CallsEnd(tuple(self.outcomes[number] for number in range(len(calls))), self.failure)

    async def _live(self, actor: AgentActor) -> None:
        outcome: CallOutcome | None = None
        try:
            outcome = await actor.run()
        finally:  # cancelled: what is known goes on record all the same (D54)
            outcome = actor.outcome() if outcome is None else outcome
            cost = self.calls.view.end(outcome.view, trio.current_time())
            self.outcomes[actor.slice] = evolve(outcome, cost_millicents=cost)
            self.calls.record(self.outcomes[actor.slice])
            actor.events.send_nowait(AgentGone(actor.slice))

    async def _listen(self, receiver: trio.MemoryReceiveChannel[AgentMessage]) -> None:
        """Hear what is said, or find that nobody has said anything for too long."""
        with trio.move_on_after(max(0.0, self._patience_s())) as patience:
            message = await receiver.receive()
        if patience.cancelled_caught:
            if self._patience_s() <= 0:
                self._stop_the_quiet()
            return
        while True:
            self._hear(message)
            try:
                message = receiver.receive_nowait()
            except trio.WouldBlock:
                return

    @property
    def _watched(self) -> list[AgentActor]:
        """Live slices that nobody has asked to stop."""
        return [actor for actor in self.actors.values() if actor.stop.reason is None]

    def _patience_s(self) -> float:
        watched = self._watched
        times = (actor.view.times for actor in watched)
        return time_left(times, self.limits, trio.current_time()) if watched else math.inf

    def _stop_the_quiet(self) -> None:
        now = trio.current_time()
        for actor in self._watched:
            why = actor.view.times.why(self.limits, now)
            self._why[actor.slice] = why or "stalled"
            _log.warning("agent stopped", provider=self.calls.dialect.name, slice=actor.slice, why=why)
            actor.stop.request(Stopped.STALLED)

    def _hear(self, message: AgentMessage) -> None:
        match message:
            case AgentSaid(number, event):
                self._log(number, event)
                self._judge(number, event)
            case AgentGone(number):
                self._gone(number)
            case _:
                pass  # AgentActive: it woke us, and the next patience is computed anew

    def _judge(self, number: int, event: AgentEvent) -> None:
        """Stop a slice that goes in circles, or that would wait for its provider longer than a call may take."""
        actor = self.actors[number]
        if (why := self._loops[number].note(event)) is not None:
            actor.looping = self._why[number] = why
            actor.stop.request(Stopped.LOOPING)
        if (wait_s := named_wait_s(event)) is not None:
            self._waits[number] = wait_s
            actor.stop.request(Stopped.LONG_WAIT)

    def _gone(self, number: int) -> None:
        del self.actors[number]
        outcome = self.outcomes[number]
        failure = failure_of(
            outcome,
            self.calls.dialect,
            why=self._why.get(number),
            wait_s=self._waits.get(number),
            last=self.calls.view.last_done(trio.current_time()),
            secrets=self.calls.secrets,
        )
        if failure is None or self.failure is not None:
            return
        self.failure = failure
        for other in self._watched:
            other.stop.request(Stopped.SIBLING)

    def _log(self, number: int, event: AgentEvent) -> None:
        """Each step of a CLI that counts by steps, each cut-off step, each retry, each error of the API."""
        log = _log.bind(provider=self.calls.dialect.name, slice=number, call=self.actors[number].call.label)
        match event:
            case StepEnded():
                facts = _step_facts(event)
                if event.cut_off:
                    log.warning("agent step cut off by the output limit", **facts)
                elif event.usage is not None:
                    log.info("agent step", **facts)
            case Retry():
                log.info("agent asks its model again", what=event.text, delay_s=event.delay_s)
            case ApiError():
                log.warning("agent reports an error of its model", cause=event.cause, status=event.status)
            case _:
                pass


def _step_facts(step: StepEnded) -> JsonObject:
    facts: JsonObject = {
        "reason": step.reason,
        "text_chars": step.text_chars,
        "reasoning_chars": step.reasoning_chars,
        "tool_input_chars": step.tool_input_chars,
    }
    return facts if step.usage is None else {**facts, **msgspec.structs.asdict(step.usage)}
