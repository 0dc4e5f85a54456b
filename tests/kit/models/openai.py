"""The chat completions API as far as opencode uses it: streamed chunks with reasoning, text, tool calls and usage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import trio
from attrs import define

from tests.kit.models.script import Answer, Calls, HalfCall, Refuses, Says, Stop, Thinks, Tokens, written_of
from tests.kit.models.server import ModelServer
from tests.kit.models.wire import Exchange

MODEL = "kimi-k3-prepaid"

_STOPS: Mapping[Stop, str | None] = {Stop.LIMIT: "length", Stop.REFUSED: "content_filter", Stop.UNSAID: None}


@define(eq=False)
class OpenAi(ModelServer):
    """``url`` is what goes into ``VLAM_API_URL``."""

    @property
    def path(self) -> str:
        return "/v1/chat/completions"

    def error(self, refusal: Refuses) -> Any:
        return {"error": {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}}

    async def elsewhere(self, exchange: Exchange) -> None:
        if exchange.path == "/v1/models":
            await exchange.answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            await super().elsewhere(exchange)

    async def tell(self, exchange: Exchange, answer: Answer, number: int) -> None:
        chunks = list(completion_chunks(answer, f"chatcmpl-kit-{number}", str(exchange.body.get("model"))))
        if not exchange.body.get("stream"):
            await exchange.answer(200, _whole(chunks))
            return
        await exchange.begin_stream(answer.breaks)
        error = _event(self.error(Refuses(500, "server_error", "Engine overloaded")))
        for chunk in chunks:
            if answer.pause_s:
                await trio.sleep(answer.pause_s)
            await exchange.event(_event(chunk), error)
        await exchange.event("data: [DONE]\n\n", error)
        await exchange.end_stream()


def _event(chunk: Any) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def completion_chunks(answer: Answer, completion_id: str, model: str) -> Iterator[dict[str, Any]]:
    """The chunks of one completion, in the order of the API."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": completion_id,
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model,
            "choices": [choice],
        }

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for part in answer.parts:
        if isinstance(part, Thinks | Says):
            for delta in _texts(part, answer.piece_chars):
                yield chunk(delta)
        else:
            for delta in _call(part, calls, f"call_{completion_id}_{calls}", answer.piece_chars):
                yield chunk({"tool_calls": [delta]})
            calls += 1
    stop = _STOPS.get(answer.stop, "tool_calls" if calls else "stop")
    if stop is not None:
        yield chunk({}, stop)
    if answer.tokens is not None:
        yield {**chunk({}), "choices": [], "usage": _usage(answer.tokens)}


def _texts(part: Thinks | Says, piece_chars: int) -> Iterator[dict[str, Any]]:
    name = "reasoning_content" if isinstance(part, Thinks) else "content"
    for at in range(0, len(part.text), piece_chars):
        yield {name: part.text[at : at + piece_chars]}


def _call(part: Calls | HalfCall, index: int, call_id: str, piece_chars: int) -> Iterator[dict[str, Any]]:
    written = written_of(part)
    yield {"index": index, "id": call_id, "type": "function", "function": {"name": part.tool, "arguments": ""}}
    for at in range(0, len(written), piece_chars):
        yield {"index": index, "function": {"arguments": written[at : at + piece_chars]}}


def _usage(tokens: Tokens) -> dict[str, Any]:
    prompt = tokens.input + tokens.cache_read
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _whole(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The same completion when it was not asked for as a stream; of its parts only the text."""
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = next((chunk["usage"] for chunk in chunks if "usage" in chunk), None)
    return {**chunks[0], "object": "chat.completion", "choices": [choice], "usage": usage}
