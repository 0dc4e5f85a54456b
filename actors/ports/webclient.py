"""Fetching pages of the open web: every hop judged, every size and time bounded, every host spared (``pipelines.md`` 3.4).

Made for addresses that users type in and servers that answer anything. The client has no cookies, no referrer, no
credentials and no use for the environment; it follows redirects by hand, because each of them is a new address.
"""

from __future__ import annotations

import math
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final
from urllib.parse import urljoin

import httpx
import structlog
import trio
from attrs import define, field, frozen

from actors.ports.crawlsettings import CrawlSettings
from actors.ports.fetchbody import ACCEPTED_ENCODINGS, read_body
from actors.ports.webdial import Resolve, open_transport, system_resolve
from actors.ports.webturns import HostTurns, RobotsCache, RobotsFile, RobotsUnreadable
from protocols.downloads import DownloadFailed, DownloadTimedOut, RedirectLoop, TooLarge, retry_after_s
from protocols.failures import Permanent
from protocols.webpolicy import DEFAULT_PORTS, UrlRefused, WebUrl, parse_url

_log = structlog.get_logger(__name__)

_ACCEPT: Final = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,*/*;q=0.1"
_ACCEPT_ROBOTS: Final = "text/plain,*/*;q=0.1"
_AGAIN: Final = frozenset({429, 502, 503, 504})


class RedirectRefused(UrlRefused):
    """The way to this page leads through an address that is not visited."""


class RobotsDisallowed(Permanent):
    """The rules of the server ask us to stay away from this address."""

    kind = "robots"


@frozen
class WebPage:
    """An answer that is no redirect. ``body`` is unpacked, and empty for a status of 400 and more, which is not read."""

    url: WebUrl
    status: int
    content_type: str
    body: bytes = field(default=b"", repr=False)
    asked_s: float | None = None
    """The wait that a busy server asks for."""


