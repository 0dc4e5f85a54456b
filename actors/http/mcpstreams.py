"""Streams between a pipe and the MCP library that let no request go unanswered (D75).

The library ends what it works on when its input ends. Whoever pipes requests into the command closes the pipe right after
the last one, and would be told "Connection closed" instead of what was asked.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

import mcp_types as types
import trio
from attrs import define, field
from mcp.shared.message import SessionMessage

ANSWERS_WITHIN_S: Final = 30.0
"""After the end of the input, at most: as long as a request over HTTP has."""

_CANCELLED: Final = "notifications/cancelled"


@define
class Unanswered:
    """The ids of requests that were read and have no answer yet."""

    ids: set[int | str] = field(factory=set)
    _changed: trio.Event = field(init=False, factory=trio.Event)

    def read(self, item: SessionMessage | Exception) -> None:
        """A request is owed an answer; one that its sender cancels is not any more."""
        if isinstance(item, Exception):
            return
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self.ids.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._drop((message.params or {}).get("requestId"))

    def written(self, item: SessionMessage) -> None:
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._drop(item.message.id)

    async def all_answered(self) -> None:
        while self.ids:
            await self._changed.wait()

    def _drop(self, id_: Any) -> None:
        if isinstance(id_, int | str):
            self.ids.discard(id_)
        self._changed.set()
        self._changed = trio.Event()


@define
class _Around:
    """A stream of the library, closed with this one."""

    inner: Any
    unanswered: Unanswered

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@define
class AnsweredToTheEnd(_Around):
    """What is read. It ends when the input has ended and everything in it is answered, or has had its time."""

    @property
    def last_context(self) -> Any:
        return self.inner.last_context

    def __aiter__(self) -> AnsweredToTheEnd:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await anext(self.inner)
        except StopAsyncIteration:
            with trio.move_on_after(ANSWERS_WITHIN_S):
                await self.unanswered.all_answered()
            raise
        self.unanswered.read(item)
        return item

    async def receive(self) -> SessionMessage | Exception:
        """As the library's own, which raises at the end what its kind of stream raises."""
        item: SessionMessage | Exception = await self.inner.receive()
        self.unanswered.read(item)
        return item


@define
class Answering(_Around):
    """What is written."""

    async def send(self, item: SessionMessage) -> None:
        await self.inner.send(item)
        self.unanswered.written(item)
