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
from protocols.dialects.claude_wire import (
    INNER_KNOWN,
    INNER_TYPE,
    TEXT,
    Assistant,
    Block,
    BlockDelta,
    LimitInfo,
    MessageDelta,
    MessageStart,
    MessageStop,
    RateLimit,
    Result,
    StreamEvent,
    System,
    User,
    Wire,
)
from protocols.dialects.lineparser import LineParser, cause_of_status, own_words
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
    decoder = msgspec.json.Decoder(Wire)

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

    def events(self, wire: Wire) -> tuple[AgentEvent, ...]:
        if type(wire) is StreamEvent and type(wire.event) is BlockDelta:
            return ONLY_OUTPUT
        found = self._settled(wire) if self._waiting is not None else []
        match wire:
            case StreamEvent():
                self._partial(wire, found)
            case Assistant():
                self._session_of(wire.session_id, found)
                self._stamp(wire.timestamp)
                self._assistant(wire, found)
            case User():
                self._session_of(wire.session_id, found)
                self._stamp(wire.timestamp)
                self._user(wire, found)
            case System():
                self._session_of(wire.session_id, found)
                self._system(wire, found)
            case Result():
                self._session_of(wire.session_id, found)
                found.append(_closing(wire))
            case RateLimit():
                found.extend(_limit(wire.rate_limit_info))
        return tuple(found) if found else NOTHING

    def finish(self) -> tuple[AgentEvent, ...]:
        return tuple(self._settled(None)) if self._waiting is not None else NOTHING

    def knows(self, kind: str, line: bytes) -> bool:
        if kind != "stream_event":
            return super().knows(kind, line)
        try:
            inner = INNER_TYPE.decode(line).event.type
        except msgspec.DecodeError:
            return True
        return isinstance(inner, str) and inner in INNER_KNOWN

    def _partial(self, wire: StreamEvent, found: list[AgentEvent]) -> None:
        parent = wire.parent_tool_use_id
        match wire.event:
            case MessageStart(message=started):
                if started.id:
                    self._streamed[parent] = started.id
                    self._step(parent, started.id)
                self._named(started.model, found)
                self._turn(started.id, parent, found)
            case MessageDelta(delta=delta):
                step = self._steps.get(parent)
                if delta.stop_reason is not None and step is not None:
                    found.append(step.ended(delta.stop_reason))
            case MessageStop():
                self._steps.pop(parent, None)
                if wire.abandoned_blocks is not None:
                    found.append(Voided())
            case _:
                pass

    def _assistant(self, wire: Assistant, found: list[AgentEvent]) -> None:
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

    def _block(self, block: Block, step: _Step, found: list[AgentEvent]) -> None:
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

    def _user(self, wire: User, found: list[AgentEvent]) -> None:
        blocks = wire.message.content if isinstance(wire.message.content, list) else []
        found += [
            ToolResult(block.tool_use_id or "", failed=bool(block.is_error))
            for block in blocks
            if block.type == "tool_result"
        ]

    def _system(self, wire: System, found: list[AgentEvent]) -> None:
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

    def _settled(self, wire: Wire | None) -> list[AgentEvent]:
        """The end of an unstreamed message, unless ``wire`` is another block of it."""
        assert self._waiting is not None
        parent, reason = self._waiting
        step = self._steps.get(parent)
        if type(wire) is Assistant and step is not None and wire.message.id == step.message_id:
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


def _retry(wire: System) -> Retry:
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


def _api_error(wire: Assistant, text: str) -> ApiError:
    status = _whole_or_none(wire.api_error_status)
    name = shown_name(wire.error) if isinstance(wire.error, str) else "unknown"
    refused = wire.message.stop_reason == "refusal"
    return ApiError(name, own_words(text) or "", Cause.REFUSED if refused else _cause(wire.error, status), status)


def _closing(wire: Result) -> Closing:
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


def _reason(wire: Result) -> str | None:
    """The text of the result, else its list of errors, else the word for what went wrong."""
    try:
        text = TEXT.decode(wire.result)
    except msgspec.DecodeError:
        text = ""
    if text.strip():
        return own_words(text)
    errors = wire.errors if isinstance(wire.errors, list) else []
    joined = "; ".join(error for error in errors[:20] if isinstance(error, str) and error)
    return own_words(joined) or own_words(wire.subtype if wire.subtype != "success" else None)


def _limit(info: LimitInfo | None) -> list[AgentEvent]:
    if info is None or not isinstance(info.status, str):
        return []
    resets = info.resetsAt if isinstance(info.resetsAt, int | float) and not isinstance(info.resetsAt, bool) else None
    return [LimitSeen(rejected=info.status == "rejected", resets_at=resets)]
