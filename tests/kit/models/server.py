"""A model server: takes requests, asks the script, keeps a record of what was asked and of what the answers cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import trio
from attrs import define, field

from protocols.agentevents import Usage
from tests.kit.models.script import NO_TOKENS, Answer, Asked, Refuses, Script, Silence, Step, Tokens, says
from tests.kit.models.wire import Broke, Exchange, listening


@define(eq=False)
class ModelServer(ABC):
    """One API. ``handed_out`` has the tokens that each answer told of, in the order in which they ended.

    Of an answer that broke off that is what had been told by then.

    Requests without tools (titles, probes) take no step of the script; ``aside`` counts them.
    """

    script: Script
    url: str = field(init=False, default="")
    asked: list[Asked] = field(init=False, factory=list)
    steps: list[Step] = field(init=False, factory=list)
    handed_out: list[Tokens] = field(init=False, factory=list)
    aside: int = field(init=False, default=0)
    elsewhere_asked: list[str] = field(init=False, factory=list)
    """Methods and targets of all requests to other paths."""
    answering: int = field(init=False, default=0)
    """How many requests wait for their answer, or for the rest of it."""
    most_answering: int = field(init=False, default=0)
    _arrived: trio.Event = field(init=False, factory=trio.Event)

    @classmethod
    @asynccontextmanager
    async def running(cls, script: Script) -> AsyncIterator[Self]:
        server = cls(script)
        async with listening(server) as server.url:
            yield server

    @property
    def tokens(self) -> Tokens:
        """Everything that was handed out."""
        return sum(self.handed_out, NO_TOKENS)

    @property
    def usage(self) -> Usage:
        """The same as the product counts it."""
        total = self.tokens
        return Usage(total.input, total.output, total.cache_read, total.cache_write)

    async def until_asked(self, times: int = 1) -> None:
        while len(self.asked) < times:
            await self._arrived.wait()

    async def serve(self, exchange: Exchange) -> None:
        """One exchange, whatever it is about."""
        if exchange.method != "POST" or exchange.path != self.path:
            self.elsewhere_asked.append(f"{exchange.method} {exchange.target}")
            await self.elsewhere(exchange)
        elif not exchange.body.get("tools"):
            self.aside += 1
            await self.tell(exchange, says('{"title": "Verrijking"}'), -self.aside)
        else:
            await self._answer(exchange)

    async def _answer(self, exchange: Exchange) -> None:
        number = len(self.asked)
        asked = Asked(number, str(exchange.body.get("model")), exchange.headers, exchange.body)
        self.asked.append(asked)
        self._arrived.set()
        self._arrived = trio.Event()
        step = self.script(asked)
        self.steps.append(step)
        self.answering += 1
        self.most_answering = max(self.most_answering, self.answering)
        try:
            match step:
                case Silence():
                    await exchange.silence()
                case Refuses():
                    await exchange.answer(step.status, self.error(step), step.headers)
                case Answer():
                    if step.after is not None:
                        await step.after.wait()
                    try:
                        await self.tell(exchange, step, number)
                    except Broke:
                        self.handed_out.append(self.told_by_then(step, exchange.sent))
                        raise
                    self.handed_out.append(step.tokens or NO_TOKENS)
        finally:
            self.answering -= 1

    @property
    @abstractmethod
    def path(self) -> str:
        """Where answers are asked for."""

    @abstractmethod
    def error(self, refusal: Refuses) -> Any:
        """The document of an error."""

    @abstractmethod
    async def tell(self, exchange: Exchange, answer: Answer, number: int) -> None:
        """Send ``answer``; returns when it was sent to its end."""

    def told_by_then(self, answer: Answer, sent: int) -> Tokens:
        """What the first ``sent`` events say of the cost of ``answer``: nothing, where the API tells at the end."""
        return NO_TOKENS

    async def elsewhere(self, exchange: Exchange) -> None:
        """A request to another path."""
        await exchange.answer(404, self.error(Refuses(404, "not_found_error", f"no {exchange.path}")))
