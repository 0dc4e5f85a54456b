"""Slow ticks of the process: the oldest snapshot is measured once a minute, and trouble with it is no crash."""

from __future__ import annotations

from actors.housekeeping import Housekeeping
from actors.ports.database import Database
from protocols.failures import DatabaseUnavailable


async def test_the_snapshot_of_a_real_database_is_measured_once_a_minute(database: Database) -> None:
    asked = 0

    async def measure() -> float:
        nonlocal asked
        asked += 1
        return await database.oldest_snapshot_age_s()

    housekeeping = Housekeeping(measure)
    await housekeeping.run_once()
    await housekeeping.run_once()
    assert asked == 1
    assert 0 <= housekeeping.snapshot_age_s < 60


async def test_a_database_that_is_away_is_no_crash() -> None:
    async def measure() -> float:
        raise DatabaseUnavailable("away")

    housekeeping = Housekeeping(measure)
    await housekeeping.run_once()
    assert housekeeping.snapshot_age_s == 0
