"""When an agent counts as stuck (D45). Pure rules: every time is a parameter, in seconds of one monotonic clock.

A slice is quiet after ``idle_s`` without a byte on stdout, after ``retry_s`` of nothing but retry notices, or (where the
CLI prints only finished parts) after ``first_output_s`` without any byte at all. A job is stopped when every live slice
is quiet; a finished one neither keeps the others alive nor blocks them. Looping is another matter: it looks busy, so
steps are counted, not silence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from attrs import define, evolve, field, frozen

from protocols.agentevents import AgentEvent, ApiError, Cause, Output, Retry, StepEnded, ToolCall, ToolResult

SHORT_IDLE_S: Final = 60.0
"""An idle limit below this warns at start and is used as given (D45)."""

LINGER_S: Final = 30.0
"""How long a CLI may go on living after its last line, once its closing result is there (AG-02, D51)."""

LONG_WAIT_S: Final = 300.0
"""A wait that the provider names and that is longer than this ends the call early, as a rate limit (OC-06)."""


@frozen
class StallLimits:
    """Seconds and counts; 0 switches a limit off."""

    idle_s: float = 600.0
    retry_s: float = 0.0
    first_output_s: float = 0.0
    max_steps: int = 400
    equal_steps: int = 10
    context_overflows: int = 3

    def for_call(self, *, quiet_means_stalled: bool, enrichment: bool) -> StallLimits:
        """What holds for one call of a CLI.

        Silence counts for enrichment with a CLI that streams (OC-10); a conversion may be silent for as long as the
        programs it runs. Step limits and the wait for a first byte are for CLIs that print finished parts.
        """
        if quiet_means_stalled:
            limits = evolve(self, first_output_s=0.0, max_steps=0, equal_steps=0, context_overflows=0)
            return limits if enrichment else evolve(limits, idle_s=0.0, retry_s=0.0)
        return evolve(self, idle_s=0.0, retry_s=0.0, first_output_s=self.first_output_s if enrichment else 0.0)


@define
class SliceTimes:
    """The moments of one live slice. Only bytes on stdout move ``last_bytes``; stderr is no life."""

    started_at: float
    last_bytes: float = field()
    retry_since: float | None = None
    spoke: bool = False

    @last_bytes.default
    def _from_start(self) -> float:
        return self.started_at

    def bytes_at(self, now: float) -> None:
        """Something came on stdout, be it half a line."""
        self.last_bytes = now
        self.spoke = True

    def note(self, event: AgentEvent, now: float) -> None:
        """``retry_since`` is the first retry notice after which neither output nor a tool result came."""
        if isinstance(event, Retry):
            if self.retry_since is None:
                self.retry_since = now
        elif isinstance(event, Output | ToolCall | ToolResult):
            self.retry_since = None

    def quiet_at(self, limits: StallLimits) -> float:
        """The moment at which this slice is quiet if nothing changes; infinity when no limit applies."""
        moments = [math.inf]
        if limits.idle_s > 0:
            moments.append(self.last_bytes + limits.idle_s)
        if limits.retry_s > 0 and self.retry_since is not None:
            moments.append(self.retry_since + limits.retry_s)
        if limits.first_output_s > 0 and not self.spoke:
            moments.append(self.started_at + limits.first_output_s)
        return min(moments)

    def why(self, limits: StallLimits, now: float) -> str | None:
        """Which limit makes it quiet at ``now``, in words for an error; None when it is not quiet."""
        if limits.idle_s > 0 and now >= self.last_bytes + limits.idle_s:
            return f"stalled: nothing written for {now - self.last_bytes:.0f} s"
        if limits.retry_s > 0 and self.retry_since is not None and now >= self.retry_since + limits.retry_s:
            return f"stalled: nothing but retries for {now - self.retry_since:.0f} s"
        if limits.first_output_s > 0 and not self.spoke and now >= self.started_at + limits.first_output_s:
            return f"stalled: nothing written since it was started {now - self.started_at:.0f} s ago"
        return None


def time_left(live: Iterable[SliceTimes], limits: StallLimits, now: float) -> float:
    """Seconds until every live slice is quiet; 0 or less: the job is stalled. Infinity: no limit can end it.

    The receive timeout of the merged event channel. When it runs out, ask again: bytes may have come meanwhile.
    """
    return max((times.quiet_at(limits) for times in live), default=math.inf) - now


@define
class LoopWatch:
    """Counts what a CLI does when it goes round in circles: steps, equal steps without a tool call, overflows."""

    limits: StallLimits
    steps: int = 0
    equal: int = 0
    overflows: int = 0
    _previous: StepEnded | None = None

    def note(self, event: AgentEvent) -> str | None:
        """Why the call is looping as of this event, in words for an error; None when it is not."""
        if isinstance(event, StepEnded):
            return self._step(event)
        if isinstance(event, ApiError) and event.cause is Cause.CONTEXT:
            self.overflows += 1
            if 0 < self.limits.context_overflows <= self.overflows:
                return f"looping: the conversation was too long {self.overflows} times"
        return None

    def _step(self, step: StepEnded) -> str | None:
        self.steps += 1
        before, self._previous = self._previous, step
        if step.tool_calls:
            self.equal = 0
        elif before is not None and not before.tool_calls and _same(before, step):
            self.equal += 1
        else:
            self.equal = 1
        if 0 < self.limits.equal_steps <= self.equal:
            return f"looping: {self.equal} equal steps without a tool call"
        if 0 < self.limits.max_steps <= self.steps:
            return f"looping: {self.steps} steps"
        return None


def _same(one: StepEnded, other: StepEnded) -> bool:
    return (one.reason, one.fingerprint) == (other.reason, other.fingerprint)


def named_wait_s(event: AgentEvent) -> float | None:
    """The wait that ``event`` names when it is too long to sit out inside a call (OC-06), else None."""
    wait = event.delay_s if isinstance(event, Retry) else event.retry_after_s if isinstance(event, ApiError) else None
    return wait if wait is not None and wait > LONG_WAIT_S else None
