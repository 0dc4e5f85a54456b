"""Reports from the field that want a whole supervisor: real processes, real children, limits a hundred times shorter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trio

from supervisor import exitcodes
from tests.kit import probe
from tests.kit.bwb_server import Reply, fake_repository
from tests.kit.gitrepos import Remote, git
from tests.kit.postgres import PrivatePostgres, run_on
from tests.kit.postgres_lines import lines
from tests.kit.processes import alive, until
from tests.kit.supervisors import QUICK, Fleet, SupervisorProcess


@pytest.mark.time_limit(60)
async def test_children_end_when_beats_stay_unanswered_and_the_job_is_done_afterwards(
    private_postgres: PrivatePostgres, fragile_pod: Fleet, tmp_path: Path
) -> None:
    # QH-07: no answer and no error either; the fence is at half the orphan timeout of 3 s
    pod = fragile_pod
    with lines(private_postgres.url) as made:
        line = made.add(tmp_path / "line")
        one = pod.start({"DATABASE_URL": line.url(private_postgres.url)}, slots=1)
        await one.ready()
        await pod.add([{"seconds": 300, "child": True, "until_attempt": 1}])
        await until(lambda: len(one.children()) == 1)
        children = one.children()
        begin = time.monotonic()
        line.stall()
        await until(lambda: not alive(children))
        assert time.monotonic() - begin < 3
        (row,) = await pod.sql("SELECT status::text, attempts, lease IS NOT NULL AS held FROM jobs")
        assert row == {"status": "processing", "attempts": 1, "held": True}  # given up, and nothing was written
        line.heal()
        await pod.wait_until({"completed": 1})
        assert (await pod.sql("SELECT attempts FROM jobs"))[0]["attempts"] == 2


async def test_heavy_work_in_a_thread_does_not_delay_beats(pod: Fleet) -> None:
    # QH-08: it works for longer than the orphan timeout of 3 s
    both = [pod.start(slots=1), pod.start(slots=1)]
    for one in both:
        await one.ready()
    await pod.add([{"seconds": 5, "deaf": True}])
    await pod.wait_until({"completed": 1})
    assert (await pod.sql("SELECT attempts FROM jobs"))[0]["attempts"] == 1
    assert not any(one.said("job reaped") for one in both)


async def test_a_stolen_job_is_dropped_within_a_beat_and_nothing_of_it_is_pushed(pod: Fleet, tmp_path: Path) -> None:
    # QH-15
    remote = Remote.create(tmp_path / "remote.git", "seed")
    tree = git(remote.path, "hash-object", "-w", "-t", "tree", "/dev/null").strip()
    git(remote.path, "update-ref", "refs/heads/seed", git(remote.path, "commit-tree", tree, "-m", "seed").strip())
    one = pod.start({probe.REMOTE: str(remote.path)}, slots=1)
    await one.ready()
    await pod.add([{"seconds": 2, "child": True, "push": True}])
    await until(lambda: len(one.children()) == 1)
    children = one.children()
    thief = uuid4()
    await pod.sql("UPDATE jobs SET lease = $1, attempts = attempts + 1, claimed_by = 'a thief'", thief)
    await until(lambda: not alive(children), limit_s=0.5 + 5)
    await until(lambda: one.said("job ended"))
    (row,) = await pod.sql("SELECT status::text, claimed_by, lease, result FROM jobs")
    assert row == {"status": "processing", "claimed_by": "a thief", "lease": thief, "result": None}
    assert git(remote.path, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/seed"]


async def test_a_job_is_claimed_only_when_it_can_begin(pod: Fleet) -> None:
    # QH-22: one slot, three jobs
    one = pod.start(slots=1)
    await one.ready()
    await pod.add([{"seconds": 0.7}] * 3)
    most = 0
    while await pod.statuses() != {"completed": 3}:
        most = max(most, (await pod.statuses()).get("processing", 0))
        await trio.sleep(0.01)
    assert most == 1
    spans = [
        entry.at - before.at
        for before, entry in zip(pod.entries()[1::2], pod.entries()[2::2], strict=False)
        if (before.event, entry.event) == ("done", "start")
    ]
    assert len(spans) == 2


@pytest.mark.time_limit(60)
async def test_a_lost_ear_costs_no_more_than_a_poll_and_comes_back(pod: Fleet) -> None:
    # DB-01: the listening session is ended while the supervisor is idle and has backed off to a poll a minute
    one = pod.start(WORKER_POLL_INTERVAL_SECS="5", WORKER_MAX_POLL_INTERVAL_SECS="60")
    await one.ready()
    await until(lambda: one.said("listening for notifications"))
    # it probes itself
    ears = (
        "FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query LIKE 'SELECT pg_notify%'"
    )
    assert len(await pod.sql(f"SELECT pg_terminate_backend(pid) {ears}")) == 1
    begin = time.monotonic()
    await pod.add([{}])
    await pod.wait_until({"completed": 1}, limit_s=10)
    assert time.monotonic() - begin < 5.5
    assert one.said("listening for notifications was interrupted")
    with trio.fail_after(10):
        while not await pod.sql(f"SELECT 1 {ears}"):  # noqa: ASYNC110 - another process
            await trio.sleep(0.05)
    begin = time.monotonic()
    await pod.add([{}])
    await pod.wait_until({"completed": 2}, limit_s=10)
    assert time.monotonic() - begin < 1.5


@pytest.mark.time_limit(60)
async def test_a_source_that_hangs_ends_with_the_time_limit_and_keeps_nobody_else_waiting(pod: Fleet) -> None:
    # QH-21
    async with fake_repository() as source:
        source.serve("/bwb/BWBR0000001/manifest.xml", Reply(hang=True))
        one = pod.start(
            roles="harvest,probe",
            BWB_REPOSITORY_URL=source.url,
            HARVEST_JOB_TIMEOUT_SECS="2",
            REGULATION_REPO_PATH=str(pod.folder / "laws"),
        )
        await one.ready()
        await pod.sql(
            "INSERT INTO jobs (job_type, law_id, payload) VALUES ('harvest', $1, jsonb_build_object('bwb_id', $1::text))",
            "BWBR0000001",
        )
        with trio.fail_after(10):
            while not source.requests:  # noqa: ASYNC110 - another process
                await trio.sleep(0.01)
        # meanwhile an orphan of somebody else is taken on time
        await pod.sql(
            "INSERT INTO jobs (job_type, law_id, status, attempts, lease, started_at, heartbeat_at) VALUES "
            "('probe', 'orphan', 'processing', 1, gen_random_uuid(), now() - interval '1 hour', now() - interval '1 hour')"
        )
        await until(lambda: any(entry.event == "done" for entry in pod.entries()), limit_s=4)
        waits = "SELECT status::text, result->>'kind' AS kind, scheduled_at - updated_at AS pause FROM jobs WHERE law_id LIKE 'BWBR%'"
        with trio.fail_after(10):
            while (row := (await pod.sql(waits))[0])["status"] != "pending":  # noqa: ASYNC110 - as above
                await trio.sleep(0.05)
        assert row["kind"] == "job_timeout"
        assert 29 < row["pause"].total_seconds() < 31
        assert len(source.requests) == 1


@pytest.mark.time_limit(60)
async def test_two_that_start_together_on_an_empty_database_are_both_up_and_each_step_is_done_once(
    empty_database_url: str, tmp_path: Path
) -> None:
    # DB-08
    environ = {
        **QUICK,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(probe.ROOT),
        "HOME": str(tmp_path),
        "DATABASE_URL": empty_database_url,
    }
    argv = [sys.executable, "-m", "supervisor", "run", "--roles", "harvest"]
    both = []
    for name in ("one", "other"):
        log = tmp_path / name
        with log.open("wb") as stderr:
            both.append(SupervisorProcess(subprocess.Popen(argv, env=environ, cwd=tmp_path, stderr=stderr), log))  # noqa: ASYNC220
    try:
        for one in both:
            await one.ready(limit_s=30)

        async def look(connection: Any) -> tuple[int, int, int]:
            steps = await connection.fetch("SELECT version FROM supervisor_migrations")
            invalid = await connection.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid")
            return len(steps), len({row["version"] for row in steps}), invalid

        steps, different, invalid = await trio.to_thread.run_sync(run_on, empty_database_url, look)
        assert (steps, invalid) == (different, 0)
        applied = [line["applied"] for one in both for line in one.lines() if line["event"] == "schema migrated"]
        assert sum(map(len, applied)) == steps
        for one in both:
            one.signal(signal.SIGTERM)
            assert await one.exit_code() == exitcodes.CLEAN
    finally:
        for one in both:
            one.process.kill()
            one.process.wait()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can make a pid namespace")
async def test_a_supervisor_that_is_process_1_says_so(tmp_path: Path) -> None:
    # PR-03: nobody else would collect the orphans of the container
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(probe.ROOT),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    }
    argv = ["unshare", "--pid", "--fork", sys.executable, "-m", "supervisor", "run", "--roles", "harvest"]
    ended = await trio.to_thread.run_sync(
        lambda: subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    )
    assert "this is process 1" in ended.stderr
    assert "through an init" in ended.stderr
