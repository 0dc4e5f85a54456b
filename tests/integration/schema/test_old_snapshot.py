"""An old open transaction keeps every dead row version alive; claims must not slow down over them (CL-01)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Any

import pytest
import trio

from tests.kit.jobrows import Rows
from tests.kit.postgres import run_on

BEATS = 2000
CYCLES = 500
P95_S = 0.020


@asynccontextmanager
async def old_snapshot(database_url: str) -> AsyncIterator[None]:
    """Somebody looks at the database as it is now, for the time of the block."""
    looking, done = threading.Event(), threading.Event()

    async def hold(connection: Any) -> None:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("SELECT count(*) FROM jobs")
            looking.set()
            while not done.is_set():
                await connection.execute("SELECT pg_sleep(0.02)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, run_on, database_url, hold)
        await trio.to_thread.run_sync(looking.wait)
        try:
            yield
        finally:
            done.set()


@pytest.mark.time_limit(120)
async def test_claims_stay_fast_over_the_dead_rows_that_an_old_transaction_keeps(rows: Rows, database_url: str) -> None:
    # CL-01: 2000 beats and 500 cycles of claim and completion beside it
    for number in range(20):
        await rows.add(law_id=f"BWBR00000{number:02}")
    held = [job.lease_held for job in (await rows.claim(slots=20)).jobs]
    for number in range(CYCLES):
        await rows.add(law_id=f"BWBR1{number:06}", priority=number % 100)
    took = []
    async with old_snapshot(database_url):
        for _ in range(BEATS // len(held)):
            assert (await rows.queue.beat(held)).confirmed == set(held)
        for _ in range(CYCLES):
            begin = trio.current_time()
            job = await rows.claimed()
            took.append(trio.current_time() - begin)
            await rows.queue.complete(job.lease_held, {"n": 1})
        assert await rows.database.oldest_snapshot_age_s() > sum(took)  # nothing of all that could be cleared away
    assert quantiles(took, n=20)[-1] < P95_S
    assert await rows.value("SELECT count(*) FROM jobs WHERE status = 'completed'") == CYCLES