@define
class Allowance:
    """The time that one URL may take, in ``scope``. Waiting for a turn is not the server's fault and is free (D71)."""

    scope: trio.CancelScope

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The clock stands still inside."""
        left_s = self.scope.deadline - trio.current_time()
        self.scope.deadline = math.inf
        try:
            yield
        finally:
            self.scope.deadline = trio.current_time() + left_s


@define
class WebClient:
    """Made by :func:`open_web`. Any number of tasks may use it at once; one for the process, so that hosts are spared."""

    settings: CrawlSettings
    _client: httpx.AsyncClient
    _turns: HostTurns
    _jitter: random.Random
    _robots: RobotsCache = field(init=False)

    def __attrs_post_init__(self) -> None:
        agent = self.settings.user_agent.partition("/")[0]
        self._robots = RobotsCache(agent, self._robots_file)

    async def fetch(self, raw_url: str, allowance: Allowance) -> WebPage:
        """The page at ``raw_url``, redirects followed; retried where the server is in passing trouble.

        Raises ``UrlRefused`` (or ``AddressRefused``) for an address that is not visited, ``RobotsDisallowed``, or a
        ``DownloadFailed``. No text repeats the URL: it may carry a secret. The time limit is ``allowance``'s scope.
        """
        url = parse_url(raw_url, self.settings.rules)
        return await self._retried(url, lambda: self._follow(url, allowance))

    async def _retried(self, url: WebUrl, attempt: Callable[[], Awaitable[WebPage]]) -> WebPage:
        pauses = iter(self.settings.retry_pauses_s)
        while True:
            page, failure = None, None
            try:
                page = await attempt()
                if page.status not in _AGAIN:
                    return page
            except httpx.TransportError as error:
                failure = _failure(error)
            pause_s = self._pause_s(next(pauses, None), page)
            if pause_s is not None:
                _log.info("page tried again", host=url.host, pause_s=round(pause_s, 2))
                await trio.sleep(pause_s)
            elif page is not None:
                return page
            elif failure is not None:
                raise failure

    def _pause_s(self, own_s: float | None, page: WebPage | None) -> float | None:
        """None: no further try. Never shorter than the server asked for; when it asks for too much, we give up."""
        asked_s = (page.asked_s if page else None) or 0.0
        if own_s is None or asked_s > self.settings.longest_pause_s:
            return None
        return max(own_s * self._jitter.uniform(0.75, 1.25), asked_s)

    async def _follow(self, url: WebUrl, allowance: Allowance, *, robots: bool = False) -> WebPage:
        """``robots``: this is a request for rules, which no rules apply to."""
        settings = self.settings
        seen = [url.text]
        while True:
            delay_s = 0.0 if robots else await self._robots_delay_s(url, allowance)
            async with self._turn(url, delay_s, allowance), self._get(url, robots) as response:
                if not response.has_redirect_location:
                    return await self._page(response, url, settings.max_robots_bytes if robots else settings.max_bytes)
                location = response.headers["location"]
            url = self._next_hop(url, location, seen)

    def _next_hop(self, here: WebUrl, location: str, seen: list[str]) -> WebUrl:
        """Judge a redirect like any other address (WB-03)."""
        try:
            url = parse_url(urljoin(here.text, location), self.settings.rules)
        except UrlRefused as error:
            raise RedirectRefused(f"a redirect to an address that is not visited: {error.message}") from None
        except ValueError:
            raise RedirectRefused("a redirect to an address that cannot be read") from None
        if url.text in seen:
            raise RedirectLoop("redirects go round in a circle")
        if len(seen) > self.settings.max_redirects:
            raise RedirectLoop(f"more than {self.settings.max_redirects} redirects")
        seen.append(url.text)
        return url

    async def _robots_delay_s(self, url: WebUrl, allowance: Allowance) -> float:
        """The delay that the server asks for. Every hop is checked, so every new origin of a chain is (D71)."""
        if not self.settings.obey_robots:
            return 0.0
        with allowance.waiting():
            rules = await self._robots.rules_for(url)
        if rules.unreadable:
            raise RobotsDisallowed(f"robots.txt could not be read: {rules.unreadable}")
        if not rules.allow(url.text):
            raise RobotsDisallowed("disallowed by robots.txt")
        return rules.delay_s

    @asynccontextmanager
    async def _turn(self, url: WebUrl, delay_s: float, allowance: Allowance) -> AsyncIterator[None]:
        with allowance.waiting():
            turn = await self._turns.take(url.host, delay_s)
        try:
            yield
        finally:
            turn.give_back()

    @asynccontextmanager
    async def _get(self, url: WebUrl, robots: bool) -> AsyncIterator[httpx.Response]:
        target, headers = _as_client_reads_it(url), {"accept": _ACCEPT_ROBOTS if robots else _ACCEPT}
        async with self._client.stream("GET", target, headers=headers) as response:
            size = sum(len(name) + len(value) for name, value in response.headers.raw)
            if size > self.settings.max_header_bytes:
                raise TooLarge(f"headers of {size} bytes, the limit is {self.settings.max_header_bytes}")
            yield response

    async def _page(self, response: httpx.Response, url: WebUrl, limit_bytes: int) -> WebPage:
        status, content_type = response.status_code, response.headers.get("content-type", "")
        if status < 300:
            return WebPage(url, status, content_type, await self._body(response, limit_bytes))
        return WebPage(
            url, status, content_type, asked_s=retry_after_s(response.headers.get("retry-after"), datetime.now(UTC))
        )

    async def _body(self, response: httpx.Response, limit_bytes: int) -> bytes:
        try:
            return await read_body(
                response,
                limit_bytes=limit_bytes,
                raw_limit_bytes=min(limit_bytes, self.settings.max_raw_bytes),
                max_expansion=self.settings.max_expansion,
            )
        except DownloadFailed as error:
            raise type(error)(error.message.removeprefix(f"{response.url}: ")) from None

    async def _robots_file(self, url: WebUrl) -> RobotsFile:
        """``robots.txt`` by the same guarded way: 4xx means that there are no rules, trouble that we stay away.

        AddressRefused passes: then the pages of this server are not visited either, and that is why.
        """
        try:
            with trio.CancelScope(deadline=trio.current_time() + self.settings.robots_deadline_s) as scope:
                allowance = Allowance(scope)
                page = await self._retried(url, lambda: self._follow(url, allowance, robots=True))
        except (DownloadFailed, RedirectRefused) as error:
            raise RobotsUnreadable(error.message) from error
        if scope.cancelled_caught:
            raise RobotsUnreadable("no answer in time")
        if page.status >= 500:
            raise RobotsUnreadable(f"HTTP {page.status}")
        return RobotsFile(page.body.decode("utf-8-sig", "replace") if page.status < 300 else None)


@asynccontextmanager
async def open_web(
    settings: CrawlSettings,
    *,
    resolve: Resolve = system_resolve,
    tls: ssl.SSLContext | None = None,
    jitter: random.Random | None = None,
) -> AsyncIterator[WebClient]:
    """A client with its connections, closed at the end.

    ``resolve`` and ``tls`` replace the system's resolver and certificates, in tests.
    """
    context = await trio.to_thread.run_sync(_trusted) if tls is None else tls
    turns = HostTurns(settings.host_concurrency, settings.global_concurrency, settings.host_delay_s)
    async with httpx.AsyncClient(
        transport=open_transport(settings, resolve, context),
        headers={"user-agent": settings.user_agent, "accept-encoding": ACCEPTED_ENCODINGS},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s, pool=None),
        follow_redirects=False,
        trust_env=False,
    ) as client:
        yield WebClient(settings, client, turns, jitter or random.Random())


def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def _as_client_reads_it(url: WebUrl) -> httpx.URL:
    """Two readers of URLs must agree on where a request goes, or one of them was deceived."""
    try:
        target = httpx.URL(url.text)
    except httpx.InvalidURL:
        raise UrlRefused("the URL cannot be read") from None
    if (target.scheme, target.raw_host.decode("ascii"), target.port or DEFAULT_PORTS[url.scheme]) != (
        url.scheme,
        url.host,
        url.port,
    ):
        raise UrlRefused("the URL can be read in two ways")
    return target


def _failure(error: httpx.TransportError) -> DownloadFailed:
    if isinstance(error, httpx.TimeoutException):
        return DownloadTimedOut(f"no answer in time ({type(error).__name__})")
    words: BaseException | None = error
    while words is not None and not str(words):  # trio says "broken", and what broke stands behind it
        words = words.__cause__ or words.__context__
    return DownloadFailed(str(words) if words is not None else type(error).__name__)
