"""What is done to supervisors, their database, their lines, disks, remotes and jobs: one function a kind.

Each ends with everything healed. What it leaves to be found by the checker is only what came of the jobs.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

import asyncpg
import trio

from protocols import control
from tests.faults.arena import AWAY, ORPHAN_S, Arena
from tests.faults.plan import Fault
from tests.faults.seats import Seat
from tests.kit.postgres import run_on
from tests.kit.processes import until
from tests.kit.wrong_clock import OFFSET

Injury = Callable[[Arena, Seat, random.Random], Awaitable[None]]

UNITS: Final = (
    "claim.claim",
    "beats.beat",
    "beats.write_progress",
    "beats.cancel_requests",
    "endings.complete",
    "endings.complete_many",
    "endings.release_tokens",
    "endings.standing",
    "endings.status_of",
    "outcomes.complete",
    "outcomes.write",
    "outcomes.fail",
    "outcomes.hand_back",
    "outcomes.reap_one",
    "reap.orphans",
    "tasks.sweep",
    "aftercare.fail_orphans",
)
"""Every unit of work of the queue, but the one that ends a job whose failure the database refused (DB-09): failpoints lie
before and after the commit of each."""

_OFTEN: Final = frozenset({"claim.claim", "beats.beat", "endings.complete", "outcomes.complete", "outcomes.write"})


class Skipped(Exception):
    """This cannot be done here or now; the text says why."""


async def inflict(arena: Arena, fault: Fault) -> None:
    """Do it, to its healed end, and count it."""
    try:
        await KINDS[fault.kind](arena, arena.seats[fault.seat], random.Random(fault.seed))
    except Skipped as reason:
        arena.skipped[fault.kind] = str(reason)
    else:
        arena.inflicted[fault.kind] += 1


# --- supervisors ---------------------------------------------------------------------------------------------------------


async def kill(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await seat.ready()
    seat.send(signal.SIGKILL)


async def terminate(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await seat.ready()
    seat.send(signal.SIGTERM)


async def terminate_twice(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await terminate(arena, seat, random_)
    await trio.sleep(random_.uniform(0.05, 0.8))
    seat.send(signal.SIGTERM)


async def terminate_thrice(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await terminate_twice(arena, seat, random_)
    await trio.sleep(random_.uniform(0.01, 0.1))
    seat.send(signal.SIGINT)


async def freeze(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """SIGSTOP for longer than the orphan timeout: others take its jobs, then it wakes up."""
    seconds = random_.uniform(1.15, 1.5) * ORPHAN_S
    await _hold_some(arena, seat, seconds=seconds + 1)
    await seat.freeze(seconds)


async def wrong_clock(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """The next supervisor of this seat believes that it is an hour earlier or later."""
    seat.orders[OFFSET] = str(random_.choice([-3600, 3600]))
    await terminate(arena, seat, random_)
    await trio.sleep(1)
    await seat.ready()


async def before_a_commit(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _failpoint(arena, seat, random_, "before")


async def after_a_commit(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _failpoint(arena, seat, random_, "after")


async def _failpoint(arena: Arena, seat: Seat, random_: random.Random, moment: str) -> None:
    """The next supervisor of this seat is killed, or loses its connection, at a commit; and is brought to come by there."""
    unit = UNITS[arena.seed % len(UNITS)]
    how = random_.choice(["kill", "kill", "cut"])
    nth = random_.randint(1, 6) if unit in _OFTEN else 1
    point = f"{unit}.{moment}:{nth}:{how}"
    seat.orders |= {"FAILPOINT": point, "PLANNED": "KILL" if how == "kill" else ""}
    await terminate(arena, seat, random_)
    with trio.move_on_after(15):
        await until(lambda: seat.failpoint == point, limit_s=60)
        one = seat.current  # which may come by there before it is ready
        assert one is not None
        await seat.ready()
        await _PROVOKE.get(unit, _wait)(arena, seat, random_)
        while not one.said("failpoint"):  # noqa: ASYNC110 - a process and its log
            await trio.sleep(0.2)
        return
    raise Skipped(f"nobody came by {point} in time")


async def _wait(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """Comes by itself."""


async def _fail_some(arena: Arena, seat: Seat, random_: random.Random) -> None:
    for _ in range(4 * len(arena.seats)):
        await arena.extra({"seconds": 0.1, "fail": "permanent"})


async def _complete_some(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """Enough for every seat to pass by as often as a failpoint may wait for."""
    for _ in range(8 * len(arena.seats)):
        await arena.extra({"seconds": 0.2, "settle": True})
        await arena.extra({"seconds": 0.2})


async def _interrupt_it(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """It holds jobs when it is told to go."""
    await _hold_some(arena, seat)
    seat.send(signal.SIGTERM)
    await trio.sleep(0.2)
    seat.send(signal.SIGTERM)


async def _leave_orphans(arena: Arena, seat: Seat, random_: random.Random) -> None:
    neighbour = arena.seats[seat.number - 1]
    await _hold_some(arena, neighbour)
    neighbour.send(signal.SIGKILL)


async def _lose_answers(arena: Arena, seat: Seat, random_: random.Random) -> None:
    with _away([seat]):
        for _ in range(6):
            await trio.sleep(random_.uniform(0.3, 0.8))
            seat.line.cut()
            await trio.sleep(0.05)
            seat.line.heal()


async def _hold_some(arena: Arena, seat: Seat, seconds: float = 3) -> None:
    """Jobs for this seat to lose. Some work for so long, and whoever is not told of the loss is seen at work too long.

    Others end soon, so that their last write is under way when nothing passes, and lands when somebody else has the job.
    """
    one = await seat.ready()
    for _ in range(len(arena.seats)):
        await arena.extra({"seconds": seconds, "until_attempt": 1})
        await arena.extra({"seconds": seconds, "until_attempt": 1, "child": True})
        await arena.extra({"seconds": 1, "until_attempt": 1, "later": 6})
        await arena.extra({"seconds": 1, "until_attempt": 1, "later": 6, "settle": True})
    held = "SELECT 1 FROM jobs WHERE status = 'processing' AND claimed_by LIKE '%:' || $1"
    with trio.move_on_after(5):
        while not await arena.sql(held, str(one.pid)):  # noqa: ASYNC110 - a database that others work on
            await trio.sleep(0.05)


# --- the database --------------------------------------------------------------------------------------------------------


async def stop_fast(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_server(arena, arena.ground.server.stop, outage_s(random_))


async def stop_at_once(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_server(arena, arena.ground.crash, outage_s(random_))


async def kill_server(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_server(arena, arena.ground.server.kill, outage_s(random_))


async def restart_server(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_server(arena, arena.ground.server.stop, 0)


async def _without_server(arena: Arena, end: Callable[[], None], seconds: float) -> None:
    async with arena.server_busy:
        with _away(arena.seats):
            end()
            try:
                await trio.sleep(seconds)
            finally:
                arena.ground.server.start()
            await trio.sleep(0.5)  # who was starting just then may still say that there is none


async def end_backend(arena: Arena, seat: Seat, random_: random.Random) -> None:
    with _away(arena.seats):
        await arena.sql(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name LIKE 'regelrecht%' ORDER BY random() LIMIT 1) AS victim"
        )


async def lock_the_table(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """Nobody gets at the queue: every pooled connection waits until its statement is stopped, and the pool is exhausted."""
    seconds = random_.uniform(0.5, 1.1) * ORPHAN_S

    async def hold(connection: Any) -> None:
        async with connection.transaction():
            await connection.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
            await connection.execute("SELECT pg_sleep($1)", seconds)

    with suppress(*AWAY):
        await trio.to_thread.run_sync(run_on, arena.fleet.database_url, hold)


async def crowd(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """The server has no connection to give, and some that the supervisors had are gone."""

    async def take_all(_: Any) -> None:
        crowd_: list[Any] = []
        try:
            for _round in range(20):
                with suppress(*AWAY):
                    while True:
                        crowd_.append(await asyncpg.connect(arena.fleet.database_url, timeout=2))
                await crowd_[0].execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'regelrecht%' "
                    "ORDER BY random() LIMIT 2"
                )
                await crowd_[0].execute("SELECT pg_sleep(0.1)")
        finally:
            for one in crowd_:
                one.terminate()

    with _away(arena.seats), suppress(*AWAY):
        await trio.to_thread.run_sync(run_on, arena.fleet.database_url, take_all)


# --- one line ------------------------------------------------------------------------------------------------------------


async def cut_line(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_line(arena, seat, seat.line.cut, random_)


async def stall_line(arena: Arena, seat: Seat, random_: random.Random) -> None:
    await _without_line(arena, seat, seat.line.stall, random_)


async def _without_line(arena: Arena, seat: Seat, hurt: Callable[[], None], random_: random.Random) -> None:
    seconds = outage_s(random_)
    if seconds > ORPHAN_S:
        await _hold_some(arena, seat, seconds=seconds + 1)
    with _away([seat]):
        hurt()
        try:
            await trio.sleep(seconds)
        finally:
            seat.line.heal()
        await trio.sleep(0.5)


def outage_s(random_: random.Random) -> float:
    """Short, or so long that others take over."""
    return random_.choice([random_.uniform(0.2, 3), random_.uniform(1.15, 1.6) * ORPHAN_S])


@contextmanager
def _away(seats: list[Seat]) -> Iterator[None]:
    with ExitStack() as stack:
        for seat in seats:
            stack.enter_context(seat.excuse("database away"))
        yield


# --- disk and remote -----------------------------------------------------------------------------------------------------


async def fill_disk(arena: Arena, seat: Seat, random_: random.Random) -> None:
    if not seat.disk.mounted:
        raise Skipped("no small file system can be mounted here")
    with seat.excuse("disk full"):
        seat.disk.fill()
        try:
            await trio.sleep(random_.uniform(1, 5))
        finally:
            seat.disk.clear()
        await trio.sleep(1)


async def hang_pushes(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """The remote takes pushes and does not answer, sometimes for longer than a job may take."""
    flag = arena.hung / str(time.monotonic_ns())
    flag.touch()
    try:
        await trio.sleep(random_.uniform(1, 2 * ORPHAN_S))
    finally:
        flag.unlink()


# --- jobs ----------------------------------------------------------------------------------------------------------------


async def deaf_agent(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """A child that no SIGTERM ends: its job runs into its limit."""
    await arena.extra({"child": "deaf", "seconds": 60, "until_attempt": 1})


async def grandchildren(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """A child that ends and leaves somebody with its pipe."""
    await arena.extra({"child": "leaves"})


async def block_loop(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """A job holds the loop: 20 of 300 s, or for longer than the orphan timeout."""
    seconds = random_.choice([ORPHAN_S / 15, 1.2 * ORPHAN_S])
    await arena.extra({"block": True, "seconds": seconds, "until_attempt": 1})


async def cancel_job(arena: Arena, seat: Seat, random_: random.Random) -> None:
    """What ``jobs cancel`` does, to some running job."""
    asked: list[dict[str, Any]] = []
    with trio.move_on_after(10):
        while not asked:
            found = await arena.sql(
                "SELECT id FROM jobs WHERE status = 'processing' AND job_type = 'probe' ORDER BY md5(id::text || $1) LIMIT 1",
                str(random_.random()),
            )
            if found:
                arena.cancelled.add(found[0]["id"])  # before it is asked: the answer may be lost, the request not
                asked = await arena.sql(
                    "UPDATE jobs SET cancel_requested_at = now() WHERE id = $1 AND status = 'processing' RETURNING id",
                    found[0]["id"],
                )
            await trio.sleep(0.02)
    if not asked:
        raise Skipped("no job ran")
    hint = control.render(control.CancelHint(asked[0]["id"]))
    await arena.sql("SELECT pg_notify($1, $2)", control.CHANNEL, hint)


_PROVOKE: Mapping[str, Injury] = {
    "endings.complete": _complete_some,
    "endings.complete_many": _complete_some,
    "outcomes.complete": _complete_some,
    "outcomes.fail": _fail_some,
    "outcomes.hand_back": _interrupt_it,
    "outcomes.reap_one": _leave_orphans,
    "beats.cancel_requests": cancel_job,
    "endings.release_tokens": _lose_answers,
    "endings.standing": _lose_answers,
    "endings.status_of": _lose_answers,
}

KINDS: Mapping[str, Injury] = MappingProxyType(
    {
        "SIGKILL": kill,
        "SIGTERM": terminate,
        "SIGTERM twice": terminate_twice,
        "SIGTERM thrice": terminate_thrice,
        "SIGSTOP past the orphan timeout": freeze,
        "clock wrong by an hour": wrong_clock,
        "failpoint before a commit": before_a_commit,
        "failpoint after a commit": after_a_commit,
        "PostgreSQL fast stop": stop_fast,
        "PostgreSQL immediate stop": stop_at_once,
        "PostgreSQL kill -9": kill_server,
        "PostgreSQL restart": restart_server,
        "backend terminated": end_backend,
        "pool exhausted": lock_the_table,
        "no connection to be had": crowd,
        "connection cut": cut_line,
        "connection stalled": stall_line,
        "disk full": fill_disk,
        "push hung": hang_pushes,
        "agent deaf to SIGTERM": deaf_agent,
        "grandchild holds the pipe": grandchildren,
        "loop blocked": block_loop,
        "job cancelled": cancel_job,
    }
)
