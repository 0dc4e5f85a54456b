"""What a call that did not go well means for its job: a typed failure with a text for people (D51, D52, AG-05).

The type follows from how the process ended and from fields that only CLI and provider fill in. The text ends with what
the agent did last; the CLI's own words in it decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actors.agent import CallOutcome
from actors.ports.agentprocess import Stopped
from protocols.agentevents import Cause
from protocols.dialects.base import Dialect, VerdictKind
from protocols.failures import (
    AgentFailed,
    AgentStalled,
    AgentTimedOut,
    JsonObject,
    ProviderTrouble,
    RequestRefused,
    SupervisorError,
)
from protocols.redaction import redact
from protocols.scrub import scrub_text

OF_THE_PROVIDER: Final = frozenset({Cause.AUTH, Cause.BILLING, Cause.QUOTA})
"""Failures of the provider, not of the law: the job is handed back and the provider pauses (D52)."""

UNFINISHED: Final = frozenset({VerdictKind.CUT_OFF, VerdictKind.UNFINISHED, VerdictKind.NO_RESULT})
"""With exit code 0 from a CLI that has no closing word: the gates judge what it left (D51, OC-02)."""

_LONGEST_STDERR = 500

_WHAT: Final[Mapping[Stopped, str]] = {
    Stopped.MEMORY: "was stopped: the agents of this job use more memory than allowed",
    Stopped.OUTPUT: "was stopped: it printed more than allowed",
    Stopped.LONG_WAIT: "was stopped: its provider asks for a long wait",
    Stopped.SIBLING: "was stopped: another slice failed",
}


def failure_of(
    outcome: CallOutcome,
    dialect: Dialect,
    *,
    why: str | None,
    wait_s: float | None,
    last: str,
    secrets: tuple[str, ...] = (),
) -> SupervisorError | None:
    """The failure of a call; None when its work may go on to the gates, or when it was stopped for another's failure.

    ``why``: how it was stuck, ``wait_s``: the wait its provider named, ``last``: what the job's agents did last.
    """
    if outcome.fault is not None:
        return outcome.fault
    if _goes_on(outcome, dialect) or outcome.stopped is Stopped.SIBLING:
        return None
    text = scrub_text(redact(_text(outcome, dialect, why, last), secrets))
    details = _details(outcome, dialect)
    match outcome.stopped:
        case Stopped.STALLED:
            return AgentStalled(text, **details)
        case Stopped.LIMIT:
            return AgentTimedOut(text, **details)
        case Stopped.LONG_WAIT:
            return ProviderTrouble(text, **{**details, "reason": Cause.QUOTA.value, "retry_after_s": wait_s})
        case None | Stopped.AFTER_RESULT if outcome.verdict.cause in OF_THE_PROVIDER:
            return ProviderTrouble(text, **{**details, "reason": details["cause"]})
        case None | Stopped.AFTER_RESULT if outcome.verdict.cause is Cause.BAD_REQUEST:
            return RequestRefused(text, **details)
        case _:
            return AgentFailed(text, **details)


def _goes_on(outcome: CallOutcome, dialect: Dialect) -> bool:
    if outcome.verdict.ok:
        return True
    ended_by_itself = outcome.end is not None and outcome.end.code == 0 and outcome.stopped is None
    return ended_by_itself and not dialect.closing_total and outcome.verdict.kind in UNFINISHED


def _text(outcome: CallOutcome, dialect: Dialect, why: str | None, last: str) -> str:
    verdict, end = outcome.verdict, outcome.end
    parts = [f"{dialect.name} {_what(outcome, why)}"]
    if verdict.reason is not None:
        parts[0] += f": {verdict.reason}"
    elif end is not None and end.stderr and outcome.stopped is None:
        parts.append(f"stderr: {end.stderr[-_LONGEST_STDERR:]}")
    if outcome.view.cut_off_steps:
        parts.append(f"{outcome.view.cut_off_steps} steps cut off by the output limit")
    return "; ".join([*parts, last])


def _what(outcome: CallOutcome, why: str | None) -> str:
    if outcome.stopped is Stopped.LIMIT:
        return f"timed out after {outcome.call.limit_s:g} s"
    if outcome.stopped in {Stopped.STALLED, Stopped.LOOPING} and why is not None:
        return why
    if outcome.stopped is not None and outcome.stopped in _WHAT:
        return _WHAT[outcome.stopped]
    kind = outcome.verdict.cause or outcome.verdict.kind
    return f"failed ({kind}, {_exit(outcome)})"


def _exit(outcome: CallOutcome) -> str:
    if outcome.end is None:
        return "cancelled"
    if outcome.end.signal is not None:
        return f"signal {outcome.end.signal}"
    return f"exit code {outcome.end.code}"


def _details(outcome: CallOutcome, dialect: Dialect) -> JsonObject:
    verdict, limit = outcome.verdict, outcome.view.limit
    details: JsonObject = {
        "provider": dialect.name,
        "call": outcome.call.label,
        "verdict": verdict.kind.value,
        "cause": verdict.cause.value if verdict.cause is not None else None,
        "stopped": outcome.stopped.value if outcome.stopped is not None else None,
        "exit_code": outcome.end.exit_code if outcome.end is not None else None,
    }
    if limit is not None and limit.rejected and limit.resets_at is not None:
        details["resets_at"] = limit.resets_at
    return {name: value for name, value in details.items() if value is not None}
