"""Fetching pages from a site on loopback that misbehaves: limits, redirects, retries."""

from __future__ import annotations

import gzip
import random
import socket
import tracemalloc
import zlib

import pytest
import trio

from actors.ports.crawlsettings import CrawlSettings, proxy_of
from actors.ports.webclient import Allowance, RedirectRefused, RobotsDisallowed, open_web
from protocols.downloads import (
    DownloadFailed,
    DownloadTimedOut,
    DownloadTruncated,
    RedirectLoop,
    TooLarge,
    UnknownEncoding,
)
from protocols.failures import InvalidInput
from tests.kit.bwb_server import Reply
from tests.kit.webfetching import allowance, client, fetched
from tests.kit.website import Names, article, crawl_settings, page, redirect, robots, to_loopback, website

PAGE = article().encode()


# -- what goes right --------------------------------------------------------------------------------------------------


@pytest.mark.claim("C-007")
async def test_a_page_arrives_and_the_request_says_who_asks_and_nothing_more() -> None:
    async with website() as site:
        url = site.serve("/a", page(article(), headers={"set-cookie": "id=1; Path=/"}))
        site.serve("/b", page("b"))
        async with client(site, user_agent="regelrecht-supervisor/1.2.3 (+https://example.com/bot)") as web:
            got = await web.fetch(url, allowance())
            await web.fetch(site.url + "/b", allowance())
        assert (got.status, got.body, got.url.text) == (200, PAGE, url)
        headers = site.asked("/b")[0].headers
        assert headers["user-agent"] == "regelrecht-supervisor/1.2.3 (+https://example.com/bot)"
        assert headers["accept-encoding"] == "gzip, deflate"  # WB-02: no br, no zstd
        assert not {"cookie", "referer", "authorization"} & set(headers)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("gzip", gzip.compress(PAGE)), ("deflate", zlib.compress(PAGE)), ("identity", PAGE)],
)
async def test_packed_pages_are_unpacked(encoding: str, packed: bytes) -> None:
    async with website() as site:
        url = site.serve("/a", page(packed, headers={"content-encoding": encoding}))
        assert (await fetched(site, url)).body == PAGE


@pytest.mark.parametrize("changes", [{"chunked": True}, {"until_close": True}])
async def test_every_way_of_ending_a_body_is_read(changes: dict[str, bool]) -> None:
    async with website() as site:
        assert (await fetched(site, site.serve("/a", page(article(), **changes)))).body == PAGE


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 500, 304])
async def test_an_error_status_is_told_and_its_body_not_read(status: int) -> None:
    async with website() as site:
        got = await fetched(site, site.serve("/a", page(article(), status=status)))
        assert (got.status, got.body, len(site.pages)) == (status, b"", 1)


# -- sizes and times --------------------------------------------------------------------------------------------------


async def test_wb_02_a_bomb_of_a_gigabyte_is_refused_in_little_memory() -> None:
    bomb = gzip.compress(bytes(64 << 20), 1) * 16  # members of one file
    async with website() as site:
        url = site.serve("/bomb", page(bomb, headers={"content-encoding": "gzip"}))
        async with client(site) as web:
            tracemalloc.start()
            with pytest.raises(TooLarge):
                await web.fetch(url, allowance())
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peak < (10 << 20) + (64 << 20)


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, br", "compress"])
async def test_wb_02_a_packing_that_was_not_offered_is_refused(packing: str) -> None:
    async with website() as site:
        with pytest.raises(UnknownEncoding):
            await fetched(site, site.serve("/a", page("x", headers={"content-encoding": packing})))


async def test_the_wire_and_the_unpacked_page_have_limits_of_their_own() -> None:
    noise = random.Random(1).randbytes(20_000)
    async with website() as site:
        site.serve("/plain", page(noise, chunked=True))
        site.serve("/announced", page(noise))
        site.serve("/packed", page(gzip.compress(b"regel\n" * 5_000), headers={"content-encoding": "gzip"}))
        async with client(site, max_raw_bytes=10_000, max_bytes=25_000) as web:
            for path in ("/plain", "/announced", "/packed"):
                with pytest.raises(TooLarge):
                    await web.fetch(site.url + path, allowance())
        assert len((await fetched(site, site.url + "/packed", max_raw_bytes=10_000)).body) == 30_000


