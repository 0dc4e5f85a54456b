"""The lines of claude's ``stream-json``: only the fields that are read, the decoder skips all others.

Whatever a CLI may leave out or null has a default. ``Any`` stands where other lines use the same name for other things.
"""

from __future__ import annotations

from typing import Any

import msgspec

from protocols.dialects.lineparser import TypeOnly


class Usage(msgspec.Struct):
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    cache_read_input_tokens: int | float | None = None
    cache_creation_input_tokens: int | float | None = None


class Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str | None = None
    is_error: bool | None = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[Block] | str | None = None
    stop_reason: str | None = None


class Started(msgspec.Struct):
    id: str | None = None
    model: str | None = None


class Delta(msgspec.Struct):
    stop_reason: str | None = None


class MessageStart(msgspec.Struct, tag="message_start"):
    message: Started


class MessageDelta(msgspec.Struct, tag="message_delta"):
    delta: Delta


class MessageStop(msgspec.Struct, tag="message_stop"):
    pass


class BlockStart(msgspec.Struct, tag="content_block_start"):
    pass


class BlockDelta(msgspec.Struct, tag="content_block_delta"):
    pass


class BlockStop(msgspec.Struct, tag="content_block_stop"):
    pass


class StreamEvent(msgspec.Struct, tag="stream_event"):
    event: BlockDelta | BlockStart | BlockStop | MessageStart | MessageDelta | MessageStop
    parent_tool_use_id: str | None = None
    abandoned_blocks: Any = None


class System(msgspec.Struct, tag="system"):
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


class Assistant(msgspec.Struct, tag="assistant"):
    message: Message
    session_id: Any = None
    parent_tool_use_id: str | None = None
    error: Any = None
    is_api_error_message: Any = None
    api_error_status: Any = None
    timestamp: Any = None


class User(msgspec.Struct, tag="user"):
    message: Message
    session_id: Any = None
    timestamp: Any = None


class Result(msgspec.Struct, tag="result"):
    subtype: str = ""
    is_error: bool | None = None
    session_id: Any = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    errors: Any = None
    terminal_reason: Any = None
    usage: Usage | None = None
    total_cost_usd: float | None = None
    permission_denials: Any = None


class LimitInfo(msgspec.Struct):
    status: Any = None
    resetsAt: Any = None  # noqa: N815 - as the CLI spells it


class RateLimit(msgspec.Struct, tag="rate_limit_event"):
    rate_limit_info: LimitInfo | None = None
    session_id: Any = None


class InnerType(msgspec.Struct):
    event: TypeOnly


Wire = StreamEvent | System | Assistant | User | Result | RateLimit
TEXT = msgspec.json.Decoder(str)
INNER_TYPE = msgspec.json.Decoder(InnerType)
INNER_KNOWN = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
