"""Ctrl-C during a command: one quiet line, and an exit code that a script cannot take for success."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import exitcodes
from tests.kit import cli
from tests.kit.processes import own_terminal

LAW = "BWBR0990001"
STAYS = "interrupted: the job stays in the queue for a supervisor to take\n"
NOBODY = "http://127.0.0.1:9"
"""A mirror that nobody serves: a harvest from it is tried again after a while."""


@contextmanager
def started(*args: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "supervisor", *args],
        env=cli.clean_environ(**settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted_at(process: subprocess.Popen[str], word: str) -> tuple[int, str]:
    """Ctrl-C once a line on stderr has ``word``: the exit code, and what came after that line."""
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            break
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=cli.LIMIT_S)
    return process.returncode, rest


def jobs(database_url: str) -> list[str]:
    return [job["status"] for job in cli.run("jobs", "list", "--json", DATABASE_URL=database_url).json]


def test_a_wait_that_is_interrupted_is_no_success_and_shows_no_traceback(database_url: str) -> None:
    with started("harvest", LAW, "--wait", DATABASE_URL=database_url) as process:
        code, rest = interrupted_at(process, "waiting for a supervisor")
    assert (code, rest) == (exitcodes.INTERRUPTED, STAYS)
    assert jobs(database_url) == ["pending"]


def test_a_harvest_of_our_own_that_is_interrupted_is_no_success_and_leaves_its_job(
    database_url: str, tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "BWB_REPOSITORY_URL": NOBODY,
        "REGULATION_REPO_PATH": str(tmp_path / "laws"),
    }
    with started("harvest", LAW, "--run", **settings) as process:
        code, rest = interrupted_at(process, "attempt 1 failed")
    assert (code, rest) == (exitcodes.INTERRUPTED, STAYS)
    assert jobs(database_url) == ["pending"]


@pytest.fixture
def silent() -> Iterator[str]:
    """A repository that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_harvest_of_our_own_says_at_once_that_it_finishes_and_the_second_time_hands_its_job_back(
    database_url: str, silent: str, tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "BWB_REPOSITORY_URL": silent,
        "REGULATION_REPO_PATH": str(tmp_path / "laws"),
    }
    with started("harvest", LAW, "--run", **settings) as process:
        assert process.stderr is not None
        assert any("running, attempt 1" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "finishing, up to 25 s; Ctrl-C again hands the job back now\n"
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=20)
    assert (process.returncode, rest.endswith(STAYS)) == (exitcodes.INTERRUPTED, True)
    assert jobs(database_url) == ["pending"]


def test_a_harvest_of_our_own_whose_terminal_is_closed_was_interrupted(
    database_url: str, silent: str, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    environ = cli.clean_environ(
        DATABASE_URL=database_url,
        BWB_REPOSITORY_URL=silent,
        REGULATION_REPO_PATH=str(tmp_path / "laws"),
        SUPERVISOR_DRAIN_SECS="1",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor", "harvest", LAW, "--run"],
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=own_terminal,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"running, attempt 1" not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        assert process.wait(timeout=cli.LIMIT_S) == exitcodes.INTERRUPTED
    assert jobs(database_url) == ["pending"]


def test_the_history_for_an_agent_ends_quietly(database_url: str) -> None:
    pytest.importorskip("mcp")
    made = cli.run("workspace", "create", "w", "--owner", "a@example.org", "--new-account", DATABASE_URL=database_url)
    assert made.code == exitcodes.CLEAN, made.err
    with started("mcp", "--workspace", "1", DATABASE_URL=database_url) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
            '"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}\n'
        )
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline().replace(" ", "")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=cli.LIMIT_S)  # its stdin is still open, as on a terminal
        _, err = process.communicate()
    assert (process.returncode, err) == (exitcodes.INTERRUPTED, "interrupted\n")


def test_the_reason_of_a_failed_attempt_is_told_once(database_url: str, tmp_path: Path) -> None:
    done = cli.run(
        *("harvest", LAW, "--run", "--timeout", 14),
        DATABASE_URL=database_url,
        BWB_REPOSITORY_URL=NOBODY,
        REGULATION_REPO_PATH=str(tmp_path / "laws"),
    )
    assert done.code == exitcodes.WAIT_TIMED_OUT, done.err
    assert done.err.count("attempt 1 failed") == 1
    assert "waiting for attempt 2" in done.err
    assert "stays in the queue for a supervisor to take" in done.err
    assert "goes on" not in done.err
