"""A procrastinate worker that waits, listening; another task of the process asks for jobs at uneven moments."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time

import procrastinate

from benchmarks.contestants import tell


async def main(url: str, jobs: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=4))
    arrived = asyncio.Event()
    picked_up = 0.0

    @app.task(name="nothing")
    async def nothing() -> None:
        nonlocal picked_up
        picked_up = time.perf_counter()
        arrived.set()

    dice = random.Random(1)
    waits = []
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(concurrency=4, install_signal_handlers=False))
        await asyncio.sleep(2)
        for _ in range(jobs + 10):
            await asyncio.sleep(dice.uniform(0.015, 0.045))
            arrived.clear()
            begin = time.perf_counter()
            await nothing.defer_async()
            await asyncio.wait_for(arrived.wait(), 30)
            waits.append(picked_up - begin)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    tell(p50_s=statistics.median(waits[10:]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
