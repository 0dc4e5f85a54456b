"""What an agent does, in the same words for every agent CLI.

A dialect turns lines into these; views, limits and logs read only these. No event carries what was written, read or
printed: of texts there are only lengths.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from protocols import toolsummary

MOST_TOKENS: Final = 1 << 53
"""Counts are cut off here: JSON allows any number of digits, a ``bigint`` column does not."""


def whole(value: int | float | None) -> int:
    """A count that a CLI reported, made safe: no None, no fraction, not below 0, never over :data:`MOST_TOKENS`."""
    return min(max(int(value), 0), MOST_TOKENS) if value else 0


class _Value(msgspec.Struct, frozen=True, gc=False):
    """Values as everywhere, in the form that is made five times as fast: a busy stream makes thousands a second."""


class Usage(_Value, frozen=True, gc=False):
    """Tokens. Reads from a cache and writes to it are billed differently and are never added up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class Cause(StrEnum):
    """Why an API call failed, from fields that only CLI and provider fill in, never from a text (D13)."""

    AUTH = "auth"
    BILLING = "billing"
    QUOTA = "quota"
    """The credential is used up until a time that may be known."""
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    NETWORK = "network"
    """No answer: refused, broken, timed out."""
    BAD_REQUEST = "bad_request"
    CONTEXT = "context"
    """The conversation is longer than the model can read."""
    OUTPUT_LIMIT = "output_limit"
    REFUSED = "refused"
    """The model, or a filter in front of it, does not answer."""
    UNKNOWN = "unknown"


class Output(_Value, frozen=True, gc=False):
    """The model wrote something: a partial event, a finished text, a thought. A run of these is reported once."""


class SessionSeen(_Value, frozen=True, gc=False):
    session_id: str


class ModelSeen(_Value, frozen=True, gc=False):
    """A model the stream names, once per call and name. Never ``<synthetic>``."""

    model: str


class Turn(_Value, frozen=True, gc=False):
    """An answer of the model began (claude: a message id not seen before) or ended (opencode: a step)."""


class ToolCall(_Value, frozen=True, gc=False):
    """The model called a tool. claude reports it before it runs, opencode when it is over.

    ``name`` and ``target`` are fit to be shown. ``failed`` is known at once for opencode only; claude sends a
    :class:`ToolResult`. ``late``: reported after the step that it belongs to was over.
    """

    id: str
    name: str
    target: str = ""
    input_chars: int = 0
    failed: bool = False
    late: bool = False

    @property
    def summary(self) -> str:
        return toolsummary.summary(self.name, self.target, failed=self.failed)


class ToolResult(_Value, frozen=True, gc=False):
    """The result of an earlier :class:`ToolCall` went back to the model."""

    call_id: str
    failed: bool = False


class StepStarted(_Value, frozen=True, gc=False):
    """opencode only. ``again``: the same step is asked for anew, what its first try wrote is void."""

    again: bool = False


class StepEnded(_Value, frozen=True, gc=False):
    """One answer of the model is over. Characters are not tokens (3 to 4 of them make one).

    Of a step that was cut off, many ``reasoning_chars`` mean that it was still thinking, many ``text_chars`` prose (or
    thoughts inline), many ``tool_input_chars`` a tool call cut in half. ``usage`` is None where the CLI gives none per
    step; ``measured`` is False when the model server reported no tokens.
    """

    reason: str
    text_chars: int = 0
    reasoning_chars: int = 0
    tool_input_chars: int = 0
    tool_calls: int = 0
    cut_off: bool = False
    usage: Usage | None = None
    measured: bool = True
    cost_usd: float = 0.0
    fingerprint: int = 0
    """Equal for steps that wrote the same texts; says nothing across processes."""


class Voided(_Value, frozen=True, gc=False):
    """The stream of an answer broke. Its blocks that were not complete are void; the CLI goes on by itself."""


class Retry(_Value, frozen=True, gc=False):
    """The CLI asks its API again. ``attempt``, ``limit`` and ``delay_s`` where it says so."""

    attempt: int | None = None
    limit: int | None = None
    delay_s: float | None = None
    status: int | None = None
    error: str = ""
    cause: Cause = Cause.UNKNOWN

    @property
    def text(self) -> str:
        """``server_error (500), attempt 4 of 10``: what the CLI said of it."""
        parts = [f"{self.error or 'retry'}{f' ({self.status})' if self.status is not None else ''}"]
        if self.attempt is not None:
            parts.append(f"attempt {self.attempt}" + (f" of {self.limit}" if self.limit is not None else ""))
        return ", ".join(parts)


class ApiError(_Value, frozen=True, gc=False):
    """The CLI reports a failure of its API. Not always the end. ``message`` is the CLI's own text, cut and cleaned."""

    name: str
    message: str
    cause: Cause
    status: int | None = None
    retry_after_s: float | None = None


class LimitSeen(_Value, frozen=True, gc=False):
    """The provider says how far its allowance is used up; ``resets_at`` in unix seconds where it is known."""

    rejected: bool
    resets_at: float | None = None


class Closing(_Value, frozen=True, gc=False):
    """claude's ``result``. There can be several in one stream; the last one counts.

    ``total_cost_usd`` includes all earlier calls of the session, ``usage`` only this one. ``reason`` is the CLI's own
    text for a failure, None when ``is_error`` is False.
    """

    is_error: bool
    kind: str = ""
    """``terminal_reason``, else ``subtype``."""
    reason: str | None = None
    usage: Usage | None = None
    total_cost_usd: float | None = None
    denied_tools: tuple[str, ...] = ()


AgentEvent = (
    Output
    | SessionSeen
    | ModelSeen
    | Turn
    | ToolCall
    | ToolResult
    | StepStarted
    | StepEnded
    | Voided
    | Retry
    | ApiError
    | LimitSeen
    | Closing
)

OUTPUT: Final = Output()
NOTHING: Final[tuple[AgentEvent, ...]] = ()
"""Of a line that says nothing but that the CLI lives."""
ONLY_OUTPUT: Final[tuple[AgentEvent, ...]] = (OUTPUT,)
"""The very same tuple for each partial event, so that a run of them is known by identity."""
