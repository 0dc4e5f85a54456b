"""Slow ticks of the process: snapshot and pauses are read, zombies reaped, and trouble with the database is no crash."""

from __future__ import annotations

import os
import sys
from functools import partial

import trio

from actors.housekeeping import Housekeeping
from actors.ports.adopted import become_subreaper
from actors.ports.database import Database
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from schema import pauses
from schema.pauses import PauseScope
from tests.kit.processes import until, zombies_of


async def test_the_snapshot_of_a_real_database_is_measured_once_a_minute(database: Database) -> None:
    asked = 0

    async def measure() -> float:
        nonlocal asked
        asked += 1
        return await database.oldest_snapshot_age_s()

    housekeeping = Housekeeping(measure, partial(database.run, pauses.paused_names))
    await housekeeping.run_once()
    await housekeeping.run_once()
    assert asked == 1
    assert 0 <= housekeeping.snapshot_age_s < 60


async def test_what_is_paused_is_read_at_every_tick(database: Database) -> None:
    housekeeping = Housekeeping(database.oldest_snapshot_age_s, partial(database.run, pauses.paused_names))
    await housekeeping.run_once()
    seen = [housekeeping.paused]
    await database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest")
    await housekeeping.run_once()
    assert [*seen, housekeeping.paused] == [(), ("harvest",)]


async def test_zombies_that_became_ours_are_reaped_within_two_ticks() -> None:
    # PR-03: double-forked children whose parent has gone; own families know nothing of them
    async def nothing() -> float:
        return 0

    async def none() -> tuple[str, ...]:
        return ()

    code = """
import os, sys, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
"""
    become_subreaper()
    try:
        before = zombies_of(os.getpid())
        await trio.run_process([sys.executable, "-c", code])
        await until(lambda: len(zombies_of(os.getpid()) - before) == 20)
        housekeeping = Housekeeping(nothing, none)
        await housekeeping.run_once()
        await housekeeping.run_once()
        assert zombies_of(os.getpid()) - before == set()
        assert housekeeping.reaped >= 20
    finally:
        become_subreaper(enable=False)


async def test_a_database_that_is_away_is_no_crash() -> None:
    async def measure() -> float:
        raise DatabaseUnavailable("away")

    async def read() -> tuple[str, ...]:
        raise OutcomeUnclear("away")

    housekeeping = Housekeeping(measure, read)
    await housekeeping.run_once()
    assert (housekeeping.snapshot_age_s, housekeeping.paused) == (0, ())
