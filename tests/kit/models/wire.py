"""HTTP on loopback for the model servers: one exchange at a time on a connection, streams that can break in any place."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import h11
import trio
from attrs import define, field

from tests.kit.models.script import Break, How


class Broke(Exception):
    """The stream ended where the script wanted it to."""


class Left(Exception):
    """The client went away."""


@define(eq=False)
class Exchange:
    """One request, and the ways to answer it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    _connection: h11.Connection
    _stream: trio.SocketStream
    sent: int = field(init=False, default=0)
    """How many events of a stream."""
    _breaks: Break | None = field(init=False, default=None)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    async def answer(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole JSON document."""
        content = json.dumps(document, ensure_ascii=False).encode()
        head = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        await self._send(h11.Response(status_code=status, headers=list(head.items())))
        await self._send(h11.Data(data=content))
        await self._send(h11.EndOfMessage())

    async def begin_stream(self, breaks: Break | None = None) -> None:
        self._breaks = breaks
        head = [("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked")]
        await self._send(h11.Response(status_code=200, headers=head))

    async def event(self, data: str, error: str) -> None:
        """One server-sent event, or what the script has in its place; ``error`` is how this API says one."""
        if self._breaks is not None and self.sent == self._breaks.after:
            await self._break(self._breaks, error)
        self.sent += 1
        await self._send(h11.Data(data=data.encode()))

    async def end_stream(self) -> None:
        await self._send(h11.EndOfMessage())

    async def silence(self) -> None:
        """Say nothing until the client gives up."""
        while await self._stream.receive_some(65536):
            pass
        raise Left

    async def _break(self, breaks: Break, error: str) -> None:
        if breaks.once is not None:
            await breaks.once.wait()
        match breaks.how:
            case How.STALLED:
                await self.silence()
            case How.ERROR:
                with suppress(Left):  # a client may go as soon as it has read the error
                    await self._send(h11.Data(data=error.encode()))
                    await self.end_stream()
            case How.RESET:
                self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Broke

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        content = self._connection.send(event)
        if content:
            try:
                await self._stream.send_all(content)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Left from error


class Api(Protocol):
    """What answers one exchange."""

    async def serve(self, exchange: Exchange) -> None: ...


async def handle(api: Api, stream: trio.SocketStream) -> None:
    """Serve one connection until either side ends it."""
    connection = h11.Connection(h11.SERVER)
    try:
        while (exchange := await _read(connection, stream)) is not None:
            await api.serve(exchange)
            if connection.our_state is not h11.DONE:
                return
            connection.start_next_cycle()
    except (Broke, Left, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
        pass
    finally:
        await trio.aclose_forcefully(stream)


async def _read(connection: h11.Connection, stream: trio.SocketStream) -> Exchange | None:
    request: h11.Request | None = None
    content = bytearray()
    while True:
        event = connection.next_event()
        match event:
            case h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[])
                    await stream.send_all(connection.send(go_on) or b"")
                connection.receive_data(await stream.receive_some(65536))
            case h11.Request():
                request = event
            case h11.Data():
                content += event.data
            case h11.EndOfMessage() if request is not None:
                headers = {name.decode().lower(): value.decode() for name, value in request.headers}
                body = json.loads(content) if content else {}
                return Exchange(request.method.decode(), request.target.decode(), headers, body, connection, stream)
            case _:
                return None


@asynccontextmanager
async def listening(api: Api) -> AsyncIterator[str]:
    """The address of ``api`` on a free port of 127.0.0.1, until the block ends."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]

        async def serve(stream: trio.SocketStream) -> None:
            await handle(api, stream)

        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            nursery.cancel_scope.cancel()
