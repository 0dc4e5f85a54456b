"""The command line as a whole: quick to start, helpful, and documented."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from supervisor import exitcodes
from supervisor.__main__ import cli
from supervisor.commands import COMMANDS
from supervisor.tree import TREE
from supervisor.version import VERSION

ROOT = Path(__file__).parents[3]
HEAVY = {"trio", "trio_asyncio", "asyncio", "asyncpg", "httpx", "lxml", "structlog", "rich", "importlib.metadata"}

IMPORTED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from supervisor.__main__ import main
sys.argv[0] = "regelrecht-supervisor"
main()
"""


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "supervisor", *args], capture_output=True, text=True, check=False)


# D28
@pytest.mark.parametrize("args", [["--help"], ["--version"], ["rnu"], *[[name, "--help"] for name in COMMANDS]])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED, *args], capture_output=True, text=True, check=False)
    imported = set(json.loads(done.stderr.splitlines()[-1]))
    assert "click" in imported
    assert imported & HEAVY == set()


def test_version_and_help_go_to_stdout_with_exit_code_0() -> None:
    assert run("--version").stdout.split()[-1] == VERSION
    help_ = run("--help")
    assert help_.returncode == 0
    for name, (_, text) in COMMANDS.items():
        assert name in help_.stdout
        assert text in help_.stdout


def test_a_near_miss_is_answered_with_the_right_name() -> None:
    done = run("harvset", "BWBR0018451")
    assert done.returncode == exitcodes.USAGE
    assert "Did you mean harvest?" in done.stderr
    assert "Did you mean" not in run("zzzz").stderr


@pytest.mark.claim("S0-005")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    assert command.help
    assert f"regelrecht-supervisor {name}" in (command.epilog or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.name}"


def helps(command: click.Command, *names: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it, as on a terminal of 80 columns."""
    context = click.Context(command, info_name=" ".join(("regelrecht-supervisor", *names)), terminal_width=80)
    yield " ".join(names) or "--help", command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below, *names, name)


def test_all_help_fits_into_80_columns() -> None:
    found = dict(helps(cli))
    assert {"--help", "run", "jobs list", "wallet credit"} <= set(found)
    wide = {name: line for name, text in found.items() for line in text.splitlines() if len(line) > 80}
    assert wide == {}


def test_exit_codes_are_documented_where_people_look() -> None:
    for place in ("README.md", "docs/exit-codes.md"):
        text = (ROOT / place).read_text(encoding="utf-8")
        rows = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", text, re.MULTILINE))
        assert {int(code): meaning for code, meaning in rows.items()} == exitcodes.MEANINGS, place


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"`{name}" in text, name


def test_every_actor_is_in_the_readme() -> None:
    source = "".join((ROOT / "supervisor" / name).read_text(encoding="utf-8") for name in ("beside.py", "app.py"))
    beside = set(re.findall(r"Row\(\s*\"(\w+)\"", source))
    assert {"housekeeping", "scheduler", "watchdog"} <= beside
    rows = re.findall(r"^\| (\w+) \| .+ \| .+ \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {row.name for row in TREE} | beside <= set(rows)
