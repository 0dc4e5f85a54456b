"""From SIGTERM to the end it takes the drain and ten seconds at most, whatever jobs, remotes, agents and readers of the log do (D12)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.ports import proctable
from supervisor import exitcodes
from tests.kit import probe
from tests.kit.bwb_works import invented_work, lay_out
from tests.kit.enrichbench import PATH, law
from tests.kit.gitrepos import Remote, Rival, git
from tests.kit.jobrows import LAW
from tests.kit.postgres import temporary_folder
from tests.kit.processes import alive, until
from tests.kit.supervisors import Fleet, SupervisorProcess, fleet

DRAIN_S = 1.0
MOST_S = DRAIN_S + 10 + 1
"""The bound, and a second in which we see the end."""
HUNG = 'echo $$ > "$GIT_DIR/hanging"; exec sleep 300'
DEAF_AGENT = """#!/bin/sh
trap "" TERM INT HUP
setsid sh -c "while :; do sleep 60; done" &
setsid sh -c "while :; do sleep 60; done" &
while :; do sleep 60; done
"""

pytestmark = [pytest.mark.slow, pytest.mark.time_limit(90)]


@pytest.fixture
def pod(database_url: str) -> Iterator[Fleet]:
    with temporary_folder() as folder, fleet(database_url, folder) as made:
        yield made


def remote_with_seed(folder: Path) -> Remote:
    remote = Remote.create(folder / "remote.git", "main")
    tree = git(remote.path, "hash-object", "-w", "-t", "tree", "/dev/null").strip()
    commit = git(remote.path, "commit-tree", tree, "-m", "seed").strip()
    for branch in ("seed", "main"):
        git(remote.path, "update-ref", f"refs/heads/{branch}", commit)
    return remote


async def hanging(remote: Remote) -> int:
    """Wait until a push hangs in the hook; its pid."""
    note = remote.path / "hanging"
    await until(lambda: note.exists() and note.read_text().endswith("\n"), limit_s=30)
    return int(note.read_text())


async def drained(one: SupervisorProcess) -> int:
    """SIGTERM; the exit code, which comes in time."""
    begin = time.monotonic()
    one.signal(signal.SIGTERM)
    code = await one.exit_code(limit_s=MOST_S + 10)
    assert time.monotonic() - begin < MOST_S
    return code


def descendants(one: SupervisorProcess) -> set[int]:
    """The processes of its jobs, down to the last; the guardian is none."""
    rows = list(proctable.rows())
    found, last = one.children(), set[int]()
    while found != last:
        last = found
        found = last | {row.pid for row in rows if row.parent in last}
    return found


# --- git ----------------------------------------------------------------------------------------------------------------


async def test_a_push_that_hangs_is_cut_and_its_job_handed_back(pod: Fleet) -> None:
    remote = remote_with_seed(pod.folder)
    remote.hook("pre-receive", HUNG)
    one = pod.start({probe.REMOTE: str(remote.path)})
    await one.ready()
    await pod.add([{"push": True}])
    hook = await hanging(remote)
    assert await drained(one) == exitcodes.CLEAN
    assert await pod.statuses() == {"pending": 1}
    await until(lambda: not alive({hook}))
    assert git(remote.path, "for-each-ref", "--format=%(refname)", "refs/heads/probe") == ""


async def test_a_harvest_whose_push_hangs_is_handed_back_and_lands_once_when_the_remote_answers_again(
    pod: Fleet,
) -> None:
    remote = remote_with_seed(pod.folder)
    remote.hook("pre-receive", HUNG)
    works = [invented_work(f"BWBR{n:07}", f"Wet nummer {n}") for n in (1, 2, 3)]
    lay_out(pod.folder / "mirror", works)
    environ = {
        "BWB_REPOSITORY_URL": str(pod.folder / "mirror"),
        "CORPUS_REPO_URL": str(remote.path),
        "CORPUS_REPO_PATH": str(pod.folder / "checkout"),
        "CORPUS_BRANCH": "main",
        "WORKER_ORPHAN_TIMEOUT_SECS": "60",
    }
    one = pod.start(environ, roles="harvest")
    await one.ready()
    await pod.sql(
        "INSERT INTO jobs (job_type, law_id, payload) "
        "SELECT 'harvest', id, jsonb_build_object('bwb_id', id) FROM unnest($1::text[]) AS id",
        [work.bwb_id for work in works],
    )
    hook = await hanging(remote)
    assert await drained(one) == exitcodes.CLEAN
    await until(lambda: not alive({hook}))
    assert await pod.statuses() == {"pending": 3}
    assert {row["s"] for row in await pod.sql("SELECT status::text AS s FROM law_entries")} == {"unknown"}  # D14
    remote.unhook("pre-receive")
    heir = pod.start(environ, roles="harvest")
    await pod.wait_until({"completed": 3})
    assert sorted(remote.subjects("main")[1:]) == [f"harvest: Wet nummer {n} (wet_nummer_{n})" for n in (1, 2, 3)]
    assert [row["n"] for row in await pod.sql("SELECT attempts - releases AS n FROM jobs")] == [1, 1, 1]
    assert await drained(heir) == exitcodes.CLEAN


# --- agents --------------------------------------------------------------------------------------------------------------


async def test_an_agent_that_hears_no_sigterm_and_its_escaped_children_are_gone_and_the_job_is_handed_back(
    pod: Fleet,
) -> None:
    remote = Remote.create(pod.folder / "remote.git")
    Rival.of(remote, pod.folder / "rival").push({PATH: law(3)}, "harvest")
    agent = pod.folder / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(DEAF_AGENT)
    agent.chmod(0o755)
    await pod.sql(
        "INSERT INTO jobs (job_type, law_id, payload) VALUES ('enrich', $1, "
        "jsonb_build_object('law_id', $1::text, 'yaml_path', $2::text, 'provider', 'claude'))",
        LAW,
        PATH,
    )
    one = pod.start(
        roles="enrich",
        CORPUS_REPO_URL=str(remote.path),
        CORPUS_REPO_PATH=str(pod.folder / "checkout"),
        ENRICH_WORK_PATH=str(pod.folder / "work"),
        CLAUDE_PATH=str(agent),
        WORKER_JOB_TIMEOUT_SECS="3900",
        WORKER_ORPHAN_TIMEOUT_SECS="60",
        ENRICH_HOURLY_LIMIT="100",
    )
    await one.ready()
    await until(lambda: len(descendants(one)) >= 7, limit_s=30)  # launcher, agent, two children, and their sleeps
    family = descendants(one)
    assert await drained(one) == exitcodes.CLEAN
    await until(lambda: not alive(family), limit_s=2)
    (row,) = await pod.sql("SELECT status::text, attempts, releases, lease, result FROM jobs")
    assert row == {"status": "pending", "attempts": 1, "releases": 1, "lease": None, "result": None}


# --- the log --------------------------------------------------------------------------------------------------------------


@contextmanager
def log_pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    try:
        yield read, write
    finally:
        os.close(read)
        os.close(write)


def fill(write: int) -> None:
    """Nobody reads, and not one byte more fits."""
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b".")
    except BlockingIOError:
        os.set_blocking(write, True)


@pytest.mark.parametrize("payload", [{"seconds": 60}, {"seconds": 60, "block": True}], ids=["job", "blocked loop"])
async def test_a_log_that_nobody_reads_holds_neither_the_work_nor_the_end_up(
    pod: Fleet, payload: dict[str, object]
) -> None:
    # as on a node whose collector of logs stands still: a blocked write would hear no SIGTERM and beat no lease
    with log_pipe() as (read, write):
        os.set_blocking(read, False)
        one = pod.start(log_to=write, SUPERVISOR_DRAIN_SECS=str(DRAIN_S), LOG_LEVEL="debug")
        await pod.add([{}])
        await pod.wait_until({"completed": 1})
        fill(write)
        await pod.add([{"seconds": 4}])  # longer than the orphan timeout
        await pod.wait_until({"completed": 2}, limit_s=15)
        assert [row["attempts"] for row in await pod.sql("SELECT attempts FROM jobs")] == [1, 1]
        await pod.add([payload])
        await until(lambda: len(pod.entries()) == 5)
        blocked = "block" in payload
        assert await drained(one) == (exitcodes.ESCALATED if blocked else exitcodes.CLEAN)
        assert await pod.statuses() == {"completed": 2, "processing" if blocked else "pending": 1}


async def test_a_log_whose_reader_has_gone_is_no_reason_to_fail(pod: Fleet) -> None:
    read, write = os.pipe()
    one = pod.start(log_to=write)
    os.close(write)
    await pod.add([{}])
    await pod.wait_until({"completed": 1})
    os.close(read)
    await pod.add([{}, {"fail": "permanent"}, {"fail": "crash"}])
    await pod.wait_until({"completed": 2, "failed": 1, "pending": 1})
    assert one.process.poll() is None
    assert await drained(one) == exitcodes.CLEAN
