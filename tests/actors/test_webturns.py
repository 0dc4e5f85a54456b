"""Turns at web servers and the keeping of their rules, on a clock of our own."""

from __future__ import annotations

import math

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.ports.webclient import Allowance
from actors.ports.webturns import HostTurns, RobotsCache, RobotsFile, RobotsUnreadable
from protocols.webpolicy import WebRules, WebUrl, parse_url

SITE = parse_url("http://example.com/a", WebRules())


async def starts(
    turns: HostTurns, hosts: list[str], *, busy_s: float = 0.0, delay_s: float = 0.0
) -> dict[str, list[float]]:
    """When each of these requests began, by host; each takes ``busy_s``."""
    begun: dict[str, list[float]] = {host: [] for host in hosts}

    async def one(host: str) -> None:
        turn = await turns.take(host, delay_s)
        begun[host].append(trio.current_time())
        await trio.sleep(busy_s)
        turn.give_back()

    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(one, host)
    return {host: [round(at - begin, 6) for at in times] for host, times in begun.items()}


async def test_one_host_is_asked_once_a_second(autojump_clock: MockClock) -> None:
    assert await starts(HostTurns(1, 16, 1.0), ["a"] * 4) == {"a": [0, 1, 2, 3]}


async def test_a_slow_answer_holds_the_next_request_back(autojump_clock: MockClock) -> None:
    assert await starts(HostTurns(1, 16, 1.0), ["a"] * 3, busy_s=5) == {"a": [0, 5, 10]}


async def test_starts_stay_apart_when_several_requests_may_run(autojump_clock: MockClock) -> None:
    assert await starts(HostTurns(3, 16, 1.0), ["a"] * 4, busy_s=10) == {"a": [0, 1, 2, 10]}


async def test_hosts_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    assert await starts(HostTurns(1, 16, 1.0), ["a", "b", "a", "b"]) == {"a": [0, 1], "b": [0, 1]}


async def test_all_hosts_together_stay_below_the_limit_of_the_process(autojump_clock: MockClock) -> None:
    began = await starts(HostTurns(1, 2, 1.0), ["a", "b", "c", "d"], busy_s=4)
    assert sorted(time for times in began.values() for time in times) == [0, 0, 4, 4]


async def test_the_longer_of_two_delays_counts(autojump_clock: MockClock) -> None:
    assert await starts(HostTurns(1, 16, 1.0), ["a"] * 3, delay_s=7) == {"a": [0, 7, 14]}
    assert await starts(HostTurns(1, 16, 1.0), ["a"] * 3, delay_s=0.5) == {"a": [0, 1, 2]}


async def test_whoever_is_cancelled_while_waiting_leaves_nothing_taken(autojump_clock: MockClock) -> None:
    turns = HostTurns(1, 1, 1.0)
    first = await turns.take("a")
    for host in ("a", "b"):
        with trio.move_on_after(3) as scope:
            await turns.take(host)
        assert scope.cancelled_caught
    first.give_back()
    assert await starts(turns, ["a", "b"]) == {"a": [0], "b": [0]}


async def test_hosts_of_long_ago_are_forgotten(autojump_clock: MockClock) -> None:
    turns = HostTurns(1, 1, 1.0)
    for number in range(2500):
        (await turns.take(f"host{number}")).give_back()
        await trio.sleep(2)
    assert len(turns._hosts) <= 1000


async def test_the_clock_of_a_url_stands_still_while_it_waits(autojump_clock: MockClock) -> None:
    with trio.CancelScope(deadline=trio.current_time() + 10) as scope:
        allowance = Allowance(scope)
        await trio.sleep(4)
        with allowance.waiting():
            assert scope.deadline == math.inf
            await trio.sleep(1000)
        assert scope.deadline == trio.current_time() + 6
        await trio.sleep(100)
    assert scope.cancelled_caught
    assert trio.current_time() == 1010


class Rules:
    """Answers in order, the last for ever, and how often it was asked."""

    def __init__(self, *answers: RobotsFile | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def fetch(self, url: WebUrl) -> RobotsFile:
        self.asked.append(url.text)
        await trio.sleep(1)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_rules_are_kept_for_an_hour_and_per_origin(autojump_clock: MockClock) -> None:
    rules = Rules(RobotsFile(None))
    cache = RobotsCache("agent", rules.fetch)
    for _ in range(3):
        assert (await cache.rules_for(SITE)).allow(SITE.text)
    await cache.rules_for(parse_url("https://example.com/a", WebRules()))
    assert rules.asked == ["http://example.com/robots.txt", "https://example.com/robots.txt"]
    await trio.sleep(3601)
    await cache.rules_for(SITE)
    assert len(rules.asked) == 3


async def test_a_server_in_trouble_is_left_alone_and_asked_again_later(autojump_clock: MockClock) -> None:
    rules = Rules(RobotsUnreadable("HTTP 500"), RobotsFile(None))
    cache = RobotsCache("agent", rules.fetch)
    assert (await cache.rules_for(SITE)).unreadable == "HTTP 500"
    await trio.sleep(500)
    assert not (await cache.rules_for(SITE)).allow(SITE.text)
    await trio.sleep(200)
    assert (await cache.rules_for(SITE)).allow(SITE.text)


async def test_an_asker_that_is_cancelled_does_not_keep_the_others_from_the_rules(autojump_clock: MockClock) -> None:
    rules = Rules(RobotsFile(None))
    cache = RobotsCache("agent", rules.fetch)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def first() -> None:
            with scope:
                await cache.rules_for(SITE)

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        nursery.start_soon(cache.rules_for, SITE)
        await wait_all_tasks_blocked()
        scope.cancel()
    assert len(rules.asked) == 2
