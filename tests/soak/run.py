"""Two supervisors under faults: one is hurt in every way but killed, and watched; the other may die at any time."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Final

import trio
from attrs import define, field, frozen

from tests.faults.arena import Arena, arena
from tests.faults.checker import Verdict
from tests.faults.ground import Ground
from tests.faults.injuries import KINDS, inflict
from tests.faults.plan import Fault
from tests.faults.round import conclude, supervised
from tests.faults.seats import Seat
from tests.kit.supervisors import Fleet, fleet
from tests.soak.samples import Sample, sample

DEADLY: Final = frozenset(
    {
        "SIGKILL",
        "SIGTERM",
        "SIGTERM twice",
        "SIGTERM thrice",
        "clock wrong by an hour",
        "failpoint before a commit",
        "failpoint after a commit",
        "disk full",  # the breaker ends a supervisor that meets it five times in a row (D13)
    }
)
"""What a supervisor need not survive: only the other one gets it."""
SAMPLE_S = 2.0
REST_S = 6.0
PAUSE_S = (1.0, 6.0)


@frozen
class Soaked:
    """``rest`` is the watched supervisor with nothing to do: before the first job, and after the last one."""

    samples: tuple[Sample, ...]
    rest: tuple[Sample, Sample]
    faults: tuple[float, ...]
    inflicted: Counter[str]
    verdict: Verdict
    restarted: bool
    """The watched supervisor ended, which it must not."""


def soak(ground: Ground, folder: Path, minutes: float, seed: int) -> Soaked:
    """From the main thread, outside any loop."""
    folder.mkdir()
    with ground.fresh() as url, fleet(url, folder) as pods:
        return trio.run(_soak, ground, pods, minutes, seed)


@define
class _Watch:
    """Measures the supervisor of one seat."""

    playing: Arena
    seat: Seat
    began: float = field(factory=time.monotonic)
    samples: list[Sample] = field(factory=list)

    async def run(self) -> None:
        while True:
            self.samples.append(await self.look())
            await trio.sleep(SAMPLE_S)

    async def look(self) -> Sample:
        one = await self.seat.ready()
        (line, *_) = [line for line in one.lines() if line.get("event") == "health endpoint"]
        url = str(line["urls"][0]).replace("0.0.0.0", "127.0.0.1")
        at_s = time.monotonic() - self.began
        return await trio.to_thread.run_sync(sample, one.pid, url, self.seat.line.connections, at_s)


async def _soak(ground: Ground, pods: Fleet, minutes: float, seed: int) -> Soaked:
    async with arena(ground, pods, seats=2, seed=seed, harvests=1000) as playing:
        watched = playing.seats[0]
        watched.environ["HEALTH_PORT"] = "0"
        async with supervised(playing):
            pid = (await watched.ready()).pid
            watch, faults = _Watch(playing, watched), list[float]()
            await trio.sleep(REST_S)
            before = await watch.look()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch.run)
                nursery.start_soon(playing.feed)
                with trio.move_on_after(60 * minutes):
                    await _hurt(playing, random.Random(seed), watch.began, faults)
                nursery.cancel_scope.cancel()
            await playing.settled(120)
            await trio.sleep(REST_S)
            after = await watch.look()
            restarted = (await watched.ready()).pid != pid
            verdict = await conclude(playing)
    return Soaked(tuple(watch.samples), (before, after), tuple(faults), playing.inflicted, verdict, restarted)


async def _hurt(playing: Arena, random_: random.Random, began: float, faults: list[float]) -> None:
    """One fault after the other, each to its healed end even when the time is over."""
    while True:
        kind = random_.choice(sorted(KINDS))
        seat = 1 if kind in DEADLY else random_.randrange(2)
        with trio.CancelScope(shield=True):
            faults.append(time.monotonic() - began)
            await inflict(playing, Fault(0, kind, seat, random_.getrandbits(32)))
        await trio.sleep(random_.uniform(*PAUSE_S))
