"""What operators do to a fleet from the outside: pause, cancel, watch it stand still, see that it does not grow."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from actors.ports import proctable
from supervisor import exitcodes
from tests.e2e.test_supervisor import get
from tests.kit import cli
from tests.kit.growth import grown, vitals
from tests.kit.processes import alive, until, zombies_of
from tests.kit.supervisors import Fleet, SupervisorProcess


@pytest.fixture
def runtime() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rr-"))
    yield folder
    shutil.rmtree(folder)


async def command(pod: Fleet, *args: object) -> cli.Done:
    """One of the command line, on the database of the fleet."""
    return await trio.to_thread.run_sync(lambda: cli.run(*args, DATABASE_URL=pod.database_url))


async def base_of(one: SupervisorProcess) -> str:
    """The address of its probes."""
    await until(lambda: one.said("health endpoint"))
    (line,) = [line for line in one.lines() if line["event"] == "health endpoint"]
    return str(line["urls"][0]).replace("0.0.0.0", "127.0.0.1")


async def metrics_of(base: str) -> dict[str, float]:
    """The figures without labels, by their short names."""
    text = await trio.to_thread.run_sync(lambda: urllib.request.urlopen(f"{base}/metrics", timeout=5).read().decode())
    pairs = [line.split(" ") for line in text.splitlines() if re.fullmatch(r"regelrecht_supervisor_[a-z_]+ \S+", line)]
    return {name.removeprefix("regelrecht_supervisor_"): float(value) for name, value in pairs}


async def test_a_paused_type_is_left_by_all_supervisors_and_taken_up_again_within_seconds(pod: Fleet) -> None:
    both = [pod.start(HEALTH_PORT="0"), pod.start()]
    for one in both:
        await one.ready()
    assert (await command(pod, "pause", "probe", "--reason", "for a while")).code == exitcodes.CLEAN
    await pod.add([{}] * 6)
    await trio.sleep(1.5)  # more than a poll of each
    assert pod.entries() == []
    assert await pod.statuses() == {"pending": 6}
    assert "for a while" in (await command(pod, "status")).out
    base = await base_of(both[0])
    with trio.fail_after(15):
        while (await get(f"{base}/readyz"))[1]["paused"] != ["probe"]:  # noqa: ASYNC110 - read every ten seconds
            await trio.sleep(0.2)
    assert (await get(f"{base}/readyz"))[0] == 200
    begin = time.monotonic()
    assert "resumed" in (await command(pod, "resume", "probe")).out
    await pod.wait_until({"completed": 6}, limit_s=10)
    assert time.monotonic() - begin < 8


async def test_a_pause_with_an_end_is_over_without_anybody_doing_anything(pod: Fleet) -> None:
    one = pod.start(WORKER_POLL_INTERVAL_SECS="60")
    await one.ready()
    assert (await command(pod, "pause", "probe", "--for", "4s")).code == exitcodes.CLEAN
    await pod.add([{}])
    await pod.wait_until({"completed": 1}, limit_s=10)


async def test_running_jobs_go_on_while_their_type_is_paused(pod: Fleet) -> None:
    one = pod.start(slots=1)
    await one.ready()
    await pod.add([{"seconds": 3}, {}])
    await until(lambda: len(pod.entries()) == 1)
    await command(pod, "pause", "probe")
    await pod.wait_until({"completed": 1, "pending": 1}, limit_s=10)


@pytest.mark.parametrize("pooler", [False, True], ids=["by notification", "by looking"])
async def test_a_cancelled_job_ends_within_seconds_with_every_process_it_started_and_is_not_tried_again(
    pod: Fleet, pooler: bool
) -> None:
    # D26; issue 5. Behind a pooler there is no LISTEN, so the holder looks every two seconds.
    how = {"DATABASE_POOLER": "transaction", "DATABASE_DIRECT_URL": pod.database_url} if pooler else {}
    both = [pod.start(slots=1, **how), pod.start(slots=1, **how)]  # type: ignore[arg-type]
    for one in both:
        await one.ready()
    await pod.add([{"seconds": 300, "child": "deaf"}, {"seconds": 300, "child": True}])
    await until(lambda: [len(one.children()) for one in both] == [1, 1])
    (row,) = await pod.sql("SELECT id::text FROM jobs WHERE payload->>'child' = 'deaf'")
    (pid,) = [entry.pid for entry in pod.entries() if str(entry.job_id) == row["id"]]
    (holder,) = [one for one in both if one.pid == pid]
    family = holder.children() | {row.pid for row in proctable.rows() if row.parent in holder.children()}
    begin = time.monotonic()
    done = await command(pod, "jobs", "cancel", row["id"])
    assert "its supervisor was told to end it" in done.out
    await pod.wait_until({"failed": 1, "processing": 1}, limit_s=12)
    assert time.monotonic() - begin < 12  # the child ignores SIGTERM and gets five seconds for it
    assert alive(family) == set()
    (ended,) = await pod.sql(
        "SELECT result->>'kind' AS kind, lease, scheduled_at FROM jobs WHERE status = 'failed' AND id = $1::uuid",
        row["id"],
    )
    assert ended == {"kind": "cancelled", "lease": None, "scheduled_at": None}
    assert len([entry for entry in pod.entries() if entry.event == "start" and str(entry.job_id) == row["id"]]) == 1


@pytest.mark.time_limit(60)
@pytest.mark.slow
async def test_probes_fail_while_the_loop_stands_still_the_stacks_are_dumped_and_then_all_goes_on(pod: Fleet) -> None:
    # D17, D19
    one = pod.start(HEALTH_PORT="0", WORKER_ORPHAN_TIMEOUT_SECS="60", WORKER_HEARTBEAT_INTERVAL_SECS="1")
    await one.ready()
    base = await base_of(one)
    assert (await get(f"{base}/healthz"))[0] == 200
    await pod.add([{"seconds": 14, "block": True}])
    await until(lambda: len(pod.entries()) == 1)

    def probe() -> None:
        urllib.request.urlopen(f"{base}/healthz", timeout=1).close()

    with pytest.raises(TimeoutError):
        await trio.to_thread.run_sync(probe)
    await until(lambda: one.said("the loop stands still"), limit_s=20)
    (line,) = [line for line in one.lines() if line["event"] == "the loop stands still"]
    assert any("probe.py" in frame for frame in line["stacks"]["MainThread"])
    assert any(line["event"] == "a task holds the loop" for line in one.lines())
    await pod.wait_until({"completed": 1}, limit_s=20)
    assert (await get(f"{base}/healthz"))[0] == 200


@pytest.mark.time_limit(90)
@pytest.mark.slow
async def test_a_thousand_jobs_with_children_leave_no_descriptor_task_thread_or_zombie_behind(pod: Fleet) -> None:
    one = pod.start(HEALTH_PORT="0")
    await one.ready()
    base = await base_of(one)
    samples = []
    for number in range(12):
        await pod.add([{"seconds": 0.01, "child": True}] * 6 + [{}] * 70)
        done = (number + 1) * 76
        await pod.wait_until({"completed": done}, limit_s=30)
        figures = await metrics_of(base)
        samples.append(vitals(one.pid, tasks=int(figures["tasks"]), files=int(figures["open_files"])))
    assert grown(samples) == {}, samples
    assert zombies_of(one.pid) == set()
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN


async def test_the_janitor_is_there_only_when_jobs_have_a_time_to_live(pod: Fleet, runtime: Path) -> None:
    for days, there in (("0", False), ("30", True)):
        one = pod.start(JOBS_RETENTION_DAYS=days, XDG_RUNTIME_DIR=str(runtime))
        await one.ready()
        await until(lambda one=one: one.said("debug prompt"))  # type: ignore[misc]
        done = await trio.to_thread.run_sync(
            lambda one=one: cli.run("repl", "--pid", one.pid, "-c", "actors", XDG_RUNTIME_DIR=str(runtime))  # type: ignore[misc]
        )
        assert ("deletes jobs that ended more than 30 days ago" in done.out) is there


async def test_a_wait_ends_where_only_supervisors_run_that_never_take_the_job(pod: Fleet) -> None:
    scheduler = pod.start(roles="scheduler")
    await until(lambda: scheduler.said("ready to claim"))
    done = await command(pod, "harvest", "BWBR0990001", "--wait")
    assert done.code == exitcodes.DATABASE_UNREACHABLE
    assert "no supervisor on this database takes harvest jobs" in done.err
