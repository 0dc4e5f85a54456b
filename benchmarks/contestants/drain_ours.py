"""Our queue: ``single`` is ten workers that each hold one job, ``batch`` two that each hold fifty.

Whoever is done completes its jobs and claims the next in one transaction: one commit a turn. All rows are kept.
"""

from __future__ import annotations

import sys
import time
from typing import Any
from uuid import uuid4

import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from benchmarks.contestants import tell
from schema.queue.terms import ClaimRequest, Want
from schema.queue.turnover import turn_over
from schema.rows import JobType, Lease

LANES = {"single": (10, 1), "batch": (2, 50)}
"""How many workers, and how many jobs each of them claims at once."""


async def work(database: Database, slots: int) -> int:
    """Until nothing is left; how many jobs that were."""
    held: dict[Lease, None] = {}
    done = 0
    while True:
        request = ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), slots),))
        ended, answer = await database.transact(turn_over, held, request)
        done += len(ended)
        held = {job.lease_held: None for job in answer.jobs}
        if not held:
            return done


async def main(side: str, url: str, jobs: int) -> None:
    workers, slots = LANES[side]
    done: list[int] = []

    async def worker() -> None:
        done.append(await work(database, slots))

    async with open_database(DatabaseSettings(url=url, max_connections=workers + 2)) as database:
        await _connect(database, workers)
        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(workers):
                nursery.start_soon(worker)
        took_s = time.perf_counter() - begin
    assert sum(done) == jobs, f"{sum(done)} of {jobs} jobs were done"
    tell(jobs_per_s=jobs / took_s)


async def _connect(database: Database, connections: int) -> None:
    """All connections made before the clock starts."""

    async def nap(connection: Any) -> None:
        await connection.execute("SELECT pg_sleep(0.05)")

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(database.run, nap)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
