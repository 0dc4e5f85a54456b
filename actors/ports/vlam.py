"""Asking the VLAM model service whether it is fit for work: five short requests, figures only (``enrich.md`` 12).

What the model writes is never shown, and neither is the key. Nothing here is fatal: each question gives one line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
from attrs import field, frozen

from protocols.scrub import scrub_text

REQUEST_LIMIT_S: Final = 20.0
_MOST_BYTES = 4 << 20
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_LONGEST_LISTING = 300

CHATS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "reasoning_effort low": {"reasoning_effort": "low"},
    "thinking off": {"chat_template_kwargs": {"thinking": False}},
}
"""The same question three times. Equal figures say nothing: an ignored setting looks exactly like an unset one."""

_QUESTION = [{"role": "user", "content": "Answer with the word OK and nothing else."}]
_TOOL_QUESTION = [{"role": "user", "content": "What time is it? Use the tool to find out."}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "current_time",
        "description": "Returns the current time.",
        "parameters": {"type": "object", "properties": {}},
    },
}


@frozen
class VlamCheck:
    """``address`` without ``/v1``; ``model`` as the service calls it; ``max_tokens`` as opencode will send it."""

    address: str
    api_key: str = field(repr=False)
    model: str
    max_tokens: int
    limit_s: float = REQUEST_LIMIT_S

    def lines(self) -> Iterator[str]:
        """One line for each question, as it is answered. Takes up to five times ``limit_s``; raises nothing."""
        with httpx.Client(
            base_url=f"{self.address}/v1",
            headers={"Authorization": f"Bearer {self.api_key}"},
            timeout=self.limit_s,
            follow_redirects=False,
        ) as client:
            yield f"model {self.model}: {self._listed(client)}"
            for name, settings in CHATS.items():
                yield f"chat, {name}: {self._chat(client, settings)}"
            yield f"tool call: {self._tool(client)}"

    def _listed(self, client: httpx.Client) -> str:
        status, body = _ask(client, "GET", "/models", None)
        if body is None:
            return status
        entries = body.get("data")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("id") == self.model:
                return f"{status}, listed{_facts(entry)}"
        return f"{status}, not listed"

    def _chat(self, client: httpx.Client, settings: Mapping[str, Any]) -> str:
        request = {"model": self.model, "messages": _QUESTION, "max_tokens": self.max_tokens, **settings}
        status, body = _ask(client, "POST", "/chat/completions", request)
        if body is None:
            return status
        message = _message(body)
        reasoning = next((value for name in _REASONING_FIELDS if isinstance(value := message.get(name), str)), None)
        thought = "no separate reasoning" if reasoning is None else f"{len(reasoning)} characters of reasoning"
        return f"{status}, {_tokens(body)}, {thought}"

    def _tool(self, client: httpx.Client) -> str:
        request = {"model": self.model, "messages": _TOOL_QUESTION, "max_tokens": self.max_tokens, "tools": [_TOOL]}
        status, body = _ask(client, "POST", "/chat/completions", request)
        if body is None:
            return status
        calls = _message(body).get("tool_calls")
        answered = "answered with a tool call" if isinstance(calls, list) and calls else "no tool call in the answer"
        return f"{status}, {_tokens(body)}, {answered}"


def _ask(client: httpx.Client, method: str, path: str, request: Any) -> tuple[str, dict[str, Any] | None]:
    """The status in words, and the body of a good answer."""
    until = time.monotonic() + (client.timeout.read or REQUEST_LIMIT_S)
    try:
        with client.stream(method, path, json=request) as response:
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    return f"HTTP {response.status_code}, answer over {_MOST_BYTES} bytes", None
                if time.monotonic() >= until:  # the client's own limit is one for each piece
                    return "no answer in time", None
            if not response.is_success:
                return f"HTTP {response.status_code}", None
            body = httpx.Response(200, content=content).json()
    except httpx.TimeoutException:
        return "no answer in time", None
    except httpx.HTTPError as error:
        return f"no answer ({type(error).__name__})", None
    except ValueError:
        return "the answer is no JSON", None
    status = f"HTTP {response.status_code}"
    return (status, body) if isinstance(body, dict) else (f"{status}, the answer is no object", None)


def _message(body: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else {}


def _tokens(body: Mapping[str, Any]) -> str:
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return f"{tokens} completion tokens" if isinstance(tokens, int) else "no token count"


def _facts(entry: Mapping[str, Any]) -> str:
    """Names and numbers of the listing, as far as they are plain and short."""
    plain = {name: value for name, value in entry.items() if name != "id" and isinstance(value, str | int | float)}
    text = ", ".join(f"{name}={value}" for name, value in plain.items())
    return f" ({scrub_text(text)[:_LONGEST_LISTING]})" if text else ""
