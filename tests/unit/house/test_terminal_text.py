"""What others wrote reaches a terminal in one way only: as something that the terminal does not obey."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.__main__ import cli
from supervisor.terminaltext import harmless, say, say_json

ROOT = Path(__file__).parents[3]
HOSTILE = "\x1b]0;owned\x07 \x9b2J \u202egnol\u2066\u200f\x7f\r\u2028"
PRINTS = {"click.echo", "click.secho", "click.echo_via_pager", "print", "write", "rich.print", "Console", "Live"}

CLEANED = {
    "supervisor/terminaltext.py": {"click.echo"},
    "supervisor/commands/session.py": {"Console"},
    "supervisor/commands/status.py": {"Console", "Live"},
    "supervisor/commands/convert.py": {"write"},
    "supervisor/repl/session.py": {"write"},
    "supervisor/repl/evaluator.py": {"write"},
    "supervisor/repl/dumper.py": {"write"},
    "supervisor/logs.py": {"print", "write"},
    "supervisor/logstream.py": {"write"},
    "supervisor/outputs.py": {"write"},
}
"""Who may print otherwise: text that went through ``harmless``, bytes for a program, what is no terminal."""


def printing(path: Path) -> set[str]:
    """The ways to print that a module uses."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            found |= {name for name in PRINTS if called == name or (name == "write" and called.endswith(".write"))}
    return found


def test_no_command_prints_past_the_one_place_that_makes_text_harmless() -> None:
    found = {str(path.relative_to(ROOT)): printing(path) for path in sorted((ROOT / "supervisor").rglob("*.py"))}
    assert len(found) > 50
    beyond = {name: ways - CLEANED.get(name, set()) for name, ways in found.items()}
    assert {name: ways for name, ways in beyond.items() if ways} == {}


def test_a_module_that_prints_by_itself_is_found(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text("import click, sys\nclick.echo('a')\nprint('b')\nsys.stdout.write('c')\n")
    assert printing(path) == {"click.echo", "print", "write"}


def test_what_is_said_keeps_lines_and_tabs_and_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"één\ttab\nregel {HOSTILE}")
    say(HOSTILE, err=True, bold=True)
    shown, told = capsys.readouterr()
    assert shown == f"één\ttab\nregel {harmless(HOSTILE)}\n"
    assert not (set(HOSTILE) - set(harmless(HOSTILE))) & set(shown + told.replace("\x1b[1m", "").replace("\x1b[0m", ""))


def test_json_is_escaped_instead_so_that_a_program_reads_what_there_was(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"naam": f"één {HOSTILE}"}
    say_json(json.dumps(value, ensure_ascii=False))
    shown = capsys.readouterr().out
    assert json.loads(shown) == value
    assert "één" in shown
    assert harmless(shown) == shown


def test_a_complaint_about_the_command_line_repeats_it_harmlessly() -> None:
    for args in (
        [f"x{HOSTILE}"],
        ["convert", f"{HOSTILE}.xml"],
        ["jobs", "list", f"--{HOSTILE}"],
        ["usage", "--since", HOSTILE],
    ):
        done = CliRunner().invoke(cli, args)
        assert done.exit_code == 2, done.output
        assert harmless(done.output) == done.output
