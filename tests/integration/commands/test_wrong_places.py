"""Folders, ports, programs and hosts that cannot be used: a line that names the setting, never a traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from supervisor import exitcodes
from tests.kit import cli

SAMPLES = Path(__file__).parents[3] / "supervisor" / "demo" / "samples"
LAW = "BWBR0990001"
TEXT = SAMPLES / f"bwb/{LAW}/2024-01-01_0/xml/{LAW}_2024-01-01_0.xml"


def assert_one_line(done: cli.Done, code: int, *words: str) -> None:
    assert done.code == code, done.err
    errors = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in errors[0]


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Where nobody makes a folder, root neither: below a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "data"


@pytest.mark.parametrize("args", [["status", "--embedded"], ["run", "--roles", "harvest", "--embedded"]])
def test_a_data_folder_that_cannot_be_made_is_a_wrong_setting(blocked: Path, args: list[str]) -> None:
    done = cli.run(*args, XDG_DATA_HOME=str(blocked))
    assert_one_line(done, exitcodes.USAGE, str(blocked), "XDG_DATA_HOME")


@pytest.mark.parametrize(
    "args", [["mirror", "{at}", LAW], ["download", LAW, "--output", "{at}"], ["convert", str(TEXT), "-o", "{at}"]]
)
def test_a_place_that_cannot_be_written_is_named_by_every_command_that_writes(blocked: Path, args: list[str]) -> None:
    done = cli.run(*[arg.format(at=blocked) for arg in args], BWB_REPOSITORY_URL=str(SAMPLES))
    assert_one_line(done, exitcodes.ESCALATED, str(blocked))


def test_a_folder_for_laws_that_cannot_be_used_is_named_at_the_start_and_by_the_job(
    database_url: str, blocked: Path
) -> None:
    done = cli.run(
        *("harvest", LAW, "--run", "--timeout", 3),
        DATABASE_URL=database_url,
        BWB_REPOSITORY_URL=str(SAMPLES),
        REGULATION_REPO_PATH=str(blocked),
    )
    assert done.code == exitcodes.WAIT_TIMED_OUT
    assert f"REGULATION_REPO_PATH={str(blocked)!r} cannot be made or written" in done.err
    assert f"attempt 1 failed: {blocked} (REGULATION_REPO_PATH) cannot be made or used" in done.err


@pytest.mark.parametrize("name", ["BWB_REPOSITORY_URL", "CVDR_REPOSITORY_URL"])
def test_a_mirror_folder_that_is_not_there_is_refused_before_anything_is_queued(
    database_url: str, tmp_path: Path, name: str
) -> None:
    settings = {"DATABASE_URL": database_url, name: str(tmp_path / "none")}
    for args in (["harvest", LAW, "--run"], ["run", "--roles", "harvest"], ["download", LAW]):
        assert_one_line(cli.run(*args, **settings), exitcodes.USAGE, name, "there is no such folder")
    assert cli.run("jobs", "list", "--json", DATABASE_URL=database_url).json == []


def test_a_corpus_in_a_folder_that_is_not_there_is_refused(database_url: str, tmp_path: Path) -> None:
    for address in (str(tmp_path / "none"), f"file://{tmp_path}/none", "nonsense"):
        done = cli.run("run", "--roles", "harvest", DATABASE_URL=database_url, CORPUS_REPO_URL=address)
        assert_one_line(done, exitcodes.USAGE, "CORPUS_REPO_URL", "there is no such folder")


def test_an_agent_that_is_not_there_is_warned_about_where_its_provider_is_set_up(
    database_url: str, tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "HEALTH_PORT": "",
        "PATH": "/usr/bin:/bin",
        "ENRICH_WORK_PATH": str(tmp_path / "work"),
        "REGULATION_REPO_PATH": str(tmp_path / "laws"),
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])  # ends the start once all was looked at
        ended = {**settings, "API_PORT": port}
        named = cli.run("run", "--roles", "enrich,api", CLAUDE_PATH="/nonexistent/claude", **ended)
        limited = cli.run("run", "--roles", "enrich,api", ENRICH_HOURLY_LIMIT="4", **ended)
        plain = cli.run("run", "--roles", "enrich,api", **ended)
    assert "/nonexistent/claude: there is no such program; install it, or name it with CLAUDE_PATH" in named.err
    assert "opencode: there is no such program" not in named.err
    assert "claude: there is no such program; install it, or name it with CLAUDE_PATH" in limited.err
    assert "set CLAUDE_CODE_OAUTH_TOKEN" in limited.err
    assert "no such program" not in plain.err
    for done in (named, limited, plain):
        assert "no provider can be run here, neither opencode nor claude" in done.err
    assert "LLM_TIMEOUT_SECS" not in plain.err  # the defaults are nobody's mistake
    assert_one_line(plain, exitcodes.USAGE, f"cannot serve on port {port} (API_PORT): is it in use?")


def test_an_address_of_another_machine_is_told_with_its_setting(database_url: str) -> None:
    done = cli.run("run", "--roles", "api", DATABASE_URL=database_url, API_HOST="192.0.2.1", API_PORT="0")
    assert_one_line(done, exitcodes.USAGE, "192.0.2.1 (API_HOST)")


def test_a_role_that_is_none_and_a_missing_database_are_told_together() -> None:
    done = cli.run("run", "--roles", "foo", WORKER_JOB_TIMEOUT_SECS="soon")
    assert done.code == exitcodes.USAGE
    for word in ("no implementation of role foo", "DATABASE_URL is not set", "WORKER_JOB_TIMEOUT_SECS='soon'"):
        assert sum(word in line for line in done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://u:planted@nohost.invalid:5433/x", "at nohost.invalid:5433 (DATABASE_URL)"),
        ("postgresql://u:planted@127.0.0.1:9/x", "at 127.0.0.1:9 (DATABASE_URL)"),
        ("postgresql://u:pl%40nted@127.0.0.1:9/x", "at 127.0.0.1:9 (DATABASE_URL)"),
    ],
)
def test_a_database_that_is_not_there_is_named_without_its_password(url: str, place: str) -> None:
    done = cli.run("status", DATABASE_URL=url)
    assert_one_line(done, exitcodes.DATABASE_UNREACHABLE, "cannot connect to the database", place)
    assert "nted" not in done.err + done.out


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["download", LAW], "BWB_REPOSITORY_URL"),
        (["search", "fietstoeslag"], "BWB_SRU_URL"),
        (["search", "--local", "fiets"], "CVDR_SRU_URL"),
    ],
)
def test_a_repository_that_cannot_be_reached_is_told_with_its_setting(args: list[str], name: str) -> None:
    done = cli.run(*args, **{name: "http://127.0.0.1:9/base"})
    assert_one_line(done, exitcodes.ESCALATED, "127.0.0.1 cannot be reached", "check the network", name)
    assert "?" not in done.err
    assert "Errno" not in done.err


def test_a_text_that_is_none_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.md"
    wrong.write_text("# notes")
    assert_one_line(cli.run("convert", wrong), exitcodes.ESCALATED, f"{wrong}: law text: ")
    done = cli.run("convert", TEXT, "--wti", wrong)
    assert_one_line(done, exitcodes.ESCALATED, f"{wrong}: ")


def test_a_prompt_that_nobody_answers_has_the_code_for_no_supervisor(tmp_path: Path) -> None:
    done = cli.run("repl", "-c", "tree", XDG_DATA_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path))
    assert_one_line(done, exitcodes.DATABASE_UNREACHABLE, "no supervisor of this user runs here")
    gone = cli.run("repl", "-c", "tree", SUPERVISOR_REPL_SOCKET=str(tmp_path / "socket"))
    assert_one_line(gone, exitcodes.DATABASE_UNREACHABLE, "nobody answers at")
