"""The one HTTP client: it fetches files of the law repositories and answers of the search service (D38, D75).

Nothing an answer says is trusted: hosts are checked at every hop, sizes while they stream, times by one deadline over
all attempts. Every failure is one of :mod:`protocols.downloads`.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import Enum
from urllib.parse import urlsplit

import httpx
import structlog
import trio
from attrs import define, field, frozen

from actors.ports.fetchbody import ACCEPTED_ENCODINGS, read_body
from actors.ports.fetchcache import CachedFile, DiskCache
from actors.ports.fetchfile import read_file
from actors.ports.fetchsettings import FetchSettings, origin
from protocols.downloads import (
    DownloadFailed,
    DownloadTimedOut,
    DownloadTruncated,
    HostNotAllowed,
    HttpRefused,
    NotServed,
    RedirectLoop,
    WrongContent,
    retry_after_s,
    why_not_xml,
)

_log = structlog.get_logger(__name__)

_OK = (200, 203)
_GONE = (404, 410)
_PASSING = (408, 425, 429)
"""4xx that ask to come back later; like 5xx they are tried again."""


class Purpose(Enum):
    """What a file is for; it decides the deadline, and for searches that an error status may carry the answer."""

    METADATA = "metadata"
    CONTENT = "content"
    SEARCH = "search"


@frozen
class Fetched:
    """A whole file. ``url`` is the address asked for; ``sha256`` is that of ``content``; ``from_cache``: unchanged."""

    url: str
    content: bytes = field(repr=False)
    sha256: str
    from_cache: bool = False


@define
class Fetcher:
    """Made by :func:`open_fetcher`. Any number of tasks may use it at once."""

    settings: FetchSettings
    _client: httpx.AsyncClient
    _cache: DiskCache | None = None
    _jitter: random.Random = field(factory=random.Random)
    _next_turn: dict[str, float] = field(init=False, factory=dict)

    async def get(self, url: str, purpose: Purpose, *, max_bytes: int | None = None) -> Fetched:
        """Fetch ``url``, which must be below one of the configured bases.

        ``max_bytes`` replaces the general size limit. Raises a ``DownloadFailed``; cancelling leaves nothing behind.
        """
        limit = self.settings.max_bytes if max_bytes is None else max_bytes
        if url.startswith("file:"):
            self._check_allowed(url)
            content = await trio.to_thread.run_sync(read_file, url, self.settings.folders, limit)
            return await self._checked_file(url, content)
        total_s = self.settings.content_timeout_s if purpose is Purpose.CONTENT else self.settings.metadata_timeout_s
        with trio.move_on_after(total_s):
            return await self._with_retries(url, purpose, limit)
        raise DownloadTimedOut(f"{url}: not complete within {total_s:g} s, retries included", url=url)

    async def forget(self, url: str) -> None:
        """Drop ``url`` from the cache, because its content turned out to be no good."""
        if self._cache is not None:
            await trio.to_thread.run_sync(self._cache.drop, url)

    def _unreached(self, url: str, error: httpx.ConnectError) -> DownloadFailed:
        """Nobody is there, or no network: what a person can do about it."""
        parts, settings = urlsplit(url), self.settings
        bases = {
            "BWB_REPOSITORY_URL": settings.bwb_repository_url,
            "CVDR_REPOSITORY_URL": settings.cvdr_repository_url,
            "BWB_SRU_URL": settings.bwb_sru_url,
            "CVDR_SRU_URL": settings.cvdr_sru_url,
        }
        names = " or ".join(name for name, base in bases.items() if url.startswith(base))
        advice = f"check the network, or {names}" if names else "check the network"
        shown = parts._replace(query="", fragment="").geturl()  # of a search the query is long and says nothing here
        return DownloadFailed(f"{shown}: {parts.hostname} cannot be reached ({_words(error)}): {advice}", url=url)

    async def _with_retries(self, url: str, purpose: Purpose, limit: int) -> Fetched:
        cached = None
        if self._cache is not None and purpose is not Purpose.SEARCH:
            cached = await trio.to_thread.run_sync(self._cache.load, url)
        attempt = 1
        while True:
            try:
                return await self._attempt(url, purpose, limit, cached)
            except _Again as again:
                failure, asked_s = again.failure, again.asked_s
            except DownloadTruncated as error:
                failure, asked_s = error, None
            except httpx.TimeoutException as error:
                failure, asked_s = DownloadTimedOut(f"{url}: no answer in time ({_words(error)})", url=url), None
            except httpx.ConnectError as error:
                failure, asked_s = self._unreached(url, error), None
            except httpx.TransportError as error:
                failure, asked_s = DownloadFailed(f"{url}: {_words(error)}", url=url), None
            pause_s = self._pause_s(attempt, asked_s)
            if attempt >= self.settings.attempts or pause_s > self.settings.max_pause_s:
                raise type(failure)(f"{failure.message} (attempts: {attempt})", **failure.details)
            _log.info(
                "download tried again", url=url, attempt=attempt, pause_s=round(pause_s, 2), error=failure.message
            )
            await trio.sleep(pause_s)
            attempt += 1

    def _pause_s(self, attempt: int, asked_s: float | None) -> float:
        """Doubling, with jitter of half to one and a half; never shorter than the server asked for."""
        own_s = self.settings.first_pause_s * 2.0 ** (attempt - 1) * self._jitter.uniform(0.5, 1.5)
        return own_s if asked_s is None else max(own_s, asked_s)

    async def _attempt(self, url: str, purpose: Purpose, limit: int, cached: CachedFile | None) -> Fetched:
        """One attempt: follow the redirects, each hop checked and paced."""
        hops = [url]
        while True:
            self._check_allowed(hops[-1], came_from=hops[-2] if len(hops) > 1 else None)
            await self._wait_turn(hops[-1])
            async with self._client.stream("GET", hops[-1], headers=cached.validators if cached else {}) as response:
                if not response.has_redirect_location:
                    return await self._answer(response, url, purpose, limit, cached)
                target = str(response.next_request.url) if response.next_request else ""
            if target in hops:
                raise RedirectLoop(f"{url}: redirects go round in a circle at {target}", url=url)
            if len(hops) > self.settings.max_redirects:
                raise RedirectLoop(
                    f"{url}: more than {self.settings.max_redirects} redirects, last to {target}", url=url
                )
            hops.append(target)

    async def _answer(
        self, response: httpx.Response, url: str, purpose: Purpose, limit: int, cached: CachedFile | None
    ) -> Fetched:
        status = response.status_code
        if status == 304 and cached is not None:
            return Fetched(url, cached.content, cached.sha256, from_cache=True)
        readable = status in _OK or (purpose is Purpose.SEARCH and 400 <= status < 500 and status not in _PASSING)
        if not readable:
            raise _refusal(response, url)
        content_type = response.headers.get("content-type", "")
        if (reason := why_not_xml(content_type, b"<")) is None:
            content = await read_body(response, limit_bytes=limit, max_expansion=self.settings.max_expansion)
            reason = why_not_xml(content_type, content[:4096])
            if reason is None:
                return await self._finish(url, purpose, content, response)
        if status not in _OK:
            raise _refusal(response, url)
        raise WrongContent(f"{url}: the server answered {status} with {reason} instead of XML", url=url)

    async def _finish(self, url: str, purpose: Purpose, content: bytes, response: httpx.Response) -> Fetched:
        headers = response.headers
        file = CachedFile(
            url=url,
            etag=headers.get("etag", ""),
            last_modified=headers.get("last-modified", ""),
            sha256=await trio.to_thread.run_sync(_sha256, content),
            content=content,
        )
        if self._cache is not None and file.validators and _may_keep(purpose, headers):
            await trio.to_thread.run_sync(self._cache.store, file)
        return Fetched(url, content, file.sha256)

    async def _checked_file(self, url: str, content: bytes) -> Fetched:
        if (reason := why_not_xml("", content[:4096])) is not None:
            raise WrongContent(f"{url}: the file holds {reason} instead of XML", url=url)
        return Fetched(url, content, await trio.to_thread.run_sync(_sha256, content))

    def _check_allowed(self, url: str, *, came_from: str | None = None) -> None:
        """Judge the address as the client below will read it, not as it is written."""
        try:
            found = origin(str(httpx.URL(url)))
        except httpx.InvalidURL:
            found = None
        if found in self.settings.allowed_origins:
            return
        shown = ascii(url)[1:-1][:200]
        if came_from is not None:
            raise HostNotAllowed(
                f"{came_from} redirects to {shown}, a host that is not on the allow-list", url=came_from
            )
        raise HostNotAllowed(f"{shown}: this host is not on the allow-list", url=shown)

    async def _wait_turn(self, url: str) -> None:
        """Requests to a public host start at least ``min_interval_s`` apart, whatever the number of tasks."""
        host = urlsplit(url).hostname or ""
        if host not in self.settings.paced_hosts:
            return
        now = trio.current_time()
        turn = max(now, self._next_turn.get(host, now))
        self._next_turn[host] = turn + self.settings.min_interval_s
        await trio.sleep_until(turn)


class _Again(Exception):
    """The server is in trouble now; ``asked_s`` is the wait that it asked for."""

    def __init__(self, failure: DownloadFailed, asked_s: float | None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.asked_s = asked_s


@asynccontextmanager
async def open_fetcher(settings: FetchSettings, *, jitter: random.Random | None = None) -> AsyncIterator[Fetcher]:
    """A fetcher with its connections, closed at the end. Loading the certificates happens in a thread."""
    client = await trio.to_thread.run_sync(_new_client, settings)
    cache = None if settings.cache_folder is None else DiskCache(settings.cache_folder, settings.cache_bytes)
    async with client:
        yield Fetcher(settings, client, cache, jitter or random.Random())


def _new_client(settings: FetchSettings) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={"user-agent": settings.user_agent, "accept-encoding": ACCEPTED_ENCODINGS, "accept": "*/*"},
        timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s, pool=None),
        limits=httpx.Limits(max_connections=settings.max_connections, keepalive_expiry=15.0),
        follow_redirects=False,
        trust_env=False,
    )


def _refusal(response: httpx.Response, url: str) -> Exception:
    """The failure for an answer without a usable body; ``_Again`` where another attempt may go better."""
    status = response.status_code
    text = f"{url}: the server answered {status} {response.reason_phrase}".rstrip()
    if status in _GONE:
        return NotServed(text, url=url, status=status)
    failure = HttpRefused(text, url=url, status=status)
    if status >= 500 or status in _PASSING:
        asked_s = retry_after_s(response.headers.get("retry-after"), datetime.now(UTC))
        if asked_s is not None:
            failure = HttpRefused(f"{text}, come back in {asked_s:g} s", url=url, status=status, retry_after_s=asked_s)
        return _Again(failure, asked_s)
    return failure


def _may_keep(purpose: Purpose, headers: httpx.Headers) -> bool:
    """Searches change; and a body that ends with its connection may be cut off unnoticed, for ever if it were kept."""
    complete = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
    return purpose is not Purpose.SEARCH and complete and "no-store" not in headers.get("cache-control", "").lower()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


def _words(error: Exception) -> str:
    return _ERRNO.sub("", str(error)) or type(error).__name__
