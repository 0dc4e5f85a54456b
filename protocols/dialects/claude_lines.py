"""What the lines of claude's ``stream-json`` mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
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
    Closing,
    LimitSeen,
    ModelSeen,
    Retry,
    SessionSeen,
    StepEnded,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    Voided,
    whole,
)
from protocols.dialects.lineparser import LineParser, TypeOnly, cause_of_status, own_words
from protocols.toolsummary import length_of, shown_name, target_of

SYNTHETIC: Final = "<synthetic>"
"""The model that the CLI names for messages of its own."""

_CAUSES: Final[Mapping[str, Cause]] = {
    "authentication_failed": Cause.AUTH,
    "billing_error": Cause.BILLING,
    "rate_limit": Cause.RATE_LIMIT,
    "overloaded": Cause.OVERLOADED,
    "invalid_request": Cause.BAD_REQUEST,
    "model_not_found": Cause.BAD_REQUEST,
    "max_output_tokens": Cause.OUTPUT_LIMIT,
}


# --- Lines on the wire: only the fields that are read; unknown ones are skipped by the decoder -----------------------


class _Usage(msgspec.Struct):
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    cache_read_input_tokens: int | float | None = None
    cache_creation_input_tokens: int | float | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str | None = None
    is_error: bool | None = None


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[_Block] | str | None = None
    stop_reason: str | None = None


class _Started(msgspec.Struct):
    id: str | None = None
    model: str | None = None


class _Delta(msgspec.Struct):
    stop_reason: str | None = None


class _MessageStart(msgspec.Struct, tag="message_start"):
    message: _Started


class _MessageDelta(msgspec.Struct, tag="message_delta"):
    delta: _Delta


class _MessageStop(msgspec.Struct, tag="message_stop"):
    pass


class _BlockStart(msgspec.Struct, tag="content_block_start"):
    pass


class _BlockDelta(msgspec.Struct, tag="content_block_delta"):
    pass


class _BlockStop(msgspec.Struct, tag="content_block_stop"):
    pass


class _StreamEvent(msgspec.Struct, tag="stream_event"):
    event: _BlockDelta | _BlockStart | _BlockStop | _MessageStart | _MessageDelta | _MessageStop
    parent_tool_use_id: str | None = None
    abandoned_blocks: Any = None


class _System(msgspec.Struct, tag="system"):
    """``Any``: other subtypes use the same names for other things."""

    subtype: str = ""
    session_id: Any = None
    model: Any = None
    cwd: Any = None
    attempt: Any = None
    max_retries: Any = None
    retry_delay_ms: Any = None
    error_status: Any = None
    error: Any = None


class _Assistant(msgspec.Struct, tag="assistant"):
    message: _Message
    session_id: Any = None
    parent_tool_use_id: str | None = None
    error: Any = None
    is_api_error_message: Any = None
    api_error_status: Any = None
    timestamp: Any = None


class _User(msgspec.Struct, tag="user"):
    message: _Message
    session_id: Any = None
    timestamp: Any = None


class _Result(msgspec.Struct, tag="result"):
    subtype: str = ""
    is_error: bool | None = None
    session_id: Any = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    errors: Any = None
    terminal_reason: Any = None
    usage: _Usage | None = None
    total_cost_usd: float | None = None
    permission_denials: Any = None


class _LimitInfo(msgspec.Struct):
    status: Any = None
    resetsAt: Any = None  # noqa: N815 - as the CLI spells it


class _RateLimit(msgspec.Struct, tag="rate_limit_event"):
    rate_limit_info: _LimitInfo | None = None
    session_id: Any = None


class _InnerType(msgspec.Struct):
    event: TypeOnly


_Wire = _StreamEvent | _System | _Assistant | _User | _Result | _RateLimit
_TEXT = msgspec.json.Decoder(str)
_INNER_TYPE = msgspec.json.Decoder(_InnerType)
_INNER_KNOWN = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


# --- Reading ---------------------------------------------------------------------------------------------------------


@define
class _Step:
    """An API message while it is being written."""

    message_id: str
    text_chars: int = 0
    reasoning_chars: int = 0
    tool_input_chars: int = 0
    tool_calls: int = 0
    fingerprint: int = 0

    def ended(self, reason: str) -> StepEnded:
        return StepEnded(
            reason=shown_name(reason),
            text_chars=self.text_chars,
            reasoning_chars=self.reasoning_chars,
            tool_input_chars=self.tool_input_chars,
            tool_calls=self.tool_calls,
            cut_off=reason == "max_tokens",
            fingerprint=self.fingerprint,
        )


class ClaudeParser(LineParser):
    """One API message comes as partial events and as one ``assistant`` line per finished block.

    Texts and tool calls are read from the ``assistant`` lines alone: the partial events of a stream that broke stay in
    the output and must not count. The stop reason is only in the partial events, except for a message that was fetched
    without streaming.
    """

    types = frozenset({"stream_event", "system", "assistant", "user", "result", "rate_limit_event"})
    decoder = msgspec.json.Decoder(_Wire)

    def __init__(self, cwd: str | None = None) -> None:
        super().__init__(cwd)
        self._session: str | None = None
        self._models: set[str] = set()
        self._turns: set[str] = set()
        self._steps: dict[str | None, _Step] = {}
        """By ``parent_tool_use_id``: None is the main agent, others are its subagents."""
        self._streamed: dict[str | None, str] = {}
        self._waiting: tuple[str | None, str] | None = None
        """Parent and stop reason of an unstreamed message of which more blocks may follow."""

    def events(self, wire: _Wire) -> tuple[AgentEvent, ...]:
        if type(wire) is _StreamEvent and type(wire.event) is _BlockDelta:
            return ONLY_OUTPUT
        found = self._settled(wire) if self._waiting is not None else []
        match wire:
            case _StreamEvent():
                self._partial(wire, found)
            case _Assistant():
                self._session_of(wire.session_id, found)
                self._stamp(wire.timestamp)
                self._assistant(wire, found)
            case _User():
                self._session_of(wire.session_id, found)
                self._stamp(wire.timestamp)
                self._user(wire, found)
            case _System():
                self._session_of(wire.session_id, found)
                self._system(wire, found)
            case _Result():
                self._session_of(wire.session_id, found)
                found.append(_closing(wire))
            case _RateLimit():
                found.extend(_limit(wire.rate_limit_info))
        return tuple(found) if found else NOTHING

    def finish(self) -> tuple[AgentEvent, ...]:
        return tuple(self._settled(None)) if self._waiting is not None else NOTHING

    def knows(self, kind: str, line: bytes) -> bool:
        if kind != "stream_event":
            return super().knows(kind, line)
        try:
            inner = _INNER_TYPE.decode(line).event.type
        except msgspec.DecodeError:
            return True
        return isinstance(inner, str) and inner in _INNER_KNOWN

    def _partial(self, wire: _StreamEvent, found: list[AgentEvent]) -> None:
        parent = wire.parent_tool_use_id
        match wire.event:
            case _MessageStart(message=started):
                if started.id:
                    self._streamed[parent] = started.id
                    self._step(parent, started.id)
                self._named(started.model, found)
                self._turn(started.id, parent, found)
            case _MessageDelta(delta=delta):
                step = self._steps.get(parent)
                if delta.stop_reason is not None and step is not None:
                    found.append(step.ended(delta.stop_reason))
            case _MessageStop():
                self._steps.pop(parent, None)
                if wire.abandoned_blocks is not None:
                    found.append(Voided())
            case _:
                pass

    def _assistant(self, wire: _Assistant, found: list[AgentEvent]) -> None:
        message = wire.message
        blocks = message.content if isinstance(message.content, list) else []
        if message.model == SYNTHETIC:
            if wire.error is not None or wire.is_api_error_message:
                found.append(_api_error(wire, " ".join(block.text or "" for block in blocks)))
            return
        parent = wire.parent_tool_use_id
        self._named(message.model, found)
        self._turn(message.id, parent, found)
        step = self._step(parent, message.id or "")
        found.append(OUTPUT)
        for block in blocks:
            self._block(block, step, found)
        if message.stop_reason is not None and message.id != self._streamed.get(parent):
            self._waiting = (parent, message.stop_reason)

    def _block(self, block: _Block, step: _Step, found: list[AgentEvent]) -> None:
        if block.type == "tool_use":
            name = block.name or ""
            arguments = bytes(block.input)
            chars = length_of(arguments)
            step.tool_calls += 1
            step.tool_input_chars += chars
            found.append(ToolCall(block.id or "", shown_name(name), target_of(name, arguments, self.cwd), chars))
        else:
            text, thought = block.text or "", block.thinking or ""
            step.text_chars += len(text)
            step.reasoning_chars += len(thought)
            step.fingerprint = hash((step.fingerprint, text, thought))

    def _user(self, wire: _User, found: list[AgentEvent]) -> None:
        blocks = wire.message.content if isinstance(wire.message.content, list) else []
        found += [
            ToolResult(block.tool_use_id or "", failed=bool(block.is_error))
            for block in blocks
            if block.type == "tool_result"
        ]

    def _system(self, wire: _System, found: list[AgentEvent]) -> None:
        if wire.subtype == "init":
            if isinstance(wire.cwd, str) and wire.cwd:
                self.cwd = wire.cwd
            self._named(wire.model if isinstance(wire.model, str) else None, found)
        elif wire.subtype == "api_retry":
            found.append(_retry(wire))

    def _step(self, parent: str | None, message_id: str) -> _Step:
        step = self._steps.get(parent)
        if step is None or step.message_id != message_id:
            step = self._steps[parent] = _Step(message_id)
        return step

    def _settled(self, wire: _Wire | None) -> list[AgentEvent]:
        """The end of an unstreamed message, unless ``wire`` is another block of it."""
        assert self._waiting is not None
        parent, reason = self._waiting
        step = self._steps.get(parent)
        if type(wire) is _Assistant and step is not None and wire.message.id == step.message_id:
            return []
        self._waiting = None
        return [step.ended(reason)] if step is not None else []

    def _turn(self, message_id: str | None, parent: str | None, found: list[AgentEvent]) -> None:
        """Several lines carry the id of one message; the messages of a subagent are no turns of this agent."""
        if message_id and parent is None and message_id not in self._turns:
            self._turns.add(message_id)
            found.append(Turn())

    def _named(self, model: str | None, found: list[AgentEvent]) -> None:
        if model and model != SYNTHETIC and model not in self._models:
            self._models.add(model)
            found.append(ModelSeen(own_words(model) or SYNTHETIC))

    def _session_of(self, session_id: Any, found: list[AgentEvent]) -> None:
        if self._session is None and isinstance(session_id, str) and session_id:
            self._session = session_id
            found.append(SessionSeen(session_id))

    def _stamp(self, timestamp: Any) -> None:
        if isinstance(timestamp, str):
            try:
                self.stamp_ms = int(datetime.fromisoformat(timestamp).timestamp() * 1000)
            except (ValueError, OverflowError):
                return


def _whole_or_none(value: Any) -> int | None:
    return whole(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _cause(error: Any, status: int | None) -> Cause:
    word = error if isinstance(error, str) else ""
    if word in _CAUSES:
        return _CAUSES[word]
    if status is None and word not in {"server_error", "unknown"}:
        return Cause.UNKNOWN
    return cause_of_status(status)


def _retry(wire: _System) -> Retry:
    delay_ms = _whole_or_none(wire.retry_delay_ms)
    status = _whole_or_none(wire.error_status)
    return Retry(
        attempt=_whole_or_none(wire.attempt),
        limit=_whole_or_none(wire.max_retries),
        delay_s=None if delay_ms is None else delay_ms / 1000,
        status=status,
        error=shown_name(wire.error) if isinstance(wire.error, str) else "",
        cause=_cause(wire.error, status),
    )


def _api_error(wire: _Assistant, text: str) -> ApiError:
    status = _whole_or_none(wire.api_error_status)
    name = shown_name(wire.error) if isinstance(wire.error, str) else "unknown"
    refused = wire.message.stop_reason == "refusal"
    return ApiError(name, own_words(text) or "", Cause.REFUSED if refused else _cause(wire.error, status), status)


def _closing(wire: _Result) -> Closing:
    failed = wire.is_error if wire.is_error is not None else wire.subtype != "success"
    usage = wire.usage
    denials = wire.permission_denials if isinstance(wire.permission_denials, list) else []
    return Closing(
        is_error=failed,
        kind=wire.terminal_reason if isinstance(wire.terminal_reason, str) else wire.subtype,
        reason=_reason(wire) if failed else None,
        usage=None
        if usage is None
        else Usage(
            whole(usage.input_tokens),
            whole(usage.output_tokens),
            whole(usage.cache_read_input_tokens),
            whole(usage.cache_creation_input_tokens),
        ),
        total_cost_usd=wire.total_cost_usd,
        denied_tools=tuple(
            shown_name(str(denial.get("tool_name", ""))) for denial in denials[:100] if isinstance(denial, dict)
        ),
    )


def _reason(wire: _Result) -> str | None:
    """The text of the result, else its list of errors, else the word for what went wrong."""
    try:
        text = _TEXT.decode(wire.result)
    except msgspec.DecodeError:
        text = ""
    if text.strip():
        return own_words(text)
    errors = wire.errors if isinstance(wire.errors, list) else []
    joined = "; ".join(error for error in errors[:20] if isinstance(error, str) and error)
    return own_words(joined) or own_words(wire.subtype if wire.subtype != "success" else None)


def _limit(info: _LimitInfo | None) -> list[AgentEvent]:
    if info is None or not isinstance(info.status, str):
        return []
    resets = info.resetsAt if isinstance(info.resetsAt, int | float) and not isinstance(info.resetsAt, bool) else None
    return [LimitSeen(rejected=info.status == "rejected", resets_at=resets)]
