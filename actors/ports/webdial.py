"""Connections to the public internet only: the name is resolved here, judged here, and the judged address is dialled.

Between the look-up and the connection there is no second look-up, so a name that answers differently the next time
(WB-03) gains nothing. Host header and TLS name stay those of the URL.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

import httpcore
import httpx
import trio
from attrs import define, field

from actors.ports.crawlsettings import CrawlSettings
from protocols.webpolicy import AddressRefused, WebRules, check_address

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to network addresses, best first. OSError when the name has none."""

_MOST_ADDRESSES: Final = 4
"""Tried one after the other, each with its share of the connect timeout."""


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says, hosts file included."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


@define
class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Dials what ``rules`` allow. One forbidden address among the answers refuses the name: mixed answers are a trick."""

    rules: WebRules
    resolve: Resolve = system_resolve
    _dial: httpcore.AsyncNetworkBackend = field(init=False, factory=httpcore.TrioBackend)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """AddressRefused, before anything is sent, when the name leads inside; else httpcore's errors."""
        limit_s = float("inf") if timeout is None else timeout
        addresses = await self._addresses(host, port, limit_s)
        share_s = None if timeout is None else timeout / len(addresses)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._dial.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = failure or error
        raise failure or httpcore.ConnectError("no address to connect to")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never: a page is not on this machine."""
        raise AddressRefused("sockets of this machine are not the public internet")

    async def sleep(self, seconds: float) -> None:
        """For the pool's own retries, which are not used."""
        await trio.sleep(seconds)

    async def _addresses(self, host: str, port: int, limit_s: float) -> list[str]:
        try:
            with trio.fail_after(limit_s):
                found = await self.resolve(host, port)
        except trio.TooSlowError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name cannot be resolved ({error})") from error
        if not found:
            raise httpcore.ConnectError("the name has no address")
        return [str(check_address(address, self.rules)) for address in found][:_MOST_ADDRESSES]


@define
class WebTransport(httpx.AsyncBaseTransport):
    """httpx's transport over a pool with our way of connecting, which httpx itself has no option for."""

    pool: httpcore.AsyncConnectionPool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        core = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx():
            response = await self.pool.handle_async_request(core)
        assert isinstance(response.stream, AsyncIterable)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(aiter(response.stream), response.aclose),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self.pool.aclose()


@define
class _Body(httpx.AsyncByteStream):
    _parts: AsyncIterator[bytes]
    _close: Callable[[], Awaitable[None]]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with _as_httpx():
            return await anext(self._parts)

    async def aclose(self) -> None:
        with _as_httpx():
            await self._close()


def open_transport(settings: CrawlSettings, resolve: Resolve, tls: ssl.SSLContext) -> WebTransport:
    """A pool of connections as ``settings`` allow. Close it with ``aclose``, or use it in a client, which does."""
    if settings.proxy_url is not None:
        # The proxy is named by whoever runs us, most often by an inside name; what it lets through is its business (D71).
        proxy = httpx.URL(settings.proxy_url)
        auth = (proxy.username, proxy.password) if proxy.username else None
        return WebTransport(
            httpcore.AsyncHTTPProxy(
                proxy_url=str(proxy.copy_with(username=None, password=None)),
                proxy_auth=auth,
                ssl_context=tls,
                max_connections=settings.global_concurrency,
                keepalive_expiry=_KEEPALIVE_S,
            )
        )
    return WebTransport(
        httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=settings.global_concurrency,
            max_keepalive_connections=settings.global_concurrency,
            keepalive_expiry=_KEEPALIVE_S,
            network_backend=CheckedBackend(settings.rules, resolve),
        )
    )


_KEEPALIVE_S: Final = 15.0

_ERRORS: Final = {
    getattr(httpcore, name): getattr(httpx, name)
    for name in (
        *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectError", "ReadError", "WriteError"),
        *("ProxyError", "UnsupportedProtocol", "LocalProtocolError", "RemoteProtocolError"),
    )
}
"""The two libraries name their errors alike; what they share as a base is never raised itself."""


@contextmanager
def _as_httpx() -> Iterator[None]:
    try:
        yield
    except tuple(_ERRORS) as error:
        raise _ERRORS[type(error)](str(error)) from error
