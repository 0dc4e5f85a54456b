"""Lines to a PostgreSQL server, one for each supervisor, that can be cut and stalled while others stay whole.

They run in a thread of their own, so that they go on while the main thread stops and starts the server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trio
from attrs import define, field

_SOCKET = ".s.PGSQL.5432"


@define(eq=False)
class Line:
    """A unix socket in front of the server. ``url`` leads through it, to whatever database of the server."""

    folder: Path
    target: Path
    _trio_token: trio.lowlevel.TrioToken
    _scopes: set[trio.CancelScope] = field(init=False, factory=set)
    _refusing: bool = field(init=False, default=False)
    _flowing: trio.Event = field(init=False, factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self._flowing.set()

    def url(self, url: str) -> str:
        """The same database through this line."""
        return url.replace(str(self.target.parent), str(self.folder))

    @property
    def connections(self) -> int:
        return len(self._scopes)

    def cut(self) -> None:
        """All connections break, and new ones are refused until ``heal``."""
        self._there(self._cut)

    def stall(self) -> None:
        """Nothing passes in either direction, and nobody is told, until ``heal``."""
        self._there(self._stall)

    def heal(self) -> None:
        self._there(self._heal)

    def _there(self, act: Callable[[], None]) -> None:
        self._trio_token.run_sync_soon(act)

    def _cut(self) -> None:
        self._refusing = True
        for scope in self._scopes:
            scope.cancel()

    def _stall(self) -> None:
        self._flowing = trio.Event()

    def _heal(self) -> None:
        self._refusing = False
        self._flowing.set()

    async def serve(self, client: trio.SocketStream) -> None:
        async with client:
            if self._refusing:
                return
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    server = await trio.open_unix_socket(str(self.target))
                    async with server, trio.open_nursery() as nursery:
                        nursery.start_soon(self._pump, server, client, nursery.cancel_scope)
                        nursery.start_soon(self._pump, client, server, nursery.cancel_scope)
                except OSError:
                    return  # there is no server at this moment
                finally:
                    self._scopes.discard(scope)

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
        try:
            while chunk := await source.receive_some(65536):
                await self._flowing.wait()
                await sink.send_all(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await self._flowing.wait()
        both.cancel()


@define(eq=False)
class Lines:
    """Opened by ``lines``; ``add`` may be called from any thread but their own."""

    target: Path
    _token: trio.lowlevel.TrioToken
    _nursery: trio.Nursery

    def add(self, folder: Path) -> Line:
        """One more line; it listens when this returns."""
        folder.mkdir(parents=True, exist_ok=True)
        line = Line(folder, self.target, self._token)
        path = folder / _SOCKET
        path.unlink(missing_ok=True)
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(path))
        bound.listen(64)
        self._token.run_sync_soon(self._open, line, bound)
        return line

    def _open(self, line: Line, bound: socket.socket) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
        self._nursery.start_soon(trio.serve_listeners, line.serve, [listener])


@contextmanager
def lines(url: str) -> Iterator[Lines]:
    """Lines to the server of ``url``, which listens on a unix socket."""
    target = Path(parse_qs(urlsplit(url).query)["host"][0]) / _SOCKET
    ready = threading.Event()
    made: list[Lines] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            made.append(Lines(target, trio.lowlevel.current_trio_token(), nursery))
            ready.set()
            await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,), name="lines", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield made[0]
    finally:
        made[0]._token.run_sync_soon(made[0]._nursery.cancel_scope.cancel)
        thread.join()
