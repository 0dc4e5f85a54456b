"""A pgqueuer worker that waits, listening; another task of the process asks for jobs at uneven moments."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time

import asyncpg
from pgqueuer import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from benchmarks.contestants import tell


async def main(url: str, jobs: int) -> None:
    asking = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await asking.install()
    manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))
    arrived = asyncio.Event()
    picked_up = 0.0

    @manager.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        nonlocal picked_up
        picked_up = time.perf_counter()
        arrived.set()

    dice = random.Random(1)
    waits = []
    worker = asyncio.create_task(manager.run(batch_size=4))
    await asyncio.sleep(2)
    for _ in range(jobs + 10):
        await asyncio.sleep(dice.uniform(0.015, 0.045))
        arrived.clear()
        begin = time.perf_counter()
        await asking.enqueue("nothing", None)
        await asyncio.wait_for(arrived.wait(), 30)
        waits.append(picked_up - begin)
    manager.shutdown.set()
    await worker
    tell(p50_s=statistics.median(waits[10:]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
