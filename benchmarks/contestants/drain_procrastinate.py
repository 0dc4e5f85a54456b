"""procrastinate with concurrency 10: a worker, tasks that do nothing, all rows kept (its default)."""

from __future__ import annotations

import asyncio
import sys
import time

import procrastinate

from benchmarks.contestants import tell

WORKERS = 10


async def main(url: str, jobs: int) -> None:
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=WORKERS + 2, max_size=WORKERS + 2)
    )
    ran: list[float] = []

    @app.task(name="nothing")
    async def nothing() -> None:
        ran.append(time.perf_counter())

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.configure().batch_defer_async(*({} for _ in range(jobs)))
        await app.connector.execute_query_async("ANALYZE procrastinate_jobs")
        await app.run_worker_async(concurrency=WORKERS, wait=False, install_signal_handlers=False)
    assert len(ran) == jobs
    tell(jobs_per_s=jobs / (ran[-1] - ran[0]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
