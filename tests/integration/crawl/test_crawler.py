"""One URL, one outcome: the ladder of tiers over a real site, real extraction and a browser that a test plays."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from actors.ports.crawler import Crawler, Tier, TierUnavailable, open_crawler
from actors.ports.webclient import Allowance, WebPage
from protocols.crawl import CrawlOutcome, CrawlStatus, blob_entry
from protocols.downloads import DownloadFailed
from protocols.webpolicy import ascii_url, parse_url
from tests.kit.bwb_server import Reply
from tests.kit.website import Names, Website, article, crawl_settings, page, redirect, robots, website

SHELL = (
    f"<html><head><title>App</title></head><body><div>Laden maar</div><script>{'x' * 450_000}</script></body></html>"
)
EMPTY = "<html><body><nav>menu</nav></body></html>"


@attrs.define
class PlayedBrowser:
    """What a browser would bring, or how it would fail."""

    html: str | None = None
    status: int = 200
    failure: Exception | None = None
    asked: list[str] = attrs.field(factory=list)
    name: str = "browser"

    async def fetch(self, raw_url: str, allowance: Allowance) -> WebPage:
        self.asked.append(raw_url)
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        url = parse_url(raw_url, crawl_settings(*range(1024, 65536)).rules)
        return WebPage(url, self.status, "text/html", (self.html or "").encode())


@asynccontextmanager
async def crawler(site: Website, *, browser: Tier | None = None, **changes: Any) -> AsyncIterator[Crawler]:
    async with open_crawler(crawl_settings(site.port, **changes), browser=browser, resolve=Names().resolve) as made:
        yield made


async def crawled(site: Website, path: str, reply: Reply | None = None, **changes: Any) -> CrawlOutcome:
    if reply is not None:
        site.serve(path, reply)
    async with crawler(site, **changes) as made:
        return await made.crawl_url(site.url + path)


# -- success ----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-073", "S3-074")
async def test_a_good_page_is_a_success_with_content_and_metadata() -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", page(article("Zorgtoeslag")))
        assert (outcome.status, outcome.tier, outcome.http_status, outcome.error) == ("success", "static", 200, None)
        assert outcome.result is not None
        assert outcome.result.content.startswith("# Zorgtoeslag")
        assert outcome.result.metadata == {"source": f"{site.url}/a", "title": "Zorgtoeslag", "language": "nl"}
        assert outcome.result.crawler_type == "static"
        assert outcome.size_bytes == len(article("Zorgtoeslag").encode())
        assert outcome.duration_ms >= 0


async def test_a_redirected_page_says_where_it_was_found() -> None:
    async with website() as site:
        site.serve("/b", page(article()))
        outcome = await crawled(site, "/a", redirect("/b"))
        assert outcome.result is not None
        assert outcome.result.metadata["source"] == f"{site.url}/a"
        assert outcome.result.metadata["loaded_url"] == f"{site.url}/b"


async def test_text_and_markdown_are_content_as_they_are() -> None:
    async with website() as site:
        outcome = await crawled(site, "/a.md", page("# Kop\n\ntekst", content_type="text/markdown"))
        assert outcome.result is not None
        assert (outcome.result.content, outcome.result.title) == ("# Kop\n\ntekst", "Kop")


async def test_the_charset_of_the_header_is_used() -> None:
    body = article("Categorieën", "Één euro.").encode("cp1252")
    async with website() as site:
        outcome = await crawled(site, "/a", page(body, content_type="text/html; charset=iso-8859-1"))
        assert outcome.result is not None
        assert "Één euro." in outcome.result.content


# -- neither ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (page(EMPTY), "No content extracted"),
        (page(""), "No content extracted"),
        (page("%PDF", content_type="application/pdf"), "unsupported content type application/pdf"),
        (page("<p>woord en woord</p>" * 150_000), "a page of more than 2000000 bytes is too large to extract"),
    ],
)
async def test_a_page_without_usable_content_is_empty(reply: Reply, error: str) -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", reply)
        assert (outcome.status, outcome.error, outcome.tier, outcome.result) == (
            CrawlStatus.EMPTY,
            error,
            "static",
            None,
        )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429, 451, 500, 503])
async def test_an_error_status_is_never_a_success_whatever_its_body(status: int) -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", page(article(), status=status))
        assert (outcome.status, outcome.error, outcome.http_status) == (CrawlStatus.FAILED, f"HTTP {status}", status)
        assert outcome.block_type == ("refused" if status in (401, 403, 429, 451) else None)


@pytest.mark.parametrize(
    ("url", "block"),
    [
        ("ftp://example.com/", "policy"),
        ("geen adres", "policy"),
        ("http://user:geheim@example.com/", "policy"),
        ("http://10.0.0.1/", "policy"),
        ("http://nergens.example/", "robots"),
    ],
)
async def test_an_address_that_is_not_visited_is_failed(url: str, block: str) -> None:
    async with website() as site, crawler(site) as made:
        outcome = await made.crawl_url(url)
        assert (outcome.status, outcome.block_type, outcome.tier) == (CrawlStatus.FAILED, block, None)
        assert "geheim" not in (outcome.error or "")


async def test_what_robots_disallow_is_failed_and_not_fetched() -> None:
    async with website() as site:
        site.serve("/robots.txt", robots("User-agent: *\nDisallow: /"))
        outcome = await crawled(site, "/a", page(article()))
        assert (outcome.status, outcome.error, outcome.block_type) == ("failed", "disallowed by robots.txt", "robots")
        assert site.pages == []


async def test_wb_01_a_page_that_drips_is_failed_at_the_deadline_and_the_next_is_not_affected() -> None:
    async with website() as site:
        site.serve("/slow", page(article(), drip_s=0.1))
        site.serve("/good", page(article()))
        async with crawler(site, url_deadline_s=0.4) as made:
            slow = await made.crawl_url(site.url + "/slow")
            good = await made.crawl_url(site.url + "/good")
        assert (slow.status, slow.error) == (CrawlStatus.FAILED, "not complete within 0.4 s")
        assert good.status is CrawlStatus.SUCCESS


async def test_a_broken_server_is_a_failed_page_and_nothing_is_raised() -> None:
    async def nonsense(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"\x00\xffHTTP nonsense\r\n\r\n")

    async with website() as site:
        site.raw["/nonsense"] = nonsense
        site.serve("/huge", page("x" * 100, declared=10**12))
        site.serve("/loop", redirect("/loop"))
        site.serve("/short", page("half", declared=100))
        async with crawler(site) as made:
            for path in ("/nonsense", "/huge", "/loop", "/short"):
                assert (await made.crawl_url(site.url + path)).status is CrawlStatus.FAILED, path


async def test_a_crawl_that_is_cancelled_is_cancelled() -> None:
    async with website() as site:
        url = site.serve("/hang", Reply(hang=True))
        async with crawler(site) as made:
            with trio.move_on_after(0.2) as scope:
                await made.crawl_url(url)
            assert scope.cancelled_caught


@pytest.mark.claim("S3-075")
async def test_wb_05_only_good_pages_count_as_what_is_paid_for() -> None:
    """Five URLs, three good: what is billed is counted by ``succeeded``."""
    async with website() as site:
        for path in ("/1", "/2", "/3"):
            site.serve(path, page(article(path)))
        site.serve("/4", page(EMPTY))
        async with crawler(site) as made:
            outcomes = [await made.crawl_url(f"{site.url}/{number}") for number in range(1, 6)]
        assert [outcome.status.value for outcome in outcomes] == ["success"] * 3 + ["empty", "failed"]
        assert sum(outcome.succeeded for outcome in outcomes) == 3
        entry = blob_entry("u", outcomes[4])
        assert entry == {"url": "u", "status": "failed", "content": "", "metadata": {}, "error": "HTTP 404"}


# -- the ladder -------------------------------------------------------------------------------------------------------


async def test_a_page_that_succeeds_asks_no_later_tier() -> None:
    browser = PlayedBrowser(article("Uit de browser"))
    async with website() as site:
        outcome = await crawled(site, "/a", page(article()), browser=browser)
        assert (outcome.tier, browser.asked) == ("static", [])


@pytest.mark.parametrize("reply", [page(EMPTY), page("", status=403), page("{}", content_type="application/json")])
async def test_a_miss_climbs_to_the_browser(reply: Reply) -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", reply, browser=PlayedBrowser(article("Uit de browser")))
        assert (outcome.status, outcome.tier, outcome.error) == (CrawlStatus.SUCCESS, "browser", None)
        assert outcome.result is not None
        assert (outcome.result.title, outcome.result.crawler_type) == ("Uit de browser", "browser")
        assert outcome.block_type is None


async def test_a_shell_climbs_and_what_the_browser_draws_takes_its_place() -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", page(SHELL), browser=PlayedBrowser(article("Getekend")))
        assert outcome.result is not None
        assert (outcome.status, outcome.tier, outcome.result.title) == (CrawlStatus.SUCCESS, "browser", "Getekend")


@pytest.mark.parametrize(
    "browser",
    [
        PlayedBrowser(failure=DownloadFailed("geen browser te starten")),
        PlayedBrowser(EMPTY),
        PlayedBrowser("", 500),
        None,
    ],
)
async def test_the_little_text_of_a_shell_is_kept_when_later_tiers_give_nothing(browser: PlayedBrowser | None) -> None:
    async with website() as site:
        outcome = await crawled(site, "/a", page(SHELL), browser=browser)
        assert outcome.result is not None
        assert (outcome.status, outcome.tier, outcome.result.content) == (CrawlStatus.SUCCESS, "static", "Laden maar")
        assert (outcome.error, outcome.http_status) == (None, 200)
        assert browser is None or browser.asked != []


async def test_no_error_of_a_tier_stops_the_ladder_and_all_are_told() -> None:
    browser = PlayedBrowser(failure=RuntimeError("kapot geheim=1"))
    async with website() as site:
        outcome = await crawled(site, "/a", page("", status=500), browser=browser)
        assert (outcome.status, outcome.error) == (
            CrawlStatus.FAILED,
            "static: HTTP 500; browser: unexpected RuntimeError",
        )
        outcome = await crawled(site, "/a", page(EMPTY), browser=PlayedBrowser(article(), status=500))
        assert (outcome.status, outcome.error) == (CrawlStatus.EMPTY, "static: No content extracted; browser: HTTP 500")


async def test_a_tier_that_is_not_set_up_is_neither_a_fetch_nor_an_error() -> None:
    async with website() as site:
        missing = PlayedBrowser(failure=TierUnavailable())
        assert (await crawled(site, "/a", page("", status=404), browser=missing)).error == "HTTP 404"
        async with crawler(site) as made:
            alone = attrs.evolve(made, tiers=(missing,))
            outcome = await alone.crawl_url(site.url + "/a")
        assert (outcome.status, outcome.error) == (CrawlStatus.FAILED, "no tier is set up that could fetch this")


async def test_what_policy_or_robots_refuse_is_offered_to_no_other_tier() -> None:
    browser = PlayedBrowser(article())
    async with website() as site:
        site.serve("/robots.txt", robots("User-agent: *\nDisallow: /"))
        async with crawler(site, browser=browser) as made:
            assert (await made.crawl_url(site.url + "/a")).block_type == "robots"
            assert (await made.crawl_url("http://169.254.169.254/")).block_type == "policy"
    assert browser.asked == []


# -- many at once -----------------------------------------------------------------------------------------------------


async def test_many_pages_at_once_all_get_their_own_outcome() -> None:
    async with website() as site:
        for number in range(30):
            site.serve(f"/{number}", page(article(f"Pagina {number}")))
        titles: dict[int, str] = {}
        async with crawler(site, host_concurrency=8) as made, trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                outcome = await made.crawl_url(f"{site.url}/{number}")
                titles[number] = outcome.result.title if outcome.result else outcome.error or ""

            for number in range(30):
                nursery.start_soon(one, number)
        assert titles == {number: f"Pagina {number}" for number in range(30)}


async def test_the_url_is_taken_in_any_spelling() -> None:
    async with website() as site:
        site.serve("/caf%C3%A9", page(article()))
        async with crawler(site) as made:
            raw = f"{site.url.upper()}/x/../café#deel"
            outcome = await made.crawl_url(raw)
        assert outcome.status is CrawlStatus.SUCCESS
        assert outcome.result is not None
        assert outcome.result.metadata["loaded_url"] == ascii_url(raw)


# -- at rest ----------------------------------------------------------------------------------------------------------


async def test_the_heavy_libraries_are_not_loaded_before_there_is_something_to_crawl() -> None:
    code = (
        "import sys, actors.ports.crawler, actors.ports.blobs\n"
        "print(*sorted({'trafilatura', 'obstore', 'protego', 'justext'} & set(sys.modules)))"
    )
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True)
    assert done.stdout.strip() == b""


async def test_a_network_that_is_opened_for_tests_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    async with website() as site, crawler(site):
        assert "not public" in capsys.readouterr().out
