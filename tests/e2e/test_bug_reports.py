"""Reports from the field that want a whole supervisor: real processes, real children, limits a hundred times shorter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from tests.kit import probe
from tests.kit.gitrepos import Remote, git
from tests.kit.postgres import PrivatePostgres
from tests.kit.postgres_lines import lines
from tests.kit.processes import alive, until
from tests.kit.supervisors import Fleet, fleet


@pytest.fixture
def pod(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as made:
        yield made


@pytest.fixture
def fragile_pod(private_postgres: PrivatePostgres, tmp_path: Path) -> Iterator[Fleet]:
    """On a database server of its own."""
    with fleet(private_postgres.url, tmp_path) as made:
        yield made


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
