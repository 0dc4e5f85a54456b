"""What a model does, in words that hold for both APIs: it thinks, says, calls tools, is cut off, refuses, breaks off, is silent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import trio
from attrs import field, frozen


@frozen
class Thinks:
    text: str


@frozen
class Says:
    text: str


@frozen
class Calls:
    """A tool call with whole arguments."""

    tool: str
    arguments: Mapping[str, Any]


@frozen
class HalfCall:
    """A tool call whose arguments are these characters, be they JSON or not."""

    tool: str
    written: str


def written_of(call: Calls | HalfCall) -> str:
    """The arguments of a call as the model writes them."""
    return json.dumps(call.arguments, ensure_ascii=False) if isinstance(call, Calls) else call.written


Part = Thinks | Says | Calls | HalfCall


class Stop(StrEnum):
    """Why an answer ends. ``DONE`` becomes a call for tools by itself when the answer holds one."""

    DONE = "done"
    LIMIT = "limit"
    """The output limit."""
    REFUSED = "refused"
    UNSAID = "unsaid"
    """The server forgets to say it."""


class How(StrEnum):
    """In what way a stream breaks."""

    CLOSED = "closed"
    RESET = "reset"
    STALLED = "stalled"
    ERROR = "error"
    """An error in the place of the next event."""


@frozen
class Break:
    """``after``: how many events of the stream were sent. It does not break before ``once`` is set.

    What a client had not read yet when its connection broke may be lost to it; ``once`` says that it has.
    """

    after: int
    how: How = How.CLOSED
    once: trio.Event | None = None


@frozen
class Tokens:
    """What an answer costs. ``input`` without what came from or went to a cache; ``reasoning`` is part of ``output``."""

    input: int = 1200
    output: int = 40
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
        )


NO_TOKENS = Tokens(0, 0)


@frozen
class Answer:
    """``tokens`` None: the server does not say. ``pause_s`` before each piece of ``piece_chars`` characters.

    Nothing is sent before ``after`` is set.
    """

    parts: Sequence[Part] = ()
    stop: Stop = Stop.DONE
    tokens: Tokens | None = field(factory=Tokens)
    piece_chars: int = 24
    pause_s: float = 0.0
    breaks: Break | None = None
    after: trio.Event | None = None

    @property
    def calls_tools(self) -> bool:
        return any(isinstance(part, Calls | HalfCall) for part in self.parts)


@frozen
class Refuses:
    """An HTTP error. ``kind`` is the API's own word for it, ``code`` a finer one where the API has it."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(factory=dict)
    code: str | None = None


@frozen
class Silence:
    """The request is taken and nothing ever comes back."""


Step = Answer | Refuses | Silence

OVERLOADED = Refuses(529, "overloaded_error", "Overloaded")
BROKEN = Refuses(500, "api_error", "Internal server error")


def says(text: str, **more: Any) -> Answer:
    return Answer((Says(text),), **more)


def calls(tool: str, /, _tokens: Tokens | None = None, **arguments: Any) -> Answer:
    """An answer of one tool call."""
    return Answer((Calls(tool, arguments),), tokens=_tokens or Tokens())


@frozen
class Asked:
    """A request that offers tools. ``number`` counts them from 0, over all conversations."""

    number: int
    model: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Role and text of each message, in order; tool calls and their results have none."""
        return [(message["role"], text_of(message.get("content"))) for message in self.body["messages"]]

    @property
    def prompts(self) -> list[str]:
        """What the user said, apart from results of tools; the CLI's own remarks are among it."""
        return [text for role, text in self.texts if role == "user" and text.strip()]

    @property
    def turn(self) -> int:
        """How many answers of the model are in this conversation."""
        return sum(role == "assistant" for role, _ in self.texts)

    def turns_since(self, words: str) -> int | None:
        """The same, since the user last said something with these words; None when that was never said."""
        count = 0
        for role, text in reversed(self.texts):
            if role == "user" and words in text:
                return count
            count += role == "assistant"
        return None

    @property
    def folder(self) -> str:
        """Where the CLI works, as it tells its model."""
        told = re.search(r"[Ww]orking directory: ([^\s\\\"]+)", json.dumps(self.body))
        assert told is not None
        return told[1]

    @property
    def tools(self) -> set[str]:
        return {tool.get("name") or tool["function"]["name"] for tool in self.body["tools"]}


def text_of(content: Any) -> str:
    """Of a message's content in either API."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


Script = Callable[[Asked], Step]
"""Decides what the model does with one request. Never waits."""


def in_order(*steps: Step) -> Script:
    """One step after the other, whoever asks; the last for ever."""
    return lambda asked: steps[min(asked.number, len(steps) - 1)]


def by_turn(*steps: Step) -> Script:
    """One step after the other in each conversation; the last for ever."""
    return lambda asked: steps[min(asked.turn, len(steps) - 1)]


def by_words(scripts: Mapping[str, Script]) -> Script:
    """The script whose words stand anywhere in the request: conversations that run at once play each its own."""

    def choose(asked: Asked) -> Step:
        request = json.dumps(asked.body, ensure_ascii=False)
        (chosen,) = (script for words, script in scripts.items() if words in request)
        return chosen(asked)

    return choose
