"""A web site on loopback for the crawler: good pages, bad pages, and servers that do not play by the rules."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import h11
import trio

from actors.ports.crawlsettings import CrawlSettings, ExtractSettings
from actors.ports.webdial import Resolve
from protocols.webpolicy import WebRules
from tests.kit.bwb_server import FakeRepository, Reply, Request

LOOPBACK = "127.0.0.1"
Raw = Callable[[trio.abc.Stream], Awaitable[None]]


def page(body: str | bytes, **changes: Any) -> Reply:
    """A page as a server sends it, in UTF-8."""
    content = body.encode() if isinstance(body, str) else body
    values: dict[str, Any] = {"body": content, "content_type": "text/html; charset=utf-8", **changes}
    return Reply(**values)


def article(title: str = "Zorgtoeslag", words: str = "De toeslag bedraagt € 1.234,56 per jaar.") -> str:
    """A page with a main part and the usual things around it."""
    text = "".join(f"<p>{words} Dit is alinea {number} van de uitleg.</p>" for number in range(1, 6))
    return (
        f"<!doctype html><html lang='nl'><head><title>{title}</title></head><body><nav><a href='/'>Home</a></nav>"
        f"<main><h1>{title}</h1>{text}</main><footer>Over deze site</footer></body></html>"
    )


def redirect(to: str, status: int = 302) -> Reply:
    return Reply(body=b"", status=status, headers={"location": to}, content_type=None)


def robots(text: str, status: int = 200) -> Reply:
    return Reply(body=text.encode(), status=status, content_type="text/plain")


@attrs.define(eq=False)
class Website(FakeRepository):
    """Unknown paths are 404, ``/robots.txt`` too. ``raw`` paths get the bare connection once the request was read."""

    raw: dict[str, Raw] = attrs.field(factory=dict)
    at_once: int = 0
    most_at_once: int = 0
    """The most requests that were answered at the same time."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def pages(self) -> list[str]:
        """What was asked for beside robots rules."""
        return [target for target in self.targets if target != "/robots.txt"]

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.target == path]

    async def _answer(self, connection: h11.Connection, stream: trio.abc.Stream, request: Request) -> bool:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if request.target in self.raw:
                await self.raw[request.target](stream)
                return False
            return await super()._answer(connection, stream, request)
        finally:
            self.at_once -= 1


@asynccontextmanager
async def website(*, host: str = LOOPBACK, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Website]:
    """A site until the block ends. Its ``url`` has ``host`` for a name; tests resolve others to it."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host=host)
        number = listeners[0].socket.getsockname()[1]
        site = Website(f"{'http' if tls is None else 'https'}://{host}:{number}")

        async def serve(stream: trio.SocketStream) -> None:
            wrapped: trio.abc.Stream = (
                stream if tls is None else trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
            )
            await site.handle(wrapped)

        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield site
        nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class Names:
    """A resolver with its own idea of the world. A name with several answers gives one after the other, the last for ever."""

    answers: dict[str, list[Sequence[str]]] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)

    def point(self, host: str, *answers: Sequence[str]) -> None:
        self.answers[host] = list(answers)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Literal addresses resolve to themselves, as everywhere."""
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        left = self.answers.get(host)
        if left is None:
            try:
                socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
            except OSError:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
            return [host]
        return left.pop(0) if len(left) > 1 else left[0]


@attrs.define(eq=False)
class Canary:
    """Listens where nobody must knock, and counts who does."""

    port: int
    visits: int = 0


@asynccontextmanager
async def canary(port: int = 0) -> AsyncIterator[Canary]:
    """On every loopback address, IPv6 too where there is one, under one port."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="0.0.0.0")
        bird = Canary(listeners[0].socket.getsockname()[1])
        if socket.has_ipv6:
            with suppress(OSError):  # a container without IPv6
                listeners += await trio.open_tcp_listeners(bird.port, host="::1")

        async def sing(stream: trio.SocketStream) -> None:
            bird.visits += 1
            await trio.aclose_forcefully(stream)

        nursery.start_soon(trio.serve_listeners, sing, listeners)
        yield bird
        nursery.cancel_scope.cancel()


@attrs.define
class SocketWatch(trio.abc.SocketFactory):
    """Makes ordinary sockets and counts them: what makes none reaches nobody, wherever the address is."""

    made: int = 0

    def socket(self, family: int = -1, type: int = -1, proto: int = -1) -> Any:  # noqa: A002 - trio's name
        self.made += 1
        return trio.socket.from_stdlib_socket(socket.socket(family, type, proto))


def crawl_settings(*ports: int, rules: Mapping[str, Any] | None = None, **changes: Any) -> CrawlSettings:
    """Loopback allowed, no pauses, short limits: everything else as in production."""
    values: dict[str, Any] = {
        "rules": WebRules(**{"ports": {80, 443, *ports}, "allow": ("127.0.0.0/8",), **(rules or {})}),
        "host_delay_s": 0.0,
        "retry_pauses_s": (0.01, 0.02),
        "extract": ExtractSettings(workers=1),
        **changes,
    }
    return CrawlSettings(**values)


def to_loopback(*hosts: str) -> Resolve:
    """A resolver that knows ``hosts``, all of them here."""
    names = Names()
    for host in hosts:
        names.point(host, [LOOPBACK])
    return names.resolve
