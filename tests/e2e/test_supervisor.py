"""Whole supervisors on a real PostgreSQL: they share the work, drain in order, and lose nothing when killed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
import trio

from supervisor import exitcodes
from supervisor.embedded.server import running_on
from tests.kit.postgres import PrivatePostgres, temporary_folder
from tests.kit.postgres_lines import lines
from tests.kit.probe import ROOT
from tests.kit.processes import alive, until
from tests.kit.supervisors import QUICK, Fleet, SupervisorProcess


@pytest.mark.claim("C-029")
async def test_jobs_are_done_and_an_idle_supervisor_ends_at_once_on_sigterm(pod: Fleet) -> None:
    # PR-06
    one = pod.start()
    await one.ready()
    await pod.add([{"seconds": 0.05}] * 20)
    await pod.wait_until({"completed": 20})
    begin = time.monotonic()
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert time.monotonic() - begin < 2
    assert Counter(entry.event for entry in pod.entries()) == {"start": 20, "done": 20}


@pytest.mark.claim("S0-003")
@pytest.mark.time_limit(120)
@pytest.mark.slow
async def test_two_supervisors_drain_2000_jobs_and_each_ends_exactly_once(pod: Fleet) -> None:
    await pod.sql("CREATE TABLE probe_effects (job_id uuid NOT NULL)")
    await pod.add([{"settle": True}] * 2000)
    both = [pod.start(slots=20), pod.start(slots=20)]
    await pod.wait_until({"completed": 2000}, limit_s=90)
    done = Counter(entry.job_id for entry in pod.entries() if entry.event == "done")
    assert set(done.values()) == {1}
    assert len(done) == 2000
    assert len({entry.pid for entry in pod.entries()}) == 2
    assert await pod.sql("SELECT job_id FROM probe_effects GROUP BY 1 HAVING count(*) > 1") == []
    assert (await pod.sql("SELECT max(attempts) AS most FROM jobs"))[0]["most"] == 1
    for one in both:
        one.signal(signal.SIGTERM)
        assert await one.exit_code() == exitcodes.CLEAN


@pytest.mark.claim("S0-013")
async def test_jobs_of_a_killed_supervisor_are_done_after_the_orphan_timeout(pod: Fleet) -> None:
    victim = pod.start()
    await victim.ready()
    await pod.add([{"seconds": 1.0}] * 4 + [{"seconds": 0.05}] * 8)
    await until(lambda: sum(entry.event == "start" for entry in pod.entries()) == 4)
    victim.process.kill()
    heir = pod.start()
    await pod.wait_until({"completed": 12})
    done = Counter(entry.job_id for entry in pod.entries() if entry.event == "done")
    assert (len(done), set(done.values())) == (12, {1})
    rows = await pod.sql("SELECT attempts, releases FROM jobs ORDER BY attempts DESC")
    assert [row["attempts"] for row in rows] == [2] * 4 + [1] * 8
    heir.signal(signal.SIGTERM)
    assert await heir.exit_code() == exitcodes.CLEAN


async def test_sigterm_in_the_middle_hands_jobs_back_at_once_and_exits_0(pod: Fleet) -> None:
    # SD-01: the row looks as if it had never been claimed
    one = pod.start(SUPERVISOR_DRAIN_SECS="0")
    await one.ready()
    await pod.add([{"seconds": 60}] * 3, max_attempts=3)
    await until(lambda: len(pod.entries()) == 3)
    begin = time.monotonic()
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert time.monotonic() - begin < 3
    rows = await pod.sql(
        "SELECT status::text, attempts - releases AS deaths, max_attempts - attempts AS left_over, result, scheduled_at, lease "
        "FROM jobs"
    )
    assert [tuple(row.values()) for row in rows] == [("pending", 0, 3, None, None, None)] * 3
    assert await pod.sql("SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == []


async def test_jobs_that_fit_into_the_drain_are_finished(pod: Fleet) -> None:
    one = pod.start(SUPERVISOR_DRAIN_SECS="10")
    await one.ready()
    await pod.add([{"seconds": 1}] * 4 + [{"seconds": 0}] * 3)
    await until(lambda: len(pod.entries()) == 4)
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert await pod.statuses() == {"completed": 4, "pending": 3}


async def test_a_second_signal_gives_the_jobs_up_at_once(pod: Fleet) -> None:
    one = pod.start(SUPERVISOR_DRAIN_SECS="60")
    await one.ready()
    await pod.add([{"seconds": 60}] * 2)
    await until(lambda: len(pod.entries()) == 2)
    one.signal(signal.SIGINT)
    await until(lambda: one.said("draining"))
    one.signal(signal.SIGTERM)
    assert await one.exit_code(limit_s=5) == exitcodes.CLEAN
    assert await pod.statuses() == {"pending": 2}


async def test_a_third_signal_ends_the_process_by_itself(pod: Fleet) -> None:
    # SD-05
    one = pod.start(SUPERVISOR_DRAIN_SECS="60")
    await one.ready()
    await pod.add([{"seconds": 60, "deaf": True}])
    await until(lambda: len(pod.entries()) == 1)
    one.signal(signal.SIGTERM)
    await until(lambda: one.said("draining"))
    one.signal(signal.SIGTERM)
    await until(lambda: one.said("cancelling"))
    one.signal(signal.SIGTERM)
    assert await one.exit_code(limit_s=5) == -signal.SIGTERM


@pytest.mark.parametrize("payload", [{"deaf": True}, {"block": True}], ids=["deaf job", "blocked loop"])
@pytest.mark.time_limit(60)
@pytest.mark.slow
async def test_the_end_is_bounded_whatever_a_job_does(pod: Fleet, payload: dict[str, object]) -> None:
    # SD-02, D12: ten seconds after the drain, exit 1, and the log says who did not end
    one = pod.start(SUPERVISOR_DRAIN_SECS="0.5")
    await one.ready()
    await pod.add([{"seconds": 60, **payload}])
    await until(lambda: len(pod.entries()) == 1)
    begin = time.monotonic()
    one.signal(signal.SIGTERM)
    assert await one.exit_code(limit_s=20) == exitcodes.ESCALATED
    assert 9 < time.monotonic() - begin < 12
    (forced,) = [line for line in one.lines() if str(line.get("event")).startswith("ended by force")]
    assert any(name.startswith("probe job") for name in forced["survivors"])


@pytest.mark.time_limit(60)
@pytest.mark.slow
@pytest.mark.parametrize("hurt", ["cut", "stall"])
async def test_the_end_is_bounded_with_deaf_children_and_a_database_that_went_away(
    private_postgres: PrivatePostgres, fragile_pod: Fleet, hurt: str
) -> None:
    # SD-02, D12: nothing can be handed back, children do not listen, and the process is gone in time all the same
    pod = fragile_pod
    with lines(private_postgres.url) as made:
        line = made.add(pod.folder / "line")
        one = pod.start({"DATABASE_URL": line.url(private_postgres.url)}, SUPERVISOR_DRAIN_SECS="1", slots=6)
        await one.ready()
        await pod.add(
            [{"seconds": 60, "child": "deaf"}] * 2 + [{"seconds": 60}] * 2 + [{"seconds": 60, "effect": True}] * 2
        )
        await until(lambda: len(pod.entries()) == 6 and len(one.children()) == 2)
        children = one.children()
        getattr(line, hurt)()
        begin = time.monotonic()
        one.signal(signal.SIGTERM)
        assert await one.exit_code(limit_s=20) in {exitcodes.CLEAN, exitcodes.ESCALATED}
        assert time.monotonic() - begin < 1 + 10 + 1
        await until(lambda: not alive(children))
        line.heal()
    heir = pod.start()
    await pod.sql("UPDATE jobs SET payload = '{}' WHERE status <> 'completed'")
    await pod.wait_until({"completed": 6})  # nothing is lost: the reaper took what was not handed back
    heir.signal(signal.SIGTERM)
    assert await heir.exit_code() == exitcodes.CLEAN


@pytest.mark.time_limit(90)
@pytest.mark.slow
async def test_the_end_is_bounded_while_others_use_the_embedded_server(tmp_path: Path) -> None:
    # D12, D25: commands that joined get their time, but not more than the platform gives us
    with temporary_folder() as home:
        base = home / "regelrecht-supervisor" / "postgres"
        environ = {"XDG_DATA_HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **QUICK}
        log = tmp_path / "log"
        argv = [sys.executable, "-m", "supervisor", "run", "--roles", "harvest", "--embedded"]
        with log.open("wb") as stderr, subprocess.Popen(argv, env=environ, cwd=tmp_path, stderr=stderr) as process:  # noqa: ASYNC220
            one = SupervisorProcess(process, log)
            await one.ready(limit_s=40)
            with (base / "users").open() as users:
                fcntl.flock(users, fcntl.LOCK_SH)
                begin = time.monotonic()
                one.signal(signal.SIGTERM)
                assert await one.exit_code(limit_s=20) == exitcodes.ESCALATED
                assert time.monotonic() - begin < float(QUICK["SUPERVISOR_DRAIN_SECS"]) + 10 + 1
            (forced,) = [line for line in one.lines() if str(line.get("event")).startswith("ended by force")]
            assert forced["survivors"] == ["the embedded PostgreSQL, which others still use"]
            await until(lambda: not running_on(base / "data"))  # it dies with its owner


async def test_a_task_that_holds_the_loop_is_named_with_its_stack(pod: Fleet) -> None:
    # D17, QH-08
    one = pod.start()
    await one.ready()
    await pod.add([{"seconds": 0.4, "block": True}])
    await until(lambda: one.said("a task holds the loop"))
    (line, *_) = [line for line in one.lines() if line["event"] == "a task holds the loop"]
    assert line["task"].startswith("job:probe ")
    assert any("probe.py" in frame for frame in line["stack"])


async def test_no_child_outlives_a_killed_supervisor(pod: Fleet) -> None:
    # D17
    one = pod.start()
    await one.ready()
    await pod.add([{"seconds": 300, "child": True}])
    await until(lambda: len(one.children()) == 1)
    children = one.children()
    one.process.kill()
    await until(lambda: not alive(children), limit_s=5)


async def test_no_child_outlives_the_drain(pod: Fleet) -> None:
    one = pod.start(SUPERVISOR_DRAIN_SECS="0")
    await one.ready()
    await pod.add([{"seconds": 300, "child": True}])
    await until(lambda: len(one.children()) == 1)
    children = one.children()
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert alive(children) == set()
    assert await pod.statuses() == {"pending": 1}


async def test_a_job_is_cancelled_on_whichever_supervisor_holds_it(pod: Fleet) -> None:
    # D26
    both = [pod.start(slots=1), pod.start(slots=1)]
    for one in both:
        await one.ready()
    await pod.add([{"seconds": 300, "child": True}] * 2)
    await until(lambda: [len(one.children()) for one in both] == [1, 1])
    (row, _) = await pod.sql("SELECT id FROM jobs")
    begin = time.monotonic()
    await pod.sql("UPDATE jobs SET cancel_requested_at = now() WHERE id = $1", row["id"])
    await pod.sql("SELECT pg_notify('regelrecht_control', $1)", json.dumps({"cancel": str(row["id"])}))
    await pod.wait_until({"failed": 1, "processing": 1}, limit_s=5)
    assert time.monotonic() - begin < 5
    (ended,) = await pod.sql("SELECT result->>'kind' AS kind FROM jobs WHERE status = 'failed'")
    assert ended["kind"] == "cancelled"
    assert sum(len(one.children()) for one in both) == 1


@pytest.mark.slow
async def test_a_poisonous_job_kills_its_holder_three_times_and_then_rests(pod: Fleet) -> None:
    # QH-16
    await pod.add([{"seconds": 60}], max_attempts=3)
    for attempt in range(1, 4):
        one = pod.start()
        await until(lambda n=attempt: len(pod.entries()) == n, limit_s=20)  # type: ignore[misc]
        one.process.kill()
        await one.exit_code()
    last = pod.start()
    await pod.wait_until({"failed": 1}, limit_s=15)
    assert len(pod.entries()) == 3
    last.signal(signal.SIGTERM)
    assert await last.exit_code() == exitcodes.CLEAN


@pytest.mark.time_limit(60)
async def test_a_restart_of_the_database_in_the_middle_of_work_costs_nothing(
    private_postgres: PrivatePostgres, fragile_pod: Fleet
) -> None:
    pod = fragile_pod
    one = pod.start(slots=2)
    await one.ready()
    await pod.add([{"seconds": 0.5}] * 12)
    await until(lambda: len(pod.entries()) >= 4)
    private_postgres.restart()  # from the main thread, as its port asks
    await pod.wait_until({"completed": 12}, limit_s=30)
    done = Counter(entry.job_id for entry in pod.entries() if entry.event == "done")
    assert set(done.values()) == {1}
    assert not one.said("actor crashed")
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN


@pytest.mark.claim("C-028")
@pytest.mark.parametrize(("roles", "named"), [("cook", "cook"), ("harvest,cook", "cook"), (",", "no role")])
async def test_a_role_without_an_implementation_is_refused_by_name(pod: Fleet, roles: str, named: str) -> None:
    # D23
    one = pod.start(roles=roles)
    assert await one.exit_code() == exitcodes.USAGE
    text = one.log.read_text()
    assert named in text
    assert "known roles are " in text
    known = text.partition("known roles are ")[2]
    assert all(role in known for role in ("enrich", "harvest", "probe"))
    assert "Traceback" not in text


async def test_settings_that_cannot_work_are_refused(pod: Fleet) -> None:
    # QH-03
    one = pod.start(WORKER_HEARTBEAT_INTERVAL_SECS="120", WORKER_ORPHAN_TIMEOUT_SECS="300")
    assert await one.exit_code() == exitcodes.USAGE
    text = one.log.read_text()
    assert "WORKER_HEARTBEAT_INTERVAL_SECS" in text
    assert "WORKER_ORPHAN_TIMEOUT_SECS" in text


async def test_without_a_database_the_start_fails_with_a_word_of_why(pod: Fleet) -> None:
    one = pod.start(DATABASE_URL="postgresql://someone:hunter2secret@127.0.0.1:1/none")
    assert await one.exit_code() == exitcodes.DATABASE_UNREACHABLE
    text = one.log.read_text()
    assert "hunter2secret" not in text
    assert "Traceback" not in text


async def test_a_database_that_goes_away_in_the_middle_of_the_start_is_unreachable(pod: Fleet) -> None:
    # found by `make faults SEED=1020`: the first question was under way, so its outcome is unclear
    one = pod.start(FAILPOINT="migrate.missing.after:1:cut")
    assert await one.exit_code() == exitcodes.DATABASE_UNREACHABLE
    assert "the answer of the database was lost" in one.log.read_text()
    assert "Traceback" not in one.log.read_text()


async def test_a_signal_before_the_database_answers_ends_the_process_at_once_with_0(pod: Fleet) -> None:
    # SD-05
    with socket.create_server(("127.0.0.1", 0)) as silent:
        one = pod.start(DATABASE_URL=f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/none")
        caller, _ = await trio.to_thread.run_sync(silent.accept)
        with caller:
            begin = time.monotonic()
            one.signal(signal.SIGTERM)
            assert await one.exit_code() == exitcodes.CLEAN
            assert time.monotonic() - begin < 3
    assert "Traceback" not in one.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.time_limit(90)
@pytest.mark.slow
async def test_a_signal_at_any_point_of_the_start_is_no_traceback_and_no_hang(pod: Fleet, number: int) -> None:
    # SD-05. Before Python has even read the program, the signal does what it does by default.
    for tenths in range(0, 20, 2):
        one = pod.start()
        await trio.sleep(tenths / 10)
        one.signal(number)
        code = await one.exit_code(limit_s=10)
        text = one.log.read_text()
        if "starting" in text:
            assert code == exitcodes.CLEAN, text
            assert "Traceback" not in text
        else:
            assert code in {exitcodes.CLEAN, -number, 1, 130}, text


async def test_probes_tell_that_the_loop_turns_and_that_it_claims_until_the_drain(pod: Fleet) -> None:
    # D19
    one = pod.start(HEALTH_PORT="0", SUPERVISOR_DRAIN_SECS="30")
    await one.ready()
    await until(lambda: one.said("health endpoint"))
    (line,) = [line for line in one.lines() if line["event"] == "health endpoint"]
    base = line["urls"][0].replace("0.0.0.0", "127.0.0.1")
    await pod.add([{"seconds": 60}])
    await until(lambda: len(pod.entries()) == 1)
    code, body = await get(f"{base}/readyz")
    assert (code, body["status"], body["phase"], body["jobs"]) == (200, "ready", "running", 1)
    code, body = await get(f"{base}/healthz")
    assert (code, body["database_answers"]) == (200, True)
    text = await trio.to_thread.run_sync(lambda: urllib.request.urlopen(f"{base}/metrics", timeout=5).read().decode())
    assert 'regelrecht_supervisor_jobs_claimed_total{job_type="probe"} 1.0' in text
    assert 'regelrecht_supervisor_jobs_running{role="probe"} 1.0' in text
    one.signal(signal.SIGTERM)
    await until(lambda: one.said("draining"))
    code, body = await get(f"{base}/readyz")
    assert (code, body["reasons"]) == (503, ["phase is draining"])
    assert (await get(f"{base}/healthz"))[0] == 200
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN


async def test_a_port_that_is_taken_ends_the_start_with_one_line(pod: Fleet) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        one = pod.start(HEALTH_PORT=str(port))
        assert await one.exit_code() == exitcodes.USAGE
    assert f"cannot serve on port {port} (HEALTH_PORT): is it in use?" in one.log.read_text()
    assert "Traceback" not in one.log.read_text()


async def get(url: str) -> tuple[int, dict[str, object]]:
    def ask() -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    return await trio.to_thread.run_sync(ask)
