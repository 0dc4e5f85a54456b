"""Real harvests of generated laws by two supervisors: each ends exactly once, whatever happens in the middle."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import trio
from attrs import frozen

from supervisor import exitcodes
from tests.faults.arena import END_S, Arena, arena
from tests.faults.checker import Verdict
from tests.faults.ground import Ground
from tests.faults.round import conclude, supervised
from tests.kit.supervisors import Fleet, fleet

UNHURRIED: Mapping[str, str] = {
    "HARVEST_CONCURRENCY": "12",  # those that wait for the remote share a push
    "HARVEST_JOB_TIMEOUT_SECS": "300",
    "WORKER_HEARTBEAT_INTERVAL_SECS": "1",
    "WORKER_ORPHAN_TIMEOUT_SECS": "16",
    "SUPERVISOR_STATEMENT_TIMEOUT_SECS": "10",
}
"""Limits that a busy machine does not touch: without trouble no harvest may be done twice."""
_BATCH = 500


@frozen
class Harvested:
    """``complaints`` are about the trouble itself. ``most_attempts``: of any harvest."""

    laws: int
    verdict: Verdict
    complaints: tuple[str, ...]
    most_attempts: int
    seconds: float


async def kill(playing: Arena) -> list[str]:
    """``kill -9`` of one: its jobs are done after the orphan timeout."""
    playing.seats[0].send(signal.SIGKILL)
    return []


async def terminate(playing: Arena) -> list[str]:
    """SIGTERM while pushes hang, so that it surely holds jobs: exit 0, and no row is held by it any more."""
    (playing.hung / "drain").touch()
    try:
        one = playing.seats[1].current
        assert one is not None
        held = "SELECT 1 FROM jobs WHERE status = 'processing' AND claimed_by LIKE '%:' || $1"
        with trio.fail_after(20):
            while not await playing.sql(held, str(one.pid)):  # noqa: ASYNC110
                await trio.sleep(0.05)
        playing.seats[1].send(signal.SIGTERM)
        code = await one.exit_code(END_S)
        still = await playing.sql(held, str(one.pid))
    finally:
        (playing.hung / "drain").unlink()
    complaints = [] if code == exitcodes.CLEAN else [f"after SIGTERM it left with {code}"]
    return complaints + [f"{len(still)} jobs were not handed back"] * bool(still)


async def restart_database(playing: Arena) -> list[str]:
    with playing.seats[0].excuse("database away"), playing.seats[1].excuse("database away"):
        playing.ground.server.restart()
        await trio.sleep(1)
    return []


TROUBLES: Mapping[str, Callable[[Arena], Awaitable[list[str]]]] = {
    "kill -9": kill,
    "SIGTERM": terminate,
    "database restart": restart_database,
}


def harvest(ground: Ground, folder: Path, laws: int, troubles: Sequence[str] = ()) -> Harvested:
    """From the main thread, outside any loop. ``troubles`` come one after the other, evenly spread over the work."""
    folder.mkdir()
    with ground.fresh() as url, fleet(url, folder) as pods:
        return trio.run(_harvest, ground, pods, laws, troubles)


async def _harvest(ground: Ground, pods: Fleet, laws: int, troubles: Sequence[str]) -> Harvested:
    async with arena(ground, pods, seats=2, seed=0, harvests=laws) as playing:
        for seat in playing.seats:
            seat.environ |= UNHURRIED
        async with supervised(playing):
            for first in range(0, laws, _BATCH):
                await playing.request_harvests(playing.harvests[first : first + _BATCH])
            began, complaints = time.monotonic(), []
            for n, name in enumerate(troubles, start=1):
                await _done(playing, laws * n // (len(troubles) + 1))
                complaints += await TROUBLES[name](playing)
            await playing.settled(120 + laws / 4)
            seconds = time.monotonic() - began
            (most,) = await playing.sql("SELECT max(attempts - releases) AS n FROM jobs")
            verdict = await conclude(playing)
        return Harvested(laws, verdict, tuple(complaints), most["n"], seconds)


async def _done(playing: Arena, number: int) -> None:
    with trio.fail_after(120 + number / 4):
        while (await playing.sql("SELECT count(*)::int AS n FROM jobs WHERE status = 'completed'"))[0]["n"] < number:  # noqa: ASYNC110
            await trio.sleep(0.05)
