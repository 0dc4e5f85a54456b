"""The Messages API as far as the claude CLI uses it: streamed messages with thinking, text, tool calls and usage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import trio
from attrs import define, evolve

from tests.kit.models.script import (
    NO_TOKENS,
    Answer,
    Calls,
    HalfCall,
    Part,
    Refuses,
    Says,
    Stop,
    Thinks,
    Tokens,
    written_of,
)
from tests.kit.models.server import ModelServer
from tests.kit.models.wire import Exchange

_STOPS: Mapping[Stop, str | None] = {Stop.LIMIT: "max_tokens", Stop.REFUSED: "refusal", Stop.UNSAID: None}
_OUTPUT_AT_FIRST = 1
"""Of the output tokens, what the first event of a message tells; it has all others."""


@define(eq=False)
class Anthropic(ModelServer):
    """``url`` is what goes into ``CLAUDE_BASE_URL``."""

    @property
    def path(self) -> str:
        return "/v1/messages"

    def error(self, refusal: Refuses) -> Any:
        return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}

    async def elsewhere(self, exchange: Exchange) -> None:
        if exchange.path == "/v1/messages/count_tokens":
            await exchange.answer(200, {"input_tokens": 1000})
        else:
            await super().elsewhere(exchange)

    async def tell(self, exchange: Exchange, answer: Answer, number: int) -> None:
        events = message_events(answer, f"msg_kit_{number}", str(exchange.body.get("model")))
        if not exchange.body.get("stream"):
            await exchange.answer(200, _whole(events))
            return
        await exchange.begin_stream(answer.breaks)
        error = _event(self.error(Refuses(529, "overloaded_error", "Overloaded")))
        for event in events:
            if event["type"] == "content_block_delta" and answer.pause_s:
                await trio.sleep(answer.pause_s)
            await exchange.event(_event(event), error)
        await exchange.end_stream()

    def told_by_then(self, answer: Answer, sent: int) -> Tokens:
        """What the first event tells. The claude CLI counts it, if it had read that event when its answer broke off."""
        if answer.tokens is None or sent == 0:
            return NO_TOKENS
        return evolve(answer.tokens, output=_OUTPUT_AT_FIRST, reasoning=0)


def _event(event: Mapping[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def message_events(answer: Answer, message_id: str, model: str) -> Iterator[dict[str, Any]]:
    """The events of one message, in the order of the API."""
    tokens = answer.tokens or NO_TOKENS
    yield {
        "type": "message_start",
        "message": {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_input(tokens), "output_tokens": _OUTPUT_AT_FIRST, "service_tier": "standard"},
        },
    }
    for index, part in enumerate(answer.parts):
        yield from _block(part, index, f"toolu_{message_id}_{index}", answer.piece_chars)
    stop = _STOPS.get(answer.stop, "tool_use" if answer.calls_tools else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens.output}}
    yield {"type": "message_stop"}


def _input(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
    }


def _block(part: Part, index: int, call_id: str, piece_chars: int) -> Iterator[dict[str, Any]]:
    start, kind, name, text = _shape(part, call_id)
    yield {"type": "content_block_start", "index": index, "content_block": start}
    if index == 0:
        yield {"type": "ping"}
    for at in range(0, len(text), piece_chars):
        delta = {"type": kind, name: text[at : at + piece_chars]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    if isinstance(part, Thinks):
        signature = {"type": "signature_delta", "signature": "a2l0"}
        yield {"type": "content_block_delta", "index": index, "delta": signature}
    yield {"type": "content_block_stop", "index": index}


def _shape(part: Part, call_id: str) -> tuple[dict[str, Any], str, str, str]:
    """How a block begins, the type of its deltas, the field that they add to, and all that they add."""
    match part:
        case Thinks(text):
            return {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", text
        case Says(text):
            return {"type": "text", "text": ""}, "text_delta", "text", text
        case Calls() | HalfCall():
            start = {"type": "tool_use", "id": call_id, "name": part.tool, "input": {}}
            return start, "input_json_delta", "partial_json", written_of(part)


def _whole(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The same message when it was not asked for as a stream."""
    message: dict[str, Any] = {}
    written: list[str] = []
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
                written.append("")
            case "content_block_delta" if event["delta"]["type"] != "signature_delta":
                written[-1] += next(value for name, value in event["delta"].items() if name != "type")
            case "message_delta":
                message["stop_reason"] = event["delta"]["stop_reason"]
                message["usage"].update(event["usage"])
    for block, text in zip(message["content"], written, strict=True):
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
        else:
            block[block["type"]] = text
    return message