async def test_a_body_without_end_is_left_at_the_limit() -> None:
    async def endless(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
        while True:
            await stream.send_all(b"x" * 65536)

    async with website() as site:
        site.raw["/endless"] = endless
        with pytest.raises(TooLarge):
            await fetched(site, site.url + "/endless", max_raw_bytes=1 << 20)


async def test_headers_without_end_are_refused() -> None:
    async def flood(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n")
        while True:
            await stream.send_all(b"x-filler: " + b"y" * 1000 + b"\r\n")

    async with website() as site:
        site.raw["/flood"] = flood
        with pytest.raises(DownloadFailed):
            await fetched(site, site.url + "/flood")
        url = site.serve("/large", page("x", headers={f"x-{number}": "y" * 1000 for number in range(70)}))
        with pytest.raises(TooLarge, match="headers"):
            await fetched(site, url)


async def test_wb_01_a_server_that_drips_is_left_at_the_deadline() -> None:
    """Each byte comes well within the read timeout, so only a limit for the whole helps."""
    async with website() as site:
        url = site.serve("/slow", page(article(), drip_s=0.05))
        async with client(site) as web:
            with trio.CancelScope(deadline=trio.current_time() + 0.5) as scope:
                await web.fetch(url, Allowance(scope))
            assert scope.cancelled_caught
            assert (await web.fetch(site.serve("/fast", page("x")), allowance())).body == b"x"


async def test_a_head_that_drips_is_left_at_the_deadline() -> None:
    async def slowloris(stream: trio.abc.Stream) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x-more: y\r\n" * 1000:
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.02)

    async with website() as site:
        site.raw["/slow"] = slowloris
        async with client(site) as web:
            with trio.CancelScope(deadline=trio.current_time() + 0.4) as scope:
                await web.fetch(site.url + "/slow", Allowance(scope))
            assert scope.cancelled_caught


async def test_a_server_that_says_nothing_is_left_after_the_read_timeout() -> None:
    async with website() as site:
        url = site.serve("/hang", Reply(hang=True))
        with pytest.raises(DownloadTimedOut):
            await fetched(site, url, read_timeout_s=0.1, retry_pauses_s=())


async def test_a_body_that_ends_early_or_is_damaged_is_no_page() -> None:
    async with website() as site:
        site.serve("/short", page("half", declared=100))
        site.serve("/damaged", page(gzip.compress(PAGE)[:-9], headers={"content-encoding": "gzip"}))
        for path in ("/short", "/damaged"):
            with pytest.raises(DownloadTruncated):
                await fetched(site, site.url + path)


async def test_what_is_said_about_a_failure_does_not_repeat_the_url() -> None:
    async with website() as site:
        site.serve("/a", page("half", declared=100))
        with pytest.raises(DownloadTruncated) as caught:
            await fetched(site, f"{site.url}/a?token=geheim")
        assert "geheim" not in str(caught.value)
        assert "geheim" not in repr(caught.value.details)


# -- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_and_the_last_address_is_told(status: int) -> None:
    async with website() as site:
        site.serve("/a", redirect("b?x=1#part", status))
        site.serve("/b", page("hier"))
        got = await fetched(site, site.url + "/a")
        assert (got.body, got.url.text) == (b"hier", f"{site.url}/b?x=1")


async def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    async with website() as site:
        for number in range(6):
            site.serve(f"/{number}", redirect(f"/{number + 1}"))
        site.serve("/6", page("einde"))
        assert (await fetched(site, site.url + "/1")).body == b"einde"
        with pytest.raises(RedirectLoop, match="more than 5"):
            await fetched(site, site.url + "/0")


async def test_a_circle_is_left_where_it_closes() -> None:
    async with website() as site:
        site.serve("/a", redirect("/b"))
        site.serve("/b", redirect("/a"))
        with pytest.raises(RedirectLoop, match="circle"):
            await fetched(site, site.url + "/a")
        assert site.pages == ["/a", "/b"]


@pytest.mark.parametrize(
    "location", ["http://[", "http://a b/", "http://%ff/", "?" + "x" * 3000, "http://ex ample:99999/"]
)
async def test_a_redirect_to_nonsense_is_refused(location: str) -> None:
    async with website() as site:
        with pytest.raises(RedirectRefused):
            await fetched(site, site.serve("/a", redirect(location)))


async def test_an_empty_redirect_is_a_circle() -> None:
    async with website() as site:
        with pytest.raises(RedirectLoop):
            await fetched(site, site.serve("/a", redirect("")))


# -- tried again ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_passing_trouble_is_tried_again(status: int) -> None:
    async with website() as site:
        url = site.serve("/a", page("", status=status), page("", status=status), page("goed"))
        assert (await fetched(site, url)).body == b"goed"


async def test_two_retries_are_the_end() -> None:
    async with website() as site:
        got = await fetched(site, site.serve("/a", page("", status=503)))
        assert (got.status, len(site.pages)) == (503, 3)


async def test_a_connection_that_breaks_is_tried_again() -> None:
    async with website() as site:
        url = site.serve("/a", Reply(hang_up=True), page("goed"))
        assert (await fetched(site, url)).body == b"goed"
        with pytest.raises(DownloadFailed):
            await fetched(site, site.serve("/b", Reply(hang_up=True)))
        assert len(site.asked("/b")) == 3


async def test_retry_after_is_waited_for_and_too_long_a_wait_is_not() -> None:
    async with website() as site:
        url = site.serve("/a", page("", status=503, headers={"retry-after": "1"}), page("goed"))
        assert (await fetched(site, url)).body == b"goed"
        first, second = site.asked("/a")
        assert second.at - first.at >= 1.0
        site.serve("/b", page("", status=429, headers={"retry-after": "31"}))
        assert (await fetched(site, site.url + "/b")).status == 429
        assert len(site.asked("/b")) == 1


async def test_a_closed_port_and_an_unknown_name_are_failures_with_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with website() as site, client(site, rules={"ports": {port}}) as web:
        with pytest.raises(RobotsDisallowed, match=r"robots.txt could not be read: .*connect"):
            await web.fetch(f"http://127.0.0.1:{port}/", allowance())
        with pytest.raises(RobotsDisallowed, match="the name cannot be resolved"):
            await web.fetch(f"http://nergens.example:{port}/", allowance())


# -- who is asked -----------------------------------------------------------------------------------------------------


async def test_the_name_stays_in_the_request_when_the_address_is_dialled() -> None:
    async with website() as site:
        site.serve("/a", page("x"))
        url = f"http://www.Voorbeeld.example:{site.port}/a"
        await fetched(site, url, resolve=to_loopback("www.voorbeeld.example"))
        assert site.asked("/a")[0].headers["host"] == f"www.voorbeeld.example:{site.port}"


async def test_the_next_address_of_a_name_is_tried_when_the_first_does_not_answer() -> None:
    async with website() as site:
        names = Names()
        names.point("twee.example", ["127.0.0.9", "127.0.0.1"])
        site.serve("/a", page("x"))
        got = await fetched(site, f"http://twee.example:{site.port}/a", resolve=names.resolve)
        assert got.body == b"x"


async def test_the_system_resolver_is_used_in_earnest() -> None:
    async with website() as site, open_web(crawl_settings(site.port)) as web:
        assert (await web.fetch(site.serve("/a", page("x")), allowance())).body == b"x"


# -- proxies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "http_proxy"])
def test_a_proxy_of_the_environment_stops_the_crawler_unless_it_is_trusted(name: str) -> None:
    """D71: through a proxy nobody here sees which addresses are reached."""
    proxy = proxy_of({name: "http://user:geheim@proxy.corp:3128"})
    with pytest.raises(InvalidInput, match="CRAWL_PROXY_TRUSTED=1") as caught:
        CrawlSettings(proxy_url=proxy)
    assert "geheim" not in str(caught.value)
    settings = CrawlSettings(proxy_url=proxy, proxy_trusted=True)
    assert "geheim" not in repr(settings)
    assert proxy_of({name: "", "NO_PROXY": "*"}) is None


async def test_a_trusted_proxy_makes_the_connection() -> None:
    async with website() as proxy:
        proxy.replies["http://www.voorbeeld.example/a"] = [page("via de proxy")]
        proxy.replies["http://www.voorbeeld.example/robots.txt"] = [robots("")]
        names = Names()
        settings = crawl_settings(proxy_url=proxy.url.replace("//", "//piet:geheim@"), proxy_trusted=True)
        async with open_web(settings, resolve=names.resolve) as web:
            got = await web.fetch("http://www.voorbeeld.example/a", allowance())
        assert got.body == b"via de proxy"
        assert names.asked == []
        assert proxy.requests[-1].headers["proxy-authorization"].startswith("Basic ")


async def test_a_proxy_in_the_environment_is_not_used_behind_our_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with website() as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        assert (await fetched(site, site.serve("/a", page("x")))).body == b"x"
