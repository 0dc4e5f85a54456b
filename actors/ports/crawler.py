"""One URL in, one outcome out: fetch, extract, and climb to the next tier where that gave nothing (``pipelines.md`` 3).

Whatever a site does becomes an outcome; nothing but a cancellation comes out of :meth:`Crawler.crawl_url`.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog
import trio
from attrs import define, field

from actors.ports.crawlsettings import CrawlSettings
from actors.ports.extraction import Extractor, open_extractor
from actors.ports.webclient import Allowance, RobotsDisallowed, WebClient, WebPage, open_web
from actors.ports.webdial import Resolve, system_resolve
from protocols.crawl import CrawlOutcome, CrawlResult, CrawlStatus
from protocols.failures import SupervisorError
from protocols.webpage.extract import Extracted, RawPage
from protocols.webpage.words import one_line
from protocols.webpolicy import UrlRefused

_log = structlog.get_logger(__name__)

_KEPT_OUT: Final = frozenset({401, 403, 407, 429, 451})
_ERROR_CHARS: Final = 500


class TierUnavailable(Exception):
    """This way of fetching is not set up here. That is neither a fetch nor an error."""


class Tier(Protocol):
    """A way of fetching. Pages come back as they are; what is in them is not a tier's business.

    A tier asks for its page only through connections that refuse inside addresses, for sub-resources too, and keeps
    to ``allowance``.
    """

    @property
    def name(self) -> str: ...

    async def fetch(self, raw_url: str, allowance: Allowance) -> WebPage:
        """Raises ``TierUnavailable``, or any ``SupervisorError`` with a text that does not repeat the URL."""
        ...


@define
class StaticTier:
    """A plain request, as :class:`WebClient` makes it."""

    client: WebClient
    name: str = "static"

    async def fetch(self, raw_url: str, allowance: Allowance) -> WebPage:
        return await self.client.fetch(raw_url, allowance)


@define
class NoBrowser:
    """The place of a browser where there is none (D72)."""

    name: str = "browser"

    async def fetch(self, raw_url: str, allowance: Allowance) -> WebPage:
        raise TierUnavailable("no browser is set up")


@define
class _Climb:
    """What the tiers tried so far gave."""

    url: str
    problems: list[tuple[str, str]] = field(factory=list)
    page: WebPage | None = None
    tier: str | None = None
    found: CrawlResult | None = None
    """Usable, but possibly less than a later tier would find."""
    fetched: bool = False
    block_type: str | None = None

    def add(self, tier: str, page: WebPage, extracted: Extracted) -> None:
        """Take over what a tier brought; content gives way to the content of a later tier, and to nothing else."""
        self.fetched = True
        if extracted.problem:
            self.problems.append((tier, extracted.problem))
            self._saw(tier, page)
            return
        self.page, self.tier = page, tier
        metadata = {"source": one_line(self.url), **extracted.metadata}
        if page.url.text != self.url:
            metadata["loaded_url"] = one_line(page.url.text)
        self.found = CrawlResult(extracted.content, metadata, tier)

    def refused(self, tier: str, page: WebPage) -> None:
        """A status of 300 and more is never content, whatever stands in its body."""
        self.problems.append((tier, f"HTTP {page.status}"))
        self._saw(tier, page)
        if page.status in _KEPT_OUT:
            self.block_type = "refused"

    def _saw(self, tier: str, page: WebPage) -> None:
        if self.found is None:
            self.page, self.tier = page, tier

    def outcome(self, duration_s: float) -> CrawlOutcome:
        status = CrawlStatus.SUCCESS if self.found else CrawlStatus.EMPTY if self.fetched else CrawlStatus.FAILED
        return CrawlOutcome(
            status,
            self.found,
            None if self.found else self._error(),
            self.tier,
            self.page.status if self.page else None,
            len(self.page.body) if self.page else 0,
            round(duration_s * 1000),
            None if self.found else self.block_type,
        )

    def _error(self) -> str:
        if not self.problems:
            return "no tier is set up that could fetch this"
        several = len({tier for tier, _ in self.problems}) > 1
        return one_line("; ".join(f"{tier}: {text}" if several else text for tier, text in self.problems), _ERROR_CHARS)


@define
class Crawler:
    """Made by :func:`open_crawler`. Any number of tasks and runs may use it at once; one for the process."""

    settings: CrawlSettings
    extractor: Extractor
    tiers: Sequence[Tier]

    async def crawl_url(self, url: str) -> CrawlOutcome:
        """Never raises but when cancelled. ``url`` in any spelling; results carry it as it was given.

        An outcome that is no success has an ``error`` for people. It repeats neither the URL nor anything secret.
        """
        climb, begin = _Climb(url), trio.current_time()
        with trio.CancelScope(deadline=begin + self.settings.url_deadline_s) as scope:
            await self._climb(climb, Allowance(scope))
        if scope.cancelled_caught:
            climb.problems.append(("deadline", f"not complete within {self.settings.url_deadline_s:g} s"))
        return climb.outcome(trio.current_time() - begin)

    async def _climb(self, climb: _Climb, allowance: Allowance) -> None:
        for tier in self.tiers:
            try:
                if await self._try(tier, climb, allowance):
                    return
            except TierUnavailable:
                continue
            except (UrlRefused, RobotsDisallowed) as refusal:  # true of the address, so of every tier
                climb.problems.append((tier.name, refusal.message))
                climb.block_type = "robots" if isinstance(refusal, RobotsDisallowed) else "policy"
                return
            except SupervisorError as failure:
                climb.problems.append((tier.name, failure.message))
            except Exception as error:  # noqa: BLE001 - one page never ends a run; the log has what is ours to repair
                _log.exception("crawl of a page broke", tier=tier.name)
                climb.problems.append((tier.name, f"unexpected {type(error).__name__}"))

    async def _try(self, tier: Tier, climb: _Climb, allowance: Allowance) -> bool:
        """Whether this tier gave all there is."""
        page = await tier.fetch(climb.url, allowance)
        if page.status >= 300:
            climb.refused(tier.name, page)
            return False
        with allowance.waiting():  # for a free process; the extraction itself has a limit of its own
            extracted = await self.extractor.extract(RawPage(page.url.text, page.content_type, page.body))
        climb.add(tier.name, page, extracted)
        return climb.found is not None and not extracted.shell


@asynccontextmanager
async def open_crawler(
    settings: CrawlSettings,
    *,
    browser: Tier | None = None,
    resolve: Resolve = system_resolve,
    tls: ssl.SSLContext | None = None,
    jitter: random.Random | None = None,
) -> AsyncIterator[Crawler]:
    """The crawler of this process, with its connections and its extraction processes; all gone at the end.

    ``browser`` draws pages that are empty without their scripts. The other arguments replace, in tests, the system's
    resolver, its certificates and chance.
    """
    if settings.rules.allow:
        _log.warning(
            "the crawler may reach addresses that are not public", allowed=[str(net) for net in settings.rules.allow]
        )
    async with open_web(settings, resolve=resolve, tls=tls, jitter=jitter) as client:
        async with open_extractor(settings.extract) as extractor:
            yield Crawler(settings, extractor, (StaticTier(client), browser or NoBrowser()))
