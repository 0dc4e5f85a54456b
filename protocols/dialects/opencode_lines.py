"""What the lines of ``opencode run --format json`` mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from attrs import define

from protocols.agentevents import (
    NOTHING,
    ONLY_OUTPUT,
    OUTPUT,
    AgentEvent,
    ApiError,
    Cause,
    Retry,
    SessionSeen,
    StepEnded,
    StepStarted,
    ToolCall,
    Turn,
    Usage,
    whole,
)
from protocols.dialects.lineparser import LineParser, cause_of_status, own_words
from protocols.toolsummary import length_of, shown_name, target_of

INVALID_TOOL: Final = "invalid"
"""What a call that cannot be read, or that names no tool, is turned into."""

_ERROR_CAUSES: Final[Mapping[str, Cause]] = {
    "ContextOverflowError": Cause.CONTEXT,
    "ContentFilterError": Cause.REFUSED,
    "MessageOutputLengthError": Cause.OUTPUT_LIMIT,
    "ProviderAuthError": Cause.AUTH,
}
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "quota_exceeded", "billing_hard_limit_reached"})


# --- Lines on the wire -----------------------------------------------------------------------------------------------


class _Cache(msgspec.Struct):
    read: int | float | None = None
    write: int | float | None = None


class _Tokens(msgspec.Struct):
    total: int | float | None = None
    input: int | float | None = None
    output: int | float | None = None
    reasoning: int | float | None = None
    cache: _Cache | None = None


class _ToolMetadata(msgspec.Struct):
    exit: Any = None


class _State(msgspec.Struct):
    status: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: _ToolMetadata | None = None


class _StartPart(msgspec.Struct):
    messageID: str = ""  # noqa: N815 - as opencode spells it


class _TextPart(msgspec.Struct):
    text: str = ""
    synthetic: bool | None = None


class _ToolPart(msgspec.Struct):
    tool: str = ""
    callID: str = ""  # noqa: N815
    state: _State = msgspec.field(default_factory=_State)


class _FinishPart(msgspec.Struct):
    reason: str = ""
    tokens: _Tokens | None = None
    cost: float | None = None


class _Line(msgspec.Struct, kw_only=True):
    timestamp: Any = None
    sessionID: Any = None  # noqa: N815


class _StepStart(_Line, tag="step_start"):
    part: _StartPart


class _Text(_Line, tag="text"):
    part: _TextPart


class _Reasoning(_Line, tag="reasoning"):
    part: _TextPart


class _ToolUse(_Line, tag="tool_use"):
    part: _ToolPart


class _StepFinish(_Line, tag="step_finish"):
    part: _FinishPart


class _ErrorData(msgspec.Struct):
    message: Any = None
    statusCode: Any = None  # noqa: N815
    responseBody: Any = None  # noqa: N815
    responseHeaders: Any = None  # noqa: N815


class _ErrorBody(msgspec.Struct):
    name: str = ""
    data: _ErrorData | None = None


class _Error(_Line, tag="error"):
    error: _ErrorBody


class _Done(_Line, tag="done"):
    pass


_Wire = _StepStart | _Text | _Reasoning | _ToolUse | _StepFinish | _Error | _Done


# --- Reading ---------------------------------------------------------------------------------------------------------


@define
class _Step:
    text_chars: int = 0
    reasoning_chars: int = 0
    tool_input_chars: int = 0
    tool_calls: int = 0
    fingerprint: int = 0


class OpencodeParser(LineParser):
    """Every line is a finished part; retries print nothing, but a step that starts twice shows one."""

    types = frozenset({"step_start", "text", "reasoning", "tool_use", "step_finish", "error", "done"})
    decoder = msgspec.json.Decoder(_Wire)

    def __init__(self, cwd: str | None = None) -> None:
        super().__init__(cwd)
        self._session: str | None = None
        self._step = _Step()
        self._message: str | None = None
        self._open = False
        self._read: Mapping[type[Any], Callable[[Any], tuple[AgentEvent, ...]]] = {
            _StepStart: lambda wire: self._started(wire.part),
            _Text: lambda wire: self._wrote(wire.part, thought=False),
            _Reasoning: lambda wire: self._wrote(wire.part, thought=True),
            _ToolUse: lambda wire: self._tool(wire.part),
            _StepFinish: lambda wire: self._finished(wire.part),
            _Error: lambda wire: (_api_error(wire.error),),
            _Done: lambda wire: NOTHING,
        }

    def events(self, wire: _Wire) -> tuple[AgentEvent, ...]:
        if type(wire.timestamp) is int:
            self.stamp_ms = wire.timestamp
        found = self._read[type(wire)](wire)
        if self._session is None and isinstance(wire.sessionID, str) and wire.sessionID:
            self._session = wire.sessionID
            return (SessionSeen(wire.sessionID), *found)
        return found

    def _started(self, part: _StartPart) -> tuple[AgentEvent, ...]:
        again = self._open and bool(part.messageID) and part.messageID == self._message
        self._message = part.messageID
        self._step = _Step()
        self._open = True
        if again:
            return (Retry(error="step", cause=Cause.NETWORK), StepStarted(again=True))
        return (StepStarted(),)

    def _wrote(self, part: _TextPart, *, thought: bool) -> tuple[AgentEvent, ...]:
        if part.synthetic:  # a note of opencode's own, such as after a compaction
            return NOTHING
        step = self._step
        if thought:
            step.reasoning_chars += len(part.text)
        else:
            step.text_chars += len(part.text)
        step.fingerprint = hash((step.fingerprint, thought, part.text))
        return ONLY_OUTPUT

    def _tool(self, part: _ToolPart) -> tuple[AgentEvent, ...]:
        state = part.state
        arguments = bytes(state.input)
        code = state.metadata.exit if state.metadata is not None else None
        failed = state.status == "error" or part.tool == INVALID_TOOL or (isinstance(code, int) and code != 0)
        chars = length_of(arguments)
        self._step.tool_calls += 1
        self._step.tool_input_chars += chars
        call = ToolCall(
            id=part.callID,
            name=shown_name(part.tool),
            target=target_of(part.tool, arguments, self.cwd),
            input_chars=chars,
            failed=failed,
            late=not self._open,
        )
        return (OUTPUT, call)

    def _finished(self, part: _FinishPart) -> tuple[AgentEvent, ...]:
        step, self._step = self._step, _Step()
        self._open = False
        tokens = part.tokens
        cache = tokens.cache if tokens is not None else None
        ended = StepEnded(
            reason=shown_name(part.reason),
            text_chars=step.text_chars,
            reasoning_chars=step.reasoning_chars,
            tool_input_chars=step.tool_input_chars,
            tool_calls=step.tool_calls,
            cut_off=part.reason == "length",
            usage=None
            if tokens is None
            else Usage(
                whole(tokens.input),
                whole(tokens.output) + whole(tokens.reasoning),
                whole(cache.read) if cache is not None else 0,
                whole(cache.write) if cache is not None else 0,
            ),
            # Without figures of the server there is no total, and zeros stand in their place.
            measured=tokens is not None and tokens.total is not None,
            cost_usd=part.cost or 0.0,
            fingerprint=step.fingerprint,
        )
        return (Turn(), ended)


def _api_error(error: _ErrorBody) -> ApiError:
    data = error.data or _ErrorData()
    status = data.statusCode if isinstance(data.statusCode, int) else None
    message = data.message if isinstance(data.message, str) and data.message else error.name
    return ApiError(
        name=shown_name(error.name),
        message=own_words(message) or "",
        cause=_cause(error.name, status, data),
        status=status,
        retry_after_s=_retry_after_s(data.responseHeaders),
    )


def _cause(name: str, status: int | None, data: _ErrorData) -> Cause:
    if name in _ERROR_CAUSES:
        return _ERROR_CAUSES[name]
    if status in {402, 403, 429} and _codes(data.responseBody) & _QUOTA_CODES:
        return Cause.QUOTA
    if status is not None or name == "APIError":
        return cause_of_status(status)
    return Cause.UNKNOWN


def _codes(body: Any) -> set[str]:
    """The machine words in the provider's error body."""
    try:
        error = msgspec.json.decode(body)["error"] if isinstance(body, str) else {}
        return {word for word in (error.get("code"), error.get("type")) if isinstance(word, str)}
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _retry_after_s(headers: Any) -> float | None:
    value = headers.get("retry-after") if isinstance(headers, dict) else None
    return float(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None
