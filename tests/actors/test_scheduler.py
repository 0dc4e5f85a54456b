"""The scheduler's clock: a tick a minute, dropped when it comes too late, cut when it takes too long (mock clock)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import pytest
import trio
from attrs import define, field
from structlog.typing import EventDict
from trio.testing import MockClock

from actors.ports.lifecycle import Lifecycle
from actors.scheduler import Scheduler, Tally, TickRule
from protocols.failures import DatabaseUnavailable
from protocols.messages import Phase

START = 1_780_308_010.0
"""Ten seconds past a minute."""
MINUTE = 1_780_308_060.0


@define
class Ticks:
    """What the scheduler calls. ``answers`` are taken one by one; without one a tick finds nothing."""

    begun: list[float] = field(factory=list)
    answers: list[Callable[[], Awaitable[Tally]]] = field(factory=list)

    async def __call__(self) -> Tally:
        self.begun.append(now())
        await trio.lowlevel.checkpoint()
        return await self.answers.pop(0)() if self.answers else Counter()


def now() -> float:
    """The time of day that goes with the mock clock."""
    return START + trio.current_time() - ORIGIN[0]


ORIGIN = [0.0]


@pytest.fixture
async def ticks() -> Ticks:
    ORIGIN[0] = trio.current_time()
    return Ticks()


def scheduler(ticks: Ticks, **rule: float) -> Scheduler:
    lifecycle = Lifecycle()
    lifecycle.advance(Phase.RUNNING)
    return Scheduler(ticks, lifecycle, TickRule(**{"jitter_s": 0, **rule}), now)


async def run_for(actor: Scheduler, seconds: float) -> None:
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            await nursery.start(actor.run)


@pytest.mark.claim("S3-035")
async def test_it_ticks_at_each_minute_of_the_wall_clock(ticks: Ticks, autojump_clock: MockClock) -> None:
    actor = scheduler(ticks)
    await run_for(actor, 200)
    assert ticks.begun == pytest.approx([MINUTE, MINUTE + 60, MINUTE + 120])
    assert actor.ticks == 3


async def test_supervisors_that_share_a_database_do_not_tick_in_the_same_instant(
    ticks: Ticks, autojump_clock: MockClock
) -> None:
    await run_for(scheduler(ticks, jitter_s=5), 3600)
    late = [at - MINUTE - 60 * number for number, at in enumerate(ticks.begun)]
    assert all(0 <= seconds <= 5 for seconds in late)
    assert len({round(seconds, 3) for seconds in late}) > 50


@pytest.mark.claim("S3-088")
async def test_a_tick_that_takes_too_long_is_cut_and_the_next_one_comes_in_time(
    ticks: Ticks, autojump_clock: MockClock
) -> None:
    async def hang() -> Tally:
        await trio.sleep(1000)
        return Counter()

    ticks.answers = [hang]
    actor = scheduler(ticks)
    await run_for(actor, 120)
    assert ticks.begun == pytest.approx([MINUTE, MINUTE + 60])
    assert (actor.cut, actor.ticks) == (1, 1)


async def test_a_tick_that_could_not_begin_in_time_is_dropped_and_none_pile_up(
    ticks: Ticks, autojump_clock: MockClock
) -> None:
    actor = scheduler(ticks)
    await actor.run_once(now() - 51)
    await actor.run_once(now() - 500)
    assert (ticks.begun, actor.dropped) == ([], 2)
    await actor.run_once(now() - 49)
    assert len(ticks.begun) == 1


@pytest.mark.parametrize("error", [DatabaseUnavailable("away"), ValueError("a defect")])
async def test_a_tick_that_fails_is_counted_and_the_next_one_comes(
    ticks: Ticks, autojump_clock: MockClock, said: list[EventDict], error: Exception
) -> None:
    async def fail() -> Tally:
        raise error

    ticks.answers = [fail]
    actor = scheduler(ticks)
    await run_for(actor, 120)
    assert (actor.failed, actor.ticks) == (1, 1)
    assert [line["log_level"] for line in said if line["event"].startswith("tick ")]


async def test_what_ticks_did_is_counted(ticks: Ticks, autojump_clock: MockClock) -> None:
    async def fire() -> Tally:
        return Counter(fired=2, suppressed=1)

    ticks.answers = [fire, fire]
    actor = scheduler(ticks)
    await run_for(actor, 200)
    assert actor.counts == {"fired": 4, "suppressed": 2}


@define
class Meter:
    seen: list[tuple[str, float, dict[str, int]]] = field(factory=list)

    def ticked(self, outcome: str, seconds: float, rows: Mapping[str, int]) -> None:
        self.seen.append((outcome, round(seconds, 3), dict(rows)))


async def test_each_tick_is_metered_with_its_end_its_length_and_what_it_did(
    ticks: Ticks, autojump_clock: MockClock
) -> None:
    async def fire() -> Tally:
        await trio.sleep(2)
        return Counter(fired=2)

    async def hang() -> Tally:
        await trio.sleep(1000)
        return Counter(fired=9)

    async def fail() -> Tally:
        raise DatabaseUnavailable("away")

    ticks.answers = [fire, hang, fail]
    actor = scheduler(ticks)
    actor.meter = meter = Meter()
    await run_for(actor, 200)
    await actor.run_once(now() - 51)
    assert meter.seen == [("done", 2, {"fired": 2}), ("cut", 50, {}), ("failed", 0, {}), ("dropped", 0, {})]


async def test_it_ends_when_the_drain_begins_also_in_the_middle_of_a_tick(
    ticks: Ticks, autojump_clock: MockClock
) -> None:
    actor = scheduler(ticks)

    async def drain() -> Tally:
        actor.lifecycle.advance(Phase.DRAINING)
        await trio.sleep(1000)
        return Counter()

    ticks.answers = [drain]
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            await nursery.start(actor.run)
    assert len(ticks.begun) == 1
