"""Behind a transaction-mode pooler everything works but LISTEN (D16): claims by several workers, and a whole supervisor."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import trio

from actors.ports.database import DatabaseSettings, open_database
from actors.ports.pgqueue import PgQueue
from actors.ports.queue import ClaimRequest, Want
from schema.connection import Connection
from schema.rows import Job, JobType
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.pgbouncer import Pooled
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, fleet


@pytest.fixture
def pod(pooled: Pooled, tmp_path: Path) -> Iterator[Fleet]:
    """The test looks at the database directly; its supervisors go through the pooler."""
    with fleet(pooled.direct_url, tmp_path) as made:
        yield made


def through(pooled: Pooled) -> dict[str, str]:
    return {
        "DATABASE_URL": pooled.url,
        "DATABASE_DIRECT_URL": pooled.direct_url,
        "DATABASE_POOLER": "transaction",
    }


@pytest.mark.time_limit(120)
async def test_four_workers_do_800_jobs_through_a_pooler_and_each_once(pod: Fleet, pooled: Pooled) -> None:
    # CL-06, DB-03: no error, and no job for two, although all share three sessions
    done: Counter[UUID] = Counter()
    trouble = 0

    async def leave_a_mark(connection: Connection, job: Job) -> None:
        await connection.execute("INSERT INTO marks VALUES ($1)", job.id)

    async def worker() -> None:
        nonlocal trouble
        settings = DatabaseSettings(url=pooled.url, direct_url=pooled.direct_url, pooler="transaction")
        async with open_database(settings) as database:
            queue = PgQueue(database)
            while True:
                answer = await queue.claim(ClaimRequest(uuid4(), "worker", (Want((JobType.PROBE,), 5),)))
                leases = [job.lease_held for job in answer.jobs]
                if not leases and (await pod.statuses()).get("pending", 0) == 0:
                    break
                assert (await queue.beat(leases)).confirmed == frozenset(leases)
                for lease in leases:
                    await queue.complete(lease, {"by": str(lease.token)}, leave_a_mark)
                    done[lease.job_id] += 1
            statistics = database.statistics
            trouble += statistics.unclear + statistics.terminated + statistics.loop_errors

    await pod.sql("CREATE TABLE marks (job_id uuid PRIMARY KEY)")
    await pod.add([{}] * 800)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(worker)
    assert await pod.statuses() == {"completed": 800}
    assert len(done) == 800
    assert set(done.values()) == {1}
    assert (await pod.sql("SELECT count(*)::int AS n, max(attempts) AS most FROM marks JOIN jobs ON id = job_id"))[
        0
    ] == {
        "n": 800,
        "most": 1,
    }
    assert trouble == 0


@pytest.mark.time_limit(90)
async def test_a_supervisor_works_cancels_and_drains_behind_a_pooler(pod: Fleet, pooled: Pooled) -> None:
    one = pod.start(through(pooled))
    await one.ready()
    await pod.add([{"seconds": 0.1}] * 20)
    await pod.wait_until({"completed": 20})
    await pod.add([{"seconds": 60, "child": True}])
    await until(lambda: len(one.children()) == 1)
    begin = time.monotonic()
    # D26: nobody can tell it, so it looks every two seconds
    await pod.sql("UPDATE jobs SET cancel_requested_at = now() WHERE status = 'processing'")
    await pod.wait_until({"completed": 20, "failed": 1}, limit_s=8)
    assert time.monotonic() - begin < 8
    await pod.add([{"seconds": 60}])
    await until(lambda: len(pod.entries()) == 43)
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert await pod.statuses() == {"completed": 20, "failed": 1, "pending": 1}
    assert not one.said("actor crashed")
    assert await pod.sql("SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == []


@pytest.mark.time_limit(90)
async def test_jobs_of_a_supervisor_killed_behind_a_pooler_are_done_by_another(pod: Fleet, pooled: Pooled) -> None:
    victim = pod.start(through(pooled))
    await victim.ready()
    await pod.add([{"seconds": 1.0}] * 4 + [{"seconds": 0.05}] * 8)
    await until(lambda: sum(entry.event == "start" for entry in pod.entries()) == 4)
    victim.process.kill()
    heir = pod.start(through(pooled))
    await pod.wait_until({"completed": 12}, limit_s=40)
    done = Counter(entry.job_id for entry in pod.entries() if entry.event == "done")
    assert (len(done), set(done.values())) == (12, {1})
    heir.signal(signal.SIGTERM)
    assert await heir.exit_code() == exitcodes.CLEAN


async def test_a_pause_is_set_and_ended_behind_a_pooler(pod: Fleet, pooled: Pooled) -> None:
    async def command(*args: str) -> str:
        done = await trio.to_thread.run_sync(lambda: cli.run(*args, **through(pooled)))
        assert done.code == exitcodes.CLEAN, done.err
        return done.out

    one = pod.start(through(pooled))
    await one.ready()
    assert "paused" in await command("pause", "probe", "--reason", "behind a pooler")
    await pod.add([{}] * 3)
    assert "paused: probe until resumed" in await command("status")  # takes longer than a poll of the supervisor
    assert pod.entries() == []
    assert "resumed" in await command("resume", "probe")
    await pod.wait_until({"completed": 3}, limit_s=10)
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
