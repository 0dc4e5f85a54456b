"""Our queue as supervisors use it: ``single`` with ten workers that claim one and complete it, ``batch`` fifty at once."""

from __future__ import annotations

import sys
import time
from uuid import uuid4

import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.pgqueue import PgQueue
from benchmarks.contestants import tell
from schema.queue.endings import complete_many
from schema.queue.terms import ClaimAnswer, ClaimRequest, Want
from schema.rows import Job, JobType

WORKERS = 10
BATCH = 50


async def _claim(queue: PgQueue, slots: int) -> ClaimAnswer:
    return await queue.claim(ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), slots),)))


async def single(queue: PgQueue) -> int:
    done = 0

    async def worker() -> None:
        nonlocal done
        while True:
            jobs = (await _claim(queue, 1)).jobs
            if not jobs:
                return
            await queue.complete(jobs[0].lease_held, None)
            done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(worker)
    return done


async def batch(queue: PgQueue) -> int:
    """A task for each job, as runners are; the next fifty are claimed while those before them end."""
    done = 0

    async def run(job: Job) -> None:
        nonlocal done
        await queue.complete(job.lease_held, None)
        done += 1

    async with trio.open_nursery() as nursery:
        while jobs := (await _claim(queue, BATCH)).jobs:
            for job in jobs:
                nursery.start_soon(run, job)
    return done


async def together(queue: PgQueue) -> int:
    done = 0

    async def complete(jobs: tuple[Job, ...]) -> None:
        nonlocal done
        ended = await queue.database.run(complete_many, {job.lease_held: None for job in jobs})
        done += len(ended)

    async with trio.open_nursery() as nursery:
        while jobs := (await _claim(queue, BATCH)).jobs:
            nursery.start_soon(complete, jobs)
    return done


async def main(side: str, url: str, jobs: int) -> None:
    async with open_database(DatabaseSettings(url=url, max_connections=WORKERS + 2)) as database:
        await _warm(database)
        begin = time.perf_counter()
        done = await {"single": single, "batch": batch, "together": together}[side](PgQueue(database))
        took_s = time.perf_counter() - begin
    assert done == jobs, f"{done} of {jobs} jobs were done"
    tell(jobs_per_s=jobs / took_s)


async def _warm(database: Database) -> None:
    """All connections made: nobody's start is counted."""
    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(database.run, _nap)


async def _nap(connection: object) -> None:
    await connection.execute("SELECT pg_sleep(0.05)")  # type: ignore[attr-defined]


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
