"""A unix socket in front of a PostgreSQL server that loses answers, or a server that is not one at all."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trio
from attrs import define, field


@define
class LossyProxy:
    """Passes everything on, until the client sends ``lose_answer_to``: the server gets it, the client is cut off."""

    url: str
    lose_answer_to: bytes | None = None
    answered: trio.Event = field(factory=trio.Event)
    """The server has answered what the client will never hear."""


@asynccontextmanager
async def lossy_proxy(url: str, folder: Path) -> AsyncIterator[LossyProxy]:
    """``url`` must be that of a server on a unix socket."""
    target = Path(parse_qs(urlsplit(url).query)["host"][0]) / ".s.PGSQL.5432"
    proxy = LossyProxy(url.replace(str(target.parent), str(folder)))

    async def serve(client: trio.SocketStream) -> None:
        async with await trio.open_unix_socket(str(target)) as server, client:
            try:
                await _pass_on(proxy, client, server)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    with socket.socket(socket.AF_UNIX) as raw:
        raw.bind(str(folder / ".s.PGSQL.5432"))
        raw.listen(16)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(raw))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            yield proxy
            nursery.cancel_scope.cancel()


async def _pass_on(proxy: LossyProxy, client: trio.SocketStream, server: trio.SocketStream) -> None:
    async with trio.open_nursery() as nursery:

        async def answers() -> None:
            async for chunk in server:
                await client.send_all(chunk)
            nursery.cancel_scope.cancel()

        nursery.start_soon(answers)
        async for chunk in client:
            lost = proxy.lose_answer_to is not None and proxy.lose_answer_to in chunk
            if lost:
                nursery.cancel_scope.cancel()  # nobody passes answers on any more
            with trio.CancelScope(shield=True):
                await server.send_all(chunk)
                if lost:
                    await server.receive_some()
                    proxy.answered.set()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def impostor(*replies: bytes) -> AsyncIterator[str]:
    """The URL of something on loopback that gives these replies to whoever connects, and then hangs up."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"".join(replies))
        async for _ in stream:
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        yield f"postgresql://regelrecht:s3cret@127.0.0.1:{port}/postgres?sslmode=disable"
        nursery.cancel_scope.cancel()


def message(kind: bytes, body: bytes) -> bytes:
    """One message of the PostgreSQL protocol."""
    return kind + struct.pack("!i", len(body) + 4) + body


def welcome(server_version: str) -> bytes:
    """What a server of that version says before the first query."""
    return (
        message(b"R", struct.pack("!i", 0))
        + message(b"S", b"server_version\0" + server_version.encode() + b"\0")
        + message(b"S", b"client_encoding\0UTF8\0")
        + message(b"K", struct.pack("!ii", 1, 1))
        + message(b"Z", b"I")
    )
