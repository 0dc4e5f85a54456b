"""Commands that use the database, run as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from schema import laws, requests
from schema.queue import claim_job, fail_job, fail_job_terminal, update_progress
from schema.requests import HarvestRequest
from schema.rows import Job, JobType, LawStatus
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.bwb_works import manifest_xml
from tests.kit.postgres import run_on

SAMPLES = Path(__file__).parents[3] / "supervisor" / "demo" / "samples"
LAW, OTHER = "BWBR0990001", "BWBR0990002"


async def _in_transaction(connection: Any, fn: Any, *args: Any) -> Any:
    async with connection.transaction():
        return await fn(connection, *args)


def ask(url: str, law_id: str = LAW, **kwargs: Any) -> Job:
    """A harvest request without the command."""
    answer = run_on(url, _in_transaction, requests.request_harvest, HarvestRequest(law_id, **kwargs))
    return answer.job  # type: ignore[no-any-return]


def claim(url: str) -> Job:
    return run_on(url, _in_transaction, claim_job, JobType.HARVEST)  # type: ignore[no-any-return]


@pytest.mark.claim("S1-063")
def test_migrate_makes_the_schema_and_does_nothing_the_second_time(empty_database_url: str) -> None:
    first = cli.run("migrate", DATABASE_URL=empty_database_url)
    assert first.code == 0, first.err
    assert "applied 0001_platform" in first.out
    second = cli.run("migrate", DATABASE_URL=empty_database_url)
    assert second.code == 0
    assert "0 applied now" in second.out
    assert cli.run("jobs", "list", "--json", DATABASE_URL=empty_database_url).json == []


def test_a_database_without_the_schema_is_answered_with_the_command_that_makes_it(empty_database_url: str) -> None:
    done = cli.run("laws", "list", DATABASE_URL=empty_database_url)
    assert done.code == exitcodes.USAGE
    assert "regelrecht-supervisor migrate" in done.err
    assert "Traceback" not in done.err


def test_without_a_database_both_ways_to_name_one_are_told() -> None:
    done = cli.run("jobs", "list")
    assert done.code == exitcodes.USAGE
    assert "DATABASE_URL" in done.err
    assert "--embedded" in done.err


def test_an_unreachable_database_is_exit_code_4_and_its_password_is_not_shown() -> None:
    done = cli.run("jobs", "list", DATABASE_URL="postgresql://u:planted-pw@127.0.0.1:9/x")
    assert done.code == exitcodes.DATABASE_UNREACHABLE
    assert done.err.startswith("Error: cannot connect")
    assert "planted-pw" not in done.err + done.out


def test_a_harvest_is_queued_and_shows_in_jobs_and_laws(database_url: str) -> None:
    done = cli.run("harvest", LAW, "--priority", 70, "--max-depth", 2, "--json", DATABASE_URL=database_url)
    assert done.code == 0, done.err
    job = done.json
    assert (job["law_id"], job["status"], job["priority"]) == (LAW, "pending", 70)
    assert job["payload"] == {"bwb_id": LAW, "max_depth": 2}
    assert "lease" not in job
    [listed] = cli.run("jobs", "list", "--json", DATABASE_URL=database_url).json
    assert listed == job
    [law] = cli.run("laws", "list", "--status", "queued", "--json", DATABASE_URL=database_url).json
    assert (law["law_id"], law["harvest_job_id"]) == (LAW, job["id"])
    table = cli.run("jobs", "list", DATABASE_URL=database_url).out
    assert LAW in table
    assert "pending" in table
    assert cli.run("jobs", "list", "--law", OTHER, "--json", DATABASE_URL=database_url).json == []


# D26
def test_asking_again_raises_the_priority_of_the_waiting_job_and_a_different_date_is_told(database_url: str) -> None:
    job = ask(database_url, priority=30)
    done = cli.run("harvest", LAW, "--priority", 60, DATABASE_URL=database_url)
    assert done.code == 0
    assert str(job.id) in done.err
    assert "another date" not in done.err
    shown = cli.run("jobs", "show", str(job.id)[:8], "--json", DATABASE_URL=database_url).json
    assert shown["priority"] == 60
    assert "another date" in cli.run("harvest", LAW, "--date", "2024-01-01", DATABASE_URL=database_url).err


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["BWBV0001506"], "expected"),
        (["bwbr0990001"], "expected"),
        ([LAW, "--date", "2024-02-30"], "no such day"),
        ([LAW, "--date", "2999-01-01"], "after today"),
        ([LAW, "--priority", "101"], "range"),
    ],
)
def test_a_malformed_request_is_a_usage_error_and_writes_nothing(database_url: str, args: list[str], word: str) -> None:
    done = cli.run("harvest", *args, DATABASE_URL=database_url)
    assert done.code == exitcodes.USAGE
    assert word in done.err
    assert cli.run("jobs", "list", "--json", DATABASE_URL=database_url).json == []


# D25
def test_waiting_where_nobody_runs_jobs_says_so_and_leaves_the_job_queued(database_url: str) -> None:
    done = cli.run("harvest", LAW, "--wait", DATABASE_URL=database_url)
    assert done.code == exitcodes.DATABASE_UNREACHABLE
    assert "no supervisor on this database takes harvest jobs" in done.err
    [job] = cli.run("jobs", "list", "--json", DATABASE_URL=database_url).json
    assert job["status"] == "pending"


def test_waiting_past_the_timeout_is_exit_code_5(database_url: str) -> None:
    ask(database_url)
    claim(database_url)
    done = cli.run("harvest", LAW, "--wait", "--timeout", "1", DATABASE_URL=database_url)
    assert done.code == exitcodes.WAIT_TIMED_OUT
    assert "running, attempt 1 of 3" in done.err


def test_waiting_for_a_job_that_fails_is_exit_code_3_with_its_reason(database_url: str) -> None:
    ask(database_url)
    job = claim(database_url)
    run_on(database_url, fail_job_terminal, job, {"error": "the text is no XML"})
    again = cli.run("jobs", "retry", job.id, DATABASE_URL=database_url)
    assert again.code == 0, again.err
    second = claim(database_url)
    assert second.id != job.id
    run_on(database_url, fail_job_terminal, second, {"error": "the text is no XML"})
    table = cli.run("jobs", "list", "--status", "failed", DATABASE_URL=database_url).out
    assert table.count("the text is no XML") == 2


def test_an_exhausted_law_is_refused_with_the_way_out(database_url: str) -> None:
    ask(database_url)
    run_on(database_url, fail_job_terminal, claim(database_url), {"error": "x"})
    run_on(database_url, laws.update_status, LAW, LawStatus.HARVEST_FAILED)
    run_on(database_url, laws.exhaust_law, LAW, laws.FailKind.HARVEST)
    done = cli.run("harvest", LAW, DATABASE_URL=database_url)
    assert done.code == exitcodes.ESCALATED
    assert f"laws reset {LAW}" in done.err
    assert "harvest may be asked for again" in cli.run("laws", "reset", LAW, DATABASE_URL=database_url).out
    assert cli.run("harvest", LAW, DATABASE_URL=database_url).code == 0


def test_a_law_shows_why_its_last_harvest_failed(database_url: str) -> None:
    job = ask(database_url)
    shown = cli.run("laws", "show", LAW, DATABASE_URL=database_url).out
    assert re.search(r"^last harvest +pending$", shown, re.MULTILINE)
    run_on(database_url, fail_job_terminal, claim(database_url), {"error": "the text\nis cut off"})
    shown = cli.run("laws", "show", LAW, DATABASE_URL=database_url).out
    assert re.search(r"^last harvest +failed: the text is cut off$", shown, re.MULTILINE)
    assert str(job.id) in shown


def test_the_fields_of_a_job_stand_below_each_other(database_url: str) -> None:
    ask(database_url)
    job = claim(database_url)
    cli.run("jobs", "cancel", job.id, DATABASE_URL=database_url)
    lines = cli.run("jobs", "show", job.id, DATABASE_URL=database_url).out.splitlines()
    widths = {len(found[0]) for line in lines if (found := re.match(r"[a-z_]+ +(?=\S)", line))}
    assert any(line.startswith("cancel_requested_at ") for line in lines)
    assert widths == {len("cancel_requested_at ")}


def test_a_job_that_waits_for_its_second_attempt_says_why_the_first_failed_and_when_it_is_due(
    database_url: str,
) -> None:
    ask(database_url)
    run_on(database_url, fail_job, claim(database_url), {"error": "the server\nwent away", "kind": "download_failed"})
    for command in (("jobs", "list"), ("laws", "show", LAW)):
        shown = cli.run(*command, DATABASE_URL=database_url).out
        assert re.search(r"due [0-9-]{10} [0-9:]{8} UTC; attempt 1 failed: the server went away", shown), shown


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_an_id_from_the_list_on_a_terminal_names_its_job_however_long_a_note_is(
    database_url: str, columns: int
) -> None:
    job = ask(database_url)
    run_on(
        database_url, fail_job_terminal, claim(database_url), {"error": f"{LAW} is not in the repository: {'x' * 300}"}
    )
    terminal, other = pty.openpty()
    environ = cli.clean_environ(DATABASE_URL=database_url, COLUMNS=str(columns), TERM="dumb")
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor", "jobs", "list"], env=environ, stdin=other, stdout=other
    ) as process:
        os.close(other)
        text = b""
        while chunk := _read(terminal):
            text += chunk
    os.close(terminal)
    assert process.returncode == 0
    _, row = text.decode().split("\r\n")[:2]
    cells = row.split()
    assert cells[1:4] == ["harvest", LAW, "failed"]
    assert len(row) <= columns
    shown = cli.run("jobs", "show", cells[0], "--json", DATABASE_URL=database_url)
    assert shown.json["id"] == str(job.id)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is gone
        return b""


def test_cancelling_a_waiting_job_fails_it_and_puts_the_law_back(database_url: str) -> None:
    job = ask(database_url)
    assert "cancelled" in cli.run("jobs", "cancel", job.id, DATABASE_URL=database_url).out
    shown = cli.run("jobs", "show", job.id, "--json", DATABASE_URL=database_url).json
    assert (shown["status"], shown["result"]["kind"]) == ("failed", "cancelled")
    assert cli.run("laws", "show", LAW, "--json", DATABASE_URL=database_url).json["status"] == "unknown"
    twice = cli.run("jobs", "cancel", job.id, DATABASE_URL=database_url)
    assert twice.code == exitcodes.USAGE
    assert "nothing to cancel" in twice.err


def test_cancelling_a_running_job_asks_its_supervisor(database_url: str) -> None:
    ask(database_url)
    job = claim(database_url)
    assert "was told to end it" in cli.run("jobs", "cancel", job.id, DATABASE_URL=database_url).out


def test_a_job_is_found_by_the_beginning_of_its_id_only_when_that_is_one(database_url: str) -> None:
    first, second = ask(database_url), ask(database_url, OTHER)
    same = len(_common(first.id, second.id))
    shown = cli.run("jobs", "show", str(first.id)[: max(same + 1, 4)], "--json", DATABASE_URL=database_url)
    assert shown.json["id"] == str(first.id)
    for name, word in ((str(uuid4())[:13], "no job"), ("%", "no job id"), ("x" * 200, "no job id")):
        done = cli.run("jobs", "show", name, DATABASE_URL=database_url)
        assert done.code == exitcodes.USAGE
        assert word in done.err


def _common(first: UUID, second: UUID) -> str:
    pairs = zip(str(first), str(second), strict=True)
    return "".join(a for a, b in iter(lambda: next(pairs, ("", " ")), ("", " ")) if a == b)


@pytest.mark.claim("S1-057")
def test_a_command_with_embedded_brings_its_own_database_and_finds_it_again(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    assert cli.run("harvest", LAW, "--embedded", **data).code == 0
    [job] = cli.run("jobs", "list", "--embedded", "--json", **data).json
    assert job["law_id"] == LAW


def test_results_are_on_stdout_alone(database_url: str) -> None:
    done = cli.run("laws", "list", DATABASE_URL=database_url)
    assert (done.out, done.err) == ("", "no laws\n")
    assert json.loads(cli.run("laws", "list", "--json", DATABASE_URL=database_url).out) == []


# D25
def test_harvest_with_run_does_the_job_here_and_leaves_the_rest_queued(database_url: str, tmp_path: Path) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "BWB_REPOSITORY_URL": str(SAMPLES),
        "REGULATION_REPO_PATH": str(tmp_path),
    }
    done = cli.run("harvest", LAW, "--run", "--json", **settings)
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["result"]["slug"]) == ("completed", "wet_op_de_fietstoeslag")
    assert (tmp_path / done.json["result"]["file_path"]).is_file()
    followed = cli.run("jobs", "list", "--law", "BWBR099000", "--json", **settings).json
    assert len(followed) > 1
    assert not [job for job in followed if job["status"] == "processing"]
    alone = cli.run("harvest", "BWBR0990005", "--date", "2021-01-01", "--run", "--no-follow", "--json", **settings)
    assert alone.code == 0, alone.err
    assert alone.json["result"]["harvest_date"] == "2020-04-01"


# D35
def test_a_date_without_a_text_is_warned_about_on_the_terminal_and_in_the_result(
    database_url: str, tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "BWB_REPOSITORY_URL": str(SAMPLES),
        "REGULATION_REPO_PATH": str(tmp_path),
    }
    done = cli.run("harvest", LAW, "--date", "1990-01-01", "--run", "--no-follow", **settings)
    assert done.code == 0, done.err
    warning = f"{LAW} has no text for 1990-01-01: took the newest"
    assert f"Warning: {warning}" in done.err
    [job] = cli.run("jobs", "list", "--law", LAW, "--json", **settings).json
    assert any(line.startswith(warning) for line in job["result"]["warnings"])


def test_a_law_without_text_is_told_with_reason_and_date(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "bwb" / LAW
    folder.mkdir(parents=True)
    (folder / "manifest.xml").write_bytes(manifest_xml(LAW, in_force="2099-01-01"))
    settings = {"DATABASE_URL": database_url, "BWB_REPOSITORY_URL": str(tmp_path)}
    done = cli.run("harvest", LAW, "--run", REGULATION_REPO_PATH=str(tmp_path / "out"), **settings)
    assert done.code == 0, done.err
    assert "completed: no text: not yet in force 2099-01-01" in done.err


def test_waiting_tells_how_far_a_running_job_is(database_url: str) -> None:
    ask(database_url)
    job = claim(database_url)
    run_on(database_url, update_progress, job.id, {"phase": "convert", "step": 2, "total_steps": 3})
    done = cli.run("harvest", LAW, "--wait", "--timeout", "1", DATABASE_URL=database_url)
    assert "running, attempt 1 of 3: convert, step 2 of 3" in done.err


def test_harvest_with_run_tells_a_failure_by_exit_code_3_and_its_reason(database_url: str, tmp_path: Path) -> None:
    done = cli.run(
        "harvest",
        "BWBR0990099",
        "--run",
        DATABASE_URL=database_url,
        BWB_REPOSITORY_URL=str(SAMPLES),
        REGULATION_REPO_PATH=str(tmp_path),
    )
    assert done.code == exitcodes.JOB_FAILED
    assert "failed: BWBR0990099 is not in the repository" in done.err


def test_harvest_with_run_of_an_exhausted_law_is_refused_and_the_supervisor_ends(database_url: str) -> None:
    ask(database_url)
    run_on(database_url, fail_job_terminal, claim(database_url), {"error": "x"})
    run_on(database_url, laws.update_status, LAW, LawStatus.HARVEST_FAILED)
    run_on(database_url, laws.exhaust_law, LAW, laws.FailKind.HARVEST)
    done = cli.run("harvest", LAW, "--run", DATABASE_URL=database_url)
    assert done.code == exitcodes.ESCALATED
    assert f"laws reset {LAW}" in done.err
    assert "Traceback" not in done.err
