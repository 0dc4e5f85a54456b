"""A repository on loopback that can be told to misbehave: a real socket, real HTTP, any fault of the field."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import attrs
import h11
import trio

from tests.kit.bwb_works import Work


@attrs.frozen
class Request:
    """What arrived: path with query, headers in lower case, and when (trio's clock)."""

    target: str
    headers: Mapping[str, str]
    at: float


@attrs.frozen(kw_only=True)
class Reply:
    """One answer. The faults: ``declared`` lies about the length, ``drip_s`` sends a byte at a time, ``hang`` says
    nothing, ``hang_up`` closes without a word, ``until_close`` sends no length at all."""

    body: bytes = b"<ok/>"
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    content_type: str | None = "application/xml"
    etag: bool = False
    last_modified: str | None = None
    declared: int | None = None
    drip_s: float | None = None
    hang: bool = False
    hang_up: bool = False
    chunked: bool = False
    until_close: bool = False


@attrs.define
class FakeRepository:
    """``replies`` per path (without query): one after the other, the last for ever. Unknown paths are 404."""

    url: str
    replies: dict[str, list[Reply]] = attrs.field(factory=dict)
    requests: list[Request] = attrs.field(factory=list)

    def serve(self, path: str, *replies: Reply) -> str:
        """Answer ``path`` with ``replies``; returns its address."""
        self.replies[path] = list(replies)
        return self.url + path

    def serve_works(self, works: Iterable[Work]) -> None:
        """Answer for all files of ``works``, with validators."""
        for work in works:
            for path, content in work.files.items():
                self.serve(path, Reply(body=content, etag=True, last_modified="Mon, 01 Jan 2024 00:00:00 GMT"))

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]

    def _next(self, target: str) -> Reply:
        left = self.replies.get(target.partition("?")[0])
        if not left:
            return Reply(status=404, body=b"<html>no such file</html>", content_type="text/html")
        return left.pop(0) if len(left) > 1 else left[0]

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until either side ends it."""
        connection = h11.Connection(h11.SERVER)
        try:
            while await self._exchange(connection, stream):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass  # the client went away in the middle, which is what some tests are about
        finally:
            await trio.aclose_forcefully(stream)

    async def _exchange(self, connection: h11.Connection, stream: trio.abc.Stream) -> bool:
        request = await _read_request(connection, stream)
        if request is None:
            return False
        self.requests.append(request)
        return await self._answer(connection, stream, request)

    async def _answer(self, connection: h11.Connection, stream: trio.abc.Stream, request: Request) -> bool:
        """Whether the connection can be used again."""
        reply = self._next(request.target)
        if reply.hang:
            await stream.receive_some()
            return False
        if reply.hang_up:
            return False
        return await _send(connection, stream, reply, request)


async def _read_request(connection: h11.Connection, stream: trio.abc.Stream) -> Request | None:
    found: Request | None = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(65536)))
        elif isinstance(event, h11.Request):
            headers = {name.decode(): value.decode() for name, value in event.headers}
            found = Request(event.target.decode(), headers, trio.current_time())
        elif isinstance(event, h11.EndOfMessage):
            return found
        else:
            return None


async def _send(connection: h11.Connection, stream: trio.abc.Stream, reply: Reply, request: Request) -> bool:
    headers = dict(reply.headers)
    if reply.content_type is not None:
        headers["content-type"] = reply.content_type
    if reply.etag:
        headers["etag"] = f'"{hashlib.md5(reply.body, usedforsecurity=False).hexdigest()}"'
    if reply.last_modified:
        headers["last-modified"] = reply.last_modified
    status, body = reply.status, reply.body
    if _is_unchanged(headers, request):
        status, body = 304, b""
    if reply.until_close:
        await stream.send_all(_bare_head(status, headers) + body)
        return False
    if reply.chunked:
        headers["transfer-encoding"] = "chunked"
    elif status != 304:
        headers["content-length"] = str(len(body) if reply.declared is None else reply.declared)
    head = h11.Response(status_code=status, headers=list(headers.items()), reason=b"")
    await stream.send_all(connection.send(head) or b"")
    step = 1 if reply.drip_s is not None else 1 << 16
    for at in range(0, len(body), step):
        await stream.send_all(connection.send(h11.Data(data=body[at : at + step])) or b"")
        if reply.drip_s is not None:
            await trio.sleep(reply.drip_s)
    if reply.declared is not None and reply.declared != len(body):
        return False
    await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
    return connection.our_state is h11.DONE


def _bare_head(status: int, headers: Mapping[str, str]) -> bytes:
    """A head that leaves the end of the body to the end of the connection; h11 would make it chunked."""
    lines = [f"HTTP/1.1 {status} OK", "connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _is_unchanged(headers: Mapping[str, str], request: Request) -> bool:
    tag = request.headers.get("if-none-match")
    if tag is not None:
        return tag == headers.get("etag")
    since = request.headers.get("if-modified-since")
    return since is not None and since == headers.get("last-modified")


@asynccontextmanager
async def fake_repository(works: Iterable[Work] = ()) -> AsyncIterator[FakeRepository]:
    """A repository on a free port of 127.0.0.1, until the block ends."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = FakeRepository(f"http://127.0.0.1:{port}")
        server.serve_works(works)
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        yield server
        nursery.cancel_scope.cancel()
