"""Serve an application on connections that can be ended, whatever their clients do.

Hypercorn shields its sends from cancellation: a client that stops reading would hold up the end of the whole process. So
connections are accepted here and handed to it one by one, each send with a limit, and closed under it at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import trio
from attrs import define, field
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState

STALLED_S: Final = 60.0
"""For one send, which is at most ``runs.PIECE_BYTES`` of a result: a client that is slower is taken for dead."""


@define(eq=False)
class Connection:
    """A connection as hypercorn uses it. Its methods are those of ``trio.SocketStream``."""

    stream: trio.SocketStream

    @property
    def socket(self) -> trio.socket.SocketType:
        return self.stream.socket

    async def send_all(self, data: bytes) -> None:
        with trio.move_on_after(STALLED_S) as limit:
            await self.stream.send_all(data)
        if limit.cancelled_caught:
            self.stream.socket.close()
            raise trio.BrokenResourceError("the client does not read")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self.stream.receive_some(max_bytes))

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()


@define
class Connections:
    """All that are open. ``serve`` ends ``grace_s`` after ``stop`` returns, at the latest."""

    app: Any
    config: Config
    grace_s: float
    _open: set[Connection] = field(init=False, factory=set)
    _idle: trio.Condition = field(init=False, factory=trio.Condition)

    async def serve(
        self,
        host: str,
        port: int,
        stop: Callable[[], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Started with the addresses, once they are bound. OSError when the port is taken."""
        listeners = await trio.open_tcp_listeners(port, host=host)
        context = WorkerContext(None)
        async with trio.open_nursery() as handlers:
            try:
                async with trio.open_nursery() as accepting:
                    handle = partial(self._handle, context)
                    accept = partial(trio.serve_listeners, handle, listeners, handler_nursery=handlers)
                    await accepting.start(accept)
                    task_status.started(tuple(_url(listener) for listener in listeners))
                    await stop()
                    accepting.cancel_scope.cancel(reason="no new connections")
                await context.terminated.set()  # idle connections end now, and no answer keeps its own open
                with trio.move_on_after(self.grace_s):
                    await self._all_gone()
            finally:
                # Inside the nursery, which could not end otherwise, also when we are cancelled ourselves.
                self._close()
                handlers.cancel_scope.cancel(reason="grace is over")

    async def _handle(self, context: WorkerContext, stream: trio.SocketStream) -> None:
        connection = Connection(stream)
        self._open.add(connection)
        try:
            server = TCPServer(
                ASGIWrapper(self.app), self.config, context, ConnectionState(LifespanState({})), cast(Any, connection)
            )
            await server.run()
        finally:
            self._open.discard(connection)
            with trio.CancelScope(shield=True):
                async with self._idle:
                    self._idle.notify_all()

    async def _all_gone(self) -> None:
        async with self._idle:
            while self._open:
                await self._idle.wait()

    def _close(self) -> None:
        """At once, and also under a send that cannot be cancelled: it fails then."""
        for connection in self._open:
            connection.socket.close()


def _url(listener: trio.SocketListener) -> str:
    host, port, *_ = listener.socket.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
