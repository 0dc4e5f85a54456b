"""What is known of an agent while it works and after: folded from its events (``enrich.md`` 3.5, 7; D46, D54).

A :class:`CallView` is one start of a CLI, an :class:`AgentView` everything that one job started. Nothing here reads a
clock: times are passed in, in seconds of the supervisor's monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import Factory, define, field

from protocols.agentevents import (
    MOST_TOKENS,
    AgentEvent,
    ApiError,
    Closing,
    LimitSeen,
    ModelSeen,
    Retry,
    SessionSeen,
    StepEnded,
    StepStarted,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from protocols.failures import JsonObject
from protocols.stall import SliceTimes

RECENT_TOOLS: Final = 5
MOST_CUT_OFF_KEPT: Final = 100


def millicents(usd: float) -> int:
    """Dollars to thousandths of a cent: 1 dollar is 100 000. Never below 0."""
    return min(round(max(usd, 0.0) * 100_000), MOST_TOKENS)


@define
class SessionCosts:
    """A resumed session reports the cost of all its calls so far; this knows what was paid before (D54)."""

    _highest: dict[str, float] = Factory(dict)

    def charge(self, session_id: str | None, total_usd: float) -> int:
        """Millicents of the call that ended with this total: what it adds to the highest total of its session."""
        before = self._highest.get(session_id, 0.0) if session_id is not None else 0.0
        if session_id is not None:
            self._highest[session_id] = max(before, total_usd)
        return millicents(total_usd - before)


@define
class RecentTools:
    """The last five tool calls, oldest first; shared by all calls of a job."""

    _ring: deque[ToolCall] = Factory(lambda: deque(maxlen=RECENT_TOOLS))
    _failed: set[str] = Factory(set)

    def called(self, call: ToolCall) -> None:
        self._ring.append(call)
        self._failed &= {known.id for known in self._ring}

    def failed(self, call_id: str) -> None:
        if any(call.id == call_id for call in self._ring):
            self._failed.add(call_id)

    def summaries(self) -> list[str]:
        return [self._line(call) for call in self._ring]

    @property
    def last(self) -> str | None:
        return self._line(self._ring[-1]) if self._ring else None

    def _line(self, call: ToolCall) -> str:
        return f"{call.summary} (error)" if call.id in self._failed and not call.failed else call.summary


@define
class CutOff:
    """A step that hit the output limit, by what it had written; see :class:`protocols.agentevents.StepEnded`."""

    text_chars: int
    reasoning_chars: int
    tool_input_chars: int


@define
class CallView:
    """One call of an agent CLI."""

    label: str = ""
    """``translate`` or the gate that the call answers."""
    asked_model: str | None = None
    started_at: float = 0.0
    recent: RecentTools = Factory(RecentTools)
    times: SliceTimes = field()
    ended_at: float | None = None
    session_id: str | None = None
    models: list[str] = Factory(list)
    """As the stream names them, in the order of first use."""
    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    steps: int = 0
    cut_off_steps: int = 0
    cut_offs: list[CutOff] = Factory(list)
    retries: int = 0
    last_retry: Retry | None = None
    last_step: StepEnded | None = None
    api_errors: int = 0
    last_error: ApiError | None = None
    limit: LimitSeen | None = None
    closings: int = 0
    closing: Closing | None = None
    _step_open: bool = False
    _steps_usage: Usage | None = None
    _steps_cost_usd: float = 0.0
    _measured: bool = True

    @times.default
    def _from_start(self) -> SliceTimes:
        return SliceTimes(self.started_at)

    def fold(self, event: AgentEvent) -> None:
        """Take in one event, in the order of the stream."""
        take = _FOLDS.get(type(event))
        if take is not None:
            take(self, event)

    def _turn(self, _: Turn) -> None:
        self.turns += 1

    def _result(self, result: ToolResult) -> None:
        if result.failed:
            self.tool_errors += 1
            self.recent.failed(result.call_id)

    def _started(self, _: StepStarted) -> None:
        self._step_open = True

    def _retry(self, retry: Retry) -> None:
        self.retries += 1
        self.last_retry = retry

    def _error(self, error: ApiError) -> None:
        self.api_errors += 1
        self.last_error = error

    def _closed(self, closing: Closing) -> None:
        self.closings += 1
        self.closing = closing

    def _named(self, seen: ModelSeen) -> None:
        if seen.model not in self.models:
            self.models.append(seen.model)

    def _opened(self, seen: SessionSeen) -> None:
        self.session_id = self.session_id or seen.session_id

    def _limited(self, seen: LimitSeen) -> None:
        self.limit = seen

    def _called(self, call: ToolCall) -> None:
        self.tool_calls += 1
        self.tool_errors += call.failed
        self.recent.called(call)
        if call.late and self.cut_offs and self.last_step is not None and self.last_step.cut_off:
            self.cut_offs[-1].tool_input_chars += call.input_chars

    def _ended(self, step: StepEnded) -> None:
        self.steps += 1
        self.last_step = step
        self._step_open = False
        if step.usage is not None:
            self._steps_usage = (self._steps_usage or Usage()) + step.usage
            self._steps_cost_usd += step.cost_usd
            self._measured &= step.measured
        if step.cut_off:
            self.cut_off_steps += 1
            if len(self.cut_offs) < MOST_CUT_OFF_KEPT:
                self.cut_offs.append(CutOff(step.text_chars, step.reasoning_chars, step.tool_input_chars))

    @property
    def model(self) -> str | None:
        """What the stream says first, else what was asked for."""
        return self.models[0] if self.models else self.asked_model

    @property
    def asked_models(self) -> list[str]:
        """What was asked for, where the stream names no model."""
        return [self.asked_model] if self.asked_model and not self.models else []

    @property
    def usage(self) -> Usage | None:
        """Of this call: the last closing's, else the sum of its steps. None, not zeros, when nothing was reported.

        A closing counts an answer that broke off with what its beginning told, if the CLI had read that; so does its cost.
        """
        return self.closing.usage if self.closing is not None else self._steps_usage

    @property
    def total_cost_usd(self) -> float | None:
        """As reported: for a resumed session it includes its earlier calls; see :class:`SessionCosts`."""
        if self.closing is not None:
            return self.closing.total_cost_usd
        return None if self._steps_usage is None else self._steps_cost_usd

    def usage_complete(self, *, truncated: bool) -> bool:
        """False: :attr:`usage` is a lower bound (OC-02).

        A step without its end or without figures, a stream without its last line, or several closings, whose usages do
        not cover the subagents between them.
        """
        if truncated or self.usage is None:
            return False
        return self.closings == 1 if self.closing is not None else self._measured and not self._step_open


_FOLDS: Final[Mapping[type[Any], Callable[[CallView, Any], None]]] = {
    Turn: CallView._turn,
    ToolCall: CallView._called,
    ToolResult: CallView._result,
    StepStarted: CallView._started,
    StepEnded: CallView._ended,
    Retry: CallView._retry,
    ApiError: CallView._error,
    Closing: CallView._closed,
    ModelSeen: CallView._named,
    SessionSeen: CallView._opened,
    LimitSeen: CallView._limited,
}
"""What is not here (a sign of output, a broken stream) changes no figure."""


@define
class AgentView:
    """All calls of one job; what its progress and its errors tell. Counts add up over calls and slices."""

    provider: str
    calls: list[CallView] = Factory(list)
    recent: RecentTools = Factory(RecentTools)
    costs: SessionCosts = Factory(SessionCosts)

    def begin(self, label: str, now: float, asked_model: str | None = None) -> CallView:
        """A CLI was started. Fold its events into the view that this returns, and :meth:`end` it."""
        call = CallView(label=label, asked_model=asked_model, started_at=now, recent=self.recent)
        self.calls.append(call)
        return call

    def end(self, call: CallView, now: float) -> int | None:
        """The CLI is gone. Millicents of this call, None when it reported no cost."""
        call.ended_at = now
        total = call.total_cost_usd
        return None if total is None else self.costs.charge(call.session_id, total)

    @property
    def live(self) -> list[CallView]:
        return [call for call in self.calls if call.ended_at is None]

    @property
    def turns(self) -> int:
        return sum(call.turns for call in self.calls)

    @property
    def tool_calls(self) -> int:
        return sum(call.tool_calls for call in self.calls)

    @property
    def cut_off_steps(self) -> int:
        return sum(call.cut_off_steps for call in self.calls)

    @property
    def denied_tools(self) -> list[str]:
        """Tools that an agent asked for and did not get, each once."""
        closings = (call.closing for call in self.calls if call.closing is not None)
        return list(dict.fromkeys(tool for closing in closings for tool in closing.denied_tools))

    @property
    def models(self) -> list[str]:
        """Distinct, in the order of first use; what was asked for where the stream names none."""
        named = dict.fromkeys(name for call in self.calls for name in (*call.models, *call.asked_models))
        return list(named)

    def quiet_s(self, now: float) -> float:
        """Seconds since any live call wrote anything; at the end of the last call, when none is live."""
        watched = self.live or self.calls[-1:]
        if not watched:
            return 0.0
        until = now if self.live else (watched[0].ended_at or now)
        return max(until - max(call.times.last_bytes for call in watched), 0.0)

    def progress(self, now: float) -> JsonObject:
        """The part of ``jobs.progress.worker`` that the agents know (``enrich.md`` 7)."""
        live = self.live
        current = live[0] if live else (self.calls[-1] if self.calls else None)
        models = self.models
        return {
            "call": current.label if current else None,
            "call_secs": int(((current.ended_at or now) - current.started_at) if current else 0),
            "quiet_secs": int(self.quiet_s(now)),
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "recent_tools": self.recent.summaries(),
            "cut_off_steps": self.cut_off_steps,
            "provider": self.provider,
            "model": (current.model if current else None) or (models[-1] if models else None),
            "active_windows": len(live),
        }

    def last_done(self, now: float) -> str:
        """What the agent did last, for the end of an error: tool, counts, silence."""
        return (
            f"last: {self.recent.last or 'no tool call'}, {self.turns} turns, {self.tool_calls} tool calls, "
            f"silent for {self.quiet_s(now):.0f}s"
        )
