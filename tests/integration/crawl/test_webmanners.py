"""What a site may ask of a crawler: rules for robots, distance between requests."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from actors.ports.webclient import Allowance, RobotsDisallowed
from tests.kit.bwb_server import Reply
from tests.kit.webfetching import allowance, client, fetched
from tests.kit.website import article, page, redirect, robots, website

PAGE = article().encode()


# -- robots -----------------------------------------------------------------------------------------------------------


STAY_AWAY = (
    "User-agent: *\nDisallow: /privé/\nDisallow: /*.pdf$\nAllow: /priv%C3%A9/open\n\nUser-agent: ander\nDisallow: /\n"
)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        *(("/", True), ("/privé/x", False), ("/priv%C3%A9/x", False), ("/open/../privé/x", False), ("/a.pdf", False)),
        *(("/a.pdfs", True), ("/privé/open", True), ("/robots.txt", True)),
    ],
)
async def test_the_rules_of_a_site_are_kept(path: str, allowed: bool) -> None:
    async with website() as site:
        site.serve("/robots.txt", robots(STAY_AWAY))
        if allowed:
            await fetched(site, site.url + path)
        else:
            with pytest.raises(RobotsDisallowed, match=r"^disallowed by robots.txt$"):
                await fetched(site, site.url + path)
            assert site.pages == []


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        (robots("User-agent: *\nDisallow: /", 404), True),
        (robots("User-agent: *\nDisallow: /", 403), True),
        (robots("", 500), False),
        (robots("", 503), False),
        (Reply(hang=True), False),
        (Reply(hang_up=True), False),
        (robots("User-agent: *\nAllow: /\n" * 40_000), False),
        (robots("\x00\xff<html>geen regels</html>"), True),
        (redirect("http://10.0.0.1/robots.txt"), False),
        (redirect("/elders"), False),
    ],
)
async def test_what_counts_when_the_rules_cannot_be_had(reply: Reply, allowed: bool) -> None:
    async with website() as site:
        site.serve("/robots.txt", reply)
        site.serve("/elders", robots("User-agent: *\nDisallow: /a"))
        url = site.serve("/a", page("x"))
        if allowed:
            assert (await fetched(site, url)).body == b"x"
        else:
            with pytest.raises(RobotsDisallowed):
                await fetched(site, url, robots_deadline_s=0.3)
            assert site.asked("/a") == []


async def test_a_short_trouble_with_the_rules_does_not_close_a_site() -> None:
    async with website() as site:
        site.serve("/robots.txt", Reply(hang_up=True), robots("", 503), robots(""))
        assert (await fetched(site, site.serve("/a", page("x")))).body == b"x"


async def test_rules_for_us_by_name_win_over_those_for_all() -> None:
    async with website() as site:
        site.serve(
            "/robots.txt", robots("User-agent: *\nDisallow: /\n\nUser-agent: regelrecht-supervisor\nDisallow: /x")
        )
        site.serve("/a", page("x"))
        assert (await fetched(site, site.url + "/a", user_agent="regelrecht-supervisor/9")).body == b"x"


async def test_rules_are_asked_for_once_however_many_ask() -> None:
    async with website() as site:
        site.serve("/robots.txt", robots("User-agent: *\nAllow: /"))
        async with client(site, host_concurrency=8) as web, trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(web.fetch, site.serve(f"/{number}", page("x")), allowance())
        assert site.targets.count("/robots.txt") == 1


async def test_each_new_origin_of_a_redirect_chain_gets_its_robots_check() -> None:
    """D71."""
    async with website() as first, website() as second:
        second.serve("/robots.txt", robots("User-agent: *\nDisallow: /"))
        second.serve("/b", page("x"))
        first.serve("/a", redirect(f"{second.url}/b"))
        with pytest.raises(RobotsDisallowed):
            await fetched(first, first.url + "/a", rules={"ports": {first.port, second.port}})
        assert (first.pages, second.pages) == (["/a"], [])


async def test_rules_can_be_switched_off() -> None:
    async with website() as site:
        site.serve("/robots.txt", robots("User-agent: *\nDisallow: /"))
        assert (await fetched(site, site.serve("/a", page("x")), obey_robots=False)).body == b"x"
        assert site.targets == ["/a"]


# -- manners ----------------------------------------------------------------------------------------------------------


async def test_requests_to_one_host_come_one_at_a_time_and_spaced_whatever_its_port() -> None:
    async with website() as site, website() as other:
        async with client(site, host_delay_s=0.1, rules={"ports": {site.port, other.port}}) as web:
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    server = site if number % 2 else other
                    nursery.start_soon(web.fetch, server.serve(f"/{number}", page(article())), allowance())
        times = sorted(request.at for request in (*site.requests, *other.requests))
        assert len(times) == 6  # four pages, two sets of rules
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.08
        assert max(site.most_at_once, other.most_at_once) == 1


async def test_a_delay_that_the_site_asks_for_is_kept() -> None:
    async with website() as site:
        site.serve("/robots.txt", robots("User-agent: *\nCrawl-delay: 0.3"))
        async with client(site) as web:
            for path in ("/a", "/b"):
                await web.fetch(site.serve(path, page("x")), allowance())
        (first,), (second,) = site.asked("/a"), site.asked("/b")
        assert second.at - first.at >= 0.29


async def test_waiting_for_a_turn_does_not_use_up_the_time_of_a_url() -> None:
    """D71: the deadline starts after the host limiter."""
    async with website() as site:
        async with client(site, host_delay_s=0.3) as web, trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                with trio.fail_after(0.5) as scope:
                    await web.fetch(site.serve(f"/{number}", page("x")), Allowance(scope))

            for number in range(4):
                nursery.start_soon(one, number)
        assert len(site.pages) == 4
