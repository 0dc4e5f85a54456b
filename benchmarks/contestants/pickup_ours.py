"""A whole supervisor that waits; its errand asks for jobs, one at a time, at uneven moments."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from actors.jobs import ENTRY_POINTS, Means
from actors.jobs.base import Completion, Work
from actors.ports.database import Database
from benchmarks.contestants import tell
from schema.queue.create import create_job
from schema.rows import JobRequest, JobType
from supervisor import settings
from supervisor.app import run_supervisor
from supervisor.errand import Errand
from supervisor.logs import configure

JOB_TYPE = JobType.TRAJECT_HARVEST
_picked_up: dict[str, float] = {}
_arrived: list[trio.Event] = []


class Handler:
    job_type = JOB_TYPE

    async def run(self, work: Work) -> Completion:
        _picked_up[work.job.law_id] = time.perf_counter()
        _arrived[-1].set()
        return Completion()


@asynccontextmanager
async def open_handler(means: Means) -> AsyncIterator[Handler]:
    yield Handler()


def offer(folder: Path) -> None:
    """Make the job type known as another distribution would."""
    info = folder / "bench_jobs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-jobs\nVersion: 1\n")
    entry = f"{JOB_TYPE.value} = benchmarks.contestants.pickup_ours:open_handler"
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{entry}\n")
    sys.path.insert(0, str(folder))


async def ask(database: Database, jobs: int) -> None:
    dice = random.Random(1)
    waits = []
    await trio.sleep(2)  # connections are made, and the listener has proven itself
    for number in range(jobs + 10):
        await trio.sleep(dice.uniform(0.015, 0.045))
        _arrived.append(trio.Event())
        begin = time.perf_counter()
        await database.run(create_job, JobRequest(JOB_TYPE, f"L{number}"))
        with trio.fail_after(30):
            await _arrived[-1].wait()
        waits.append(_picked_up[f"L{number}"] - begin)
    tell(p50_s=statistics.median(waits[10:]))


def main(url: str, jobs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        offer(Path(folder))
        loaded = settings.load(
            {"DATABASE_URL": url, "SUPERVISOR_REPL": "0", "LOG_FORMAT": "plain", "SUPERVISOR_LOG": "error"}
        )
        configure(loaded.logging)
        errand = Errand(lambda database: ask(database, jobs))
        code = run_supervisor(loaded, [JOB_TYPE.value], errand=errand)
        if errand.failure is not None:
            raise errand.failure
        return code


if __name__ == "__main__":
    from benchmarks.contestants.pickup_ours import main as imported  # the entry point imports this module by its name

    sys.exit(imported(sys.argv[1], int(sys.argv[2])))
