"""pgqueuer with batches of 50: a worker, jobs that do nothing; it moves rows that are done to a log table, and keeps them."""

from __future__ import annotations

import asyncio
import sys
import time

import asyncpg
from pgqueuer import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from benchmarks.contestants import tell

BATCH = 50


async def main(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)
    await connection.execute("ANALYZE")
    manager = QueueManager(queries)
    ran: list[float] = []

    @manager.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        ran.append(time.perf_counter())

    await manager.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    assert len(ran) == jobs
    tell(jobs_per_s=jobs / (ran[-1] - ran[0]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
