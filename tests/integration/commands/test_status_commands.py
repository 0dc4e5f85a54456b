"""``status``, ``pause``, ``resume`` and ``provider``, run as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from schema import pauses
from schema.pauses import PauseScope
from schema.queue import claim_job, create_job, fail_job_terminal
from schema.rows import JobRequest, JobType
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.postgres import run_on

LAW = "BWBR0990001"


def fill(url: str) -> None:
    """One job of each kind of state."""
    for law, priority in ((LAW, 90), ("BWBR0990002", 80), ("BWBR0990003", 10)):
        run_on(url, create_job, JobRequest(JobType.HARVEST, law, priority=priority, payload={"bwb_id": law}))
    run_on(url, create_job, JobRequest(JobType.HARVEST, "BWBR0990004", delay_s=3600))
    run_on(url, create_job, JobRequest(JobType.ENRICH, LAW, payload={"law_id": LAW, "provider": "claude"}))
    run_on(url, fail_job_terminal, run_on(url, claim_job, JobType.HARVEST), {"error": "no XML", "kind": "permanent"})
    run_on(url, claim_job, JobType.HARVEST)


def test_status_tells_depth_running_jobs_budget_pauses_and_failures(database_url: str) -> None:
    fill(database_url)
    run_on(database_url, pauses.pause, PauseScope.JOB_TYPE, "enrich")
    done = cli.run("status", DATABASE_URL=database_url, COLUMNS="80", ENRICH_HOURLY_LIMIT="0")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"^enrich +1 +· +· +· +·$", done.out, re.MULTILINE)
    assert re.search(r"^harvest +1 +1 +1 +· +1$", done.out, re.MULTILINE)
    assert "no claude run is allowed (ENRICH_HOURLY_LIMIT is 0 here), 1 job waiting" in " ".join(done.out.split())
    assert "paused: enrich until resumed" in done.out
    assert re.search(r"harvest [0-9a-f]{8} +BWBR0990002", done.out)
    assert re.search(r"harvest [0-9a-f]{8} .* BWBR0990001 +permanent: no XML", done.out)


def test_no_table_lets_what_others_wrote_command_the_terminal(database_url: str) -> None:
    hostile = "\x1b]0;owned\x07 \x9b2J \u202egnol"
    run_on(database_url, create_job, JobRequest(JobType.HARVEST, f"law {hostile}", max_attempts=1))
    job = run_on(database_url, claim_job, JobType.HARVEST)
    run_on(database_url, fail_job_terminal, job, {"error": f"not {hostile}", "kind": "permanent"})
    run_on(database_url, create_job, JobRequest(JobType.ENRICH, f"law {hostile}", payload={"provider": hostile}))
    run_on(database_url, partial(pauses.pause, reason=hostile, paused_by=hostile), PauseScope.JOB_TYPE, "harvest")
    for command in (["status"], ["jobs", "list"], ["jobs", "show", job.id], ["jobs", "show", hostile]):
        done = cli.run(*command, DATABASE_URL=database_url, COLUMNS="200")
        shown = done.out + done.err
        assert "\ufffd" in shown or command[-1] == hostile
        assert not set("\x1b\x07\x9b\u202e") & set(shown), command


def test_status_as_json_has_the_same(database_url: str) -> None:
    fill(database_url)
    run_on(database_url, partial(pauses.bench_provider, provider="claude", credential_hash="0123abcd", reason="quota"))
    found = cli.run("status", "--json", DATABASE_URL=database_url, ENRICH_HOURLY_LIMIT="2").json
    counts = {(count["job_type"], count["status"]): count["count"] for count in found["counts"]}
    assert counts == {
        ("enrich", "pending"): 1, ("harvest", "pending"): 2, ("harvest", "processing"): 1, ("harvest", "failed"): 1
    }  # fmt: skip
    (job,) = found["running"]
    assert (job["law_id"], job["attempt"], job["age_s"] < 60) == ("BWBR0990002", 1, True)
    assert found["claude"] == {**found["claude"], "runs": 0, "cap": 2, "waiting": 1, "waiting_for_next_hour": 0}
    assert found["failures"][0]["error"] == "no XML"
    assert found["benches"][0]["provider"] == "claude"
    assert "0123abcd" not in json.dumps(found)


def test_watching_on_a_terminal_shows_what_changes_until_ctrl_c_and_leaves_it_clean(database_url: str) -> None:
    terminal, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor", "status", "--watch", "--interval", "0.2"],
        env=cli.clean_environ(DATABASE_URL=database_url, COLUMNS="80", LINES="24", TERM="xterm"),
        stdin=other,
        stdout=other,
        stderr=subprocess.PIPE,
    )
    os.close(other)
    try:
        assert "(no jobs)" in read_until(terminal, "(no jobs)")
        run_on(database_url, create_job, JobRequest(JobType.HARVEST, LAW))
        read_until(terminal, "harvest")
        process.send_signal(signal.SIGINT)
        rest = read_until(terminal, "\x1b[?1049l")
        assert "\x1b[?25h" in rest  # the cursor is back
        assert process.wait(timeout=10) == exitcodes.CLEAN
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)


def read_until(terminal: int, word: str, limit_s: float = 15) -> str:
    text, end = "", time.monotonic() + limit_s
    while word not in text:
        assert time.monotonic() < end, text
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
    return text


def test_watching_elsewhere_prints_one_json_object_a_line(database_url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "supervisor", "status", "--watch", "--interval", "0.2", "--json"],
        env=cli.clean_environ(DATABASE_URL=database_url),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        assert first["at"] < second["at"]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == exitcodes.CLEAN
    finally:
        process.kill()
        process.communicate()


def test_a_pause_is_set_shown_and_ended(database_url: str) -> None:
    paused = cli.run("pause", "harvest", "--for", "2h", "--reason", "mirror moves", DATABASE_URL=database_url)
    assert paused.code == 0, paused.err
    assert "paused for 2h00m;" in paused.out
    shown = cli.run("status", DATABASE_URL=database_url, COLUMNS="200").out
    assert re.search(r"paused: harvest until .* UTC, by \w+: mirror moves", shown)
    assert cli.run("resume", "harvest", DATABASE_URL=database_url).out == "harvest: resumed\n"
    assert cli.run("resume", "harvest", DATABASE_URL=database_url).out == "harvest: was not paused\n"


def test_a_provider_in_trouble_is_freed(database_url: str) -> None:  # D52
    run_on(database_url, partial(pauses.bench_provider, provider="claude", reason="billing"))
    assert cli.run("provider", "resume", "claude", DATABASE_URL=database_url).out == "claude: resumed\n"
    assert cli.run("provider", "resume", "claude", DATABASE_URL=database_url).out == "claude: was in no trouble\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["pause", "harvests"], ["'harvests' is no job type", "harvest, enrich"]),
        (["pause", "provider:gpt"], ["'gpt' is no provider", "opencode, claude"]),
        (["pause", "harvest", "--for", "soon"], ["no duration", "2h"]),
        (["pause", "harvest", "--for", "0"], ["no duration"]),
        (["pause", "harvest", "--for", "9999d"], ["at most a year"]),
        (["resume", "provider:"], ["is no provider"]),
        (["provider", "resume", "harvest"], ["'harvest' is no provider"]),
    ],
)
def test_what_cannot_be_paused_is_refused_with_what_can(database_url: str, args: list[str], words: list[str]) -> None:
    done = cli.run(*args, DATABASE_URL=database_url)
    assert done.code == exitcodes.USAGE
    assert all(word in done.err for word in words), done.err
    assert "Traceback" not in done.err
