"""Manners towards web servers: whose turn it is, process-wide, and what each server's robots rules say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio
from attrs import define, field, frozen

from protocols.webpolicy import WebUrl

MAX_CRAWL_DELAY_S: Final = 10.0
KEEP_RULES_S: Final = 3600.0
KEEP_TROUBLE_S: Final = 600.0
"""How long a server without readable rules is left alone, before it is asked again."""
_MANY: Final = 1_000


@define(eq=False)
class _Host:
    """``starting`` is held while somebody waits for the next permitted start, so that waiters go in order."""

    places: trio.Semaphore
    starting: trio.Lock = field(factory=trio.Lock)
    next_start: float = 0.0
    users: int = 0


@frozen(eq=False)
class Turn:
    """The right to make one request."""

    _host: _Host
    _all: trio.Semaphore

    def give_back(self) -> None:
        """The request is over. Once."""
        self._all.release()
        self.give_up()

    def give_up(self) -> None:
        """Leave the queue of the host before the start."""
        self._host.places.release()
        self._host.users -= 1


@define(eq=False)
class HostTurns:
    """One for the process, shared by all runs: how many requests go to a host at once, how far apart, how many in all."""

    at_once_per_host: int
    at_once: int
    delay_s: float
    _hosts: dict[str, _Host] = field(init=False, factory=dict)
    _all: trio.Semaphore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._all = trio.Semaphore(self.at_once)

    async def take(self, host: str, delay_s: float = 0.0) -> Turn:
        """Wait for a turn at ``host``; the caller gives it back. All or nothing when cancelled.

        Starts lie at least ``delay_s`` and the general delay apart, whichever is longer.
        """
        entry = self._entry(host)
        entry.users += 1
        try:
            await entry.places.acquire()
        except BaseException:
            entry.users -= 1
            raise
        turn = Turn(entry, self._all)
        try:
            async with entry.starting:
                await trio.sleep_until(entry.next_start)
                await self._all.acquire()
                entry.next_start = trio.current_time() + max(self.delay_s, delay_s)
        except BaseException:
            turn.give_up()
            raise
        return turn

    def _entry(self, host: str) -> _Host:
        if host not in self._hosts and len(self._hosts) >= _MANY:
            now = trio.current_time()
            idle = [name for name, entry in self._hosts.items() if not entry.users and entry.next_start <= now]
            for name in idle:
                del self._hosts[name]
        return self._hosts.setdefault(host, _Host(trio.Semaphore(self.at_once_per_host)))


@frozen
class RobotsFile:
    """The answer to a request for ``robots.txt``: its text, or ``None`` where the server says there is none."""

    text: str | None


class RobotsUnreadable(Exception):
    """The server would not say what its rules are: it is left alone. The text says how it failed."""


class _Parser(Protocol):
    def can_fetch(self, url: str, user_agent: str) -> bool: ...

    def crawl_delay(self, user_agent: str) -> float | None: ...


@frozen
class RobotsRules:
    """``parser`` None: no rules, everything is allowed; unless ``unreadable`` says why the server is left alone."""

    agent: str
    parser: _Parser | None = None
    unreadable: str = ""

    def allow(self, url: str) -> bool:
        return not self.unreadable and (self.parser is None or self.parser.can_fetch(url, self.agent))

    @property
    def delay_s(self) -> float:
        asked = None if self.parser is None else self.parser.crawl_delay(self.agent)
        return 0.0 if asked is None else min(max(0.0, float(asked)), MAX_CRAWL_DELAY_S)


@define(eq=False)
class _Kept:
    lock: trio.Lock = field(factory=trio.Lock)
    rules: RobotsRules | None = None
    until: float = 0.0


@define(eq=False)
class RobotsCache:
    """Rules per origin, kept for an hour; several askers of one origin make one request.

    ``fetch`` gets the URL of the file and raises ``RobotsUnreadable`` for a server in trouble; what else it raises is not
    kept, and comes out of :meth:`rules_for`.
    """

    agent: str
    fetch: Callable[[WebUrl], Awaitable[RobotsFile]]
    _kept: dict[str, _Kept] = field(init=False, factory=dict)

    async def rules_for(self, url: WebUrl) -> RobotsRules:
        kept = self._entry(url.origin)
        async with kept.lock:
            if kept.rules is None or kept.until <= trio.current_time():
                kept.rules, keep_s = await self._ask(url)
                kept.until = trio.current_time() + keep_s
            return kept.rules

    async def _ask(self, url: WebUrl) -> tuple[RobotsRules, float]:
        try:
            file = await self.fetch(url.at("/robots.txt"))
        except RobotsUnreadable as error:
            return RobotsRules(self.agent, unreadable=str(error)), KEEP_TROUBLE_S
        if file.text is None:
            return RobotsRules(self.agent), KEEP_RULES_S
        return RobotsRules(self.agent, await trio.to_thread.run_sync(_parse, file.text)), KEEP_RULES_S

    def _entry(self, origin: str) -> _Kept:
        if origin not in self._kept and len(self._kept) >= _MANY:
            now = trio.current_time()
            for old in [key for key, kept in self._kept.items() if kept.until <= now and not kept.lock.locked()]:
                del self._kept[old]
        return self._kept.setdefault(origin, _Kept())


def _parse(text: str) -> _Parser:
    from protego import Protego  # with the role that crawls, not before

    return Protego.parse(text)
