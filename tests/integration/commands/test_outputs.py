"""Where results go: a full disk, a terminal with few characters, a reader that leaves. None of it is a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from protocols.failures import InvalidInput
from schema.connection import Connection
from supervisor import exitcodes
from supervisor.commands.session import on_database
from tests.kit import cli

FULL = Path("/dev/full")

SHOWN = {
    "help": ["--help"],
    "help of a command": ["jobs", "--help"],
    "version": ["--version"],
    "a view": ["status"],
    "a view as JSON": ["status", "--json"],
    "rows": ["workspace", "list"],
    "rows as JSON": ["jobs", "list", "--json"],
    "a word": ["pause", "harvest", "--reason", "rust"],
}


def _run(args: Sequence[str], stdout: int, **settings: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "supervisor", *args],
        env=cli.clean_environ(**settings),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.fixture
def url(database_url: str) -> str:
    assert cli.run("migrate", DATABASE_URL=database_url).code == 0
    owner = ("--owner", "jan@example.org", "--new-account")
    made = cli.run("workspace", "create", "Gemeente \u0141\u00f3d\u017a", *owner, DATABASE_URL=database_url)
    assert made.code == 0, made.err
    return database_url


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("what", SHOWN)
def test_a_full_disk_behind_the_output_is_told_in_one_line(url: str, what: str) -> None:
    fd = os.open(FULL, os.O_WRONLY)
    try:
        code, told = _run(SHOWN[what], fd, DATABASE_URL=url)
    finally:
        os.close(fd)
    assert code == exitcodes.ESCALATED
    assert told.splitlines() == ["Error: stdout cannot be written: No space left on device"]


@pytest.mark.parametrize("what", SHOWN)
def test_a_reader_that_leaves_ends_the_command_quietly(url: str, what: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        code, told = _run(SHOWN[what], theirs, DATABASE_URL=url)
    finally:
        os.close(theirs)
    assert (code, told) == (exitcodes.ESCALATED, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_the_errors_ends_the_command_all_the_same(url: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "supervisor", "jobs", "show", "zz"],
            env=cli.clean_environ(DATABASE_URL=url),
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (done.returncode, done.stdout) == (exitcodes.ESCALATED, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_lacks_is_replaced_and_in_json_escaped(url: str, encoding: str) -> None:
    for args in SHOWN.values():
        done = subprocess.run(
            [sys.executable, "-m", "supervisor", *args],
            env=cli.clean_environ(DATABASE_URL=url, PYTHONIOENCODING=encoding),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr.decode(encoding)) == (0, ""), args
        shown = done.stdout.decode(encoding)
        if "--json" in args:
            json.loads(shown)
        if args == ["workspace", "list"]:
            assert "Gemeente ?" in shown


async def _too_large_a_sum(connection: Connection) -> object:
    return await connection.fetchval("SELECT $1::bigint + 1", 2**63 - 1)


async def _too_large_a_value(connection: Connection) -> object:
    return await connection.fetchval("SELECT $1::bigint", 10**30)


async def _no_text(connection: Connection) -> object:
    return await connection.fetchval("SELECT $1::text", "a\0b")


@pytest.mark.parametrize("ask", [_too_large_a_sum, _too_large_a_value, _no_text])
def test_a_value_that_the_database_cannot_hold_is_a_wrong_command_line(
    url: str, ask: Callable[[Connection], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(InvalidInput, match="the database cannot hold"):
        on_database(lambda database: database.run(ask), embedded=False)
