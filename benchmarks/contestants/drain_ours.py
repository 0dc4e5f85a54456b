"""Our queue: ``single`` is ten workers that claim one job and complete it, ``batch`` two that hold fifty each.

Single workers use the queue port as supervisors do; completions that come together share a statement. Who holds a batch
completes it and claims the next in one crossing of the bridge (D8), as two transactions. All rows are kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.pgqueue import PgQueue
from benchmarks.contestants import tell
from schema.connection import Connection
from schema.queue.claim import claim
from schema.queue.endings import complete_many
from schema.queue.terms import ClaimAnswer, ClaimRequest, Want
from schema.rows import JobType, Lease

WORKERS = {"single": 10, "batch": 3}
BATCH = 50


def request(slots: int) -> ClaimRequest:
    return ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), slots),))


async def single(queue: PgQueue) -> int:
    """Until nothing is left; how many jobs that were."""
    done = 0
    while jobs := (await queue.claim(request(1))).jobs:
        await queue.complete(jobs[0].lease_held, None)
        done += 1
    return done


async def turn(connection: Connection, held: Mapping[Lease, None]) -> tuple[int, ClaimAnswer]:
    """How many of ``held`` are completed now, and the next ones."""
    done = await complete_many(connection, held) if held else ()
    return len(done), await claim(connection, request(BATCH))


async def batch(database: Database) -> int:
    held: dict[Lease, None] = {}
    done = 0
    while True:
        ended, answer = await database.run(turn, held)
        done += ended
        held = {job.lease_held: None for job in answer.jobs}
        if not held:
            return done


async def main(side: str, url: str, jobs: int) -> None:
    workers = WORKERS[side]
    done: list[int] = []

    async with open_database(DatabaseSettings(url=url, max_connections=workers + 2)) as database:
        queue = PgQueue(database)

        async def worker() -> None:
            done.append(await (single(queue) if side == "single" else batch(database)))

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
