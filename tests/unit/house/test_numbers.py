"""Numbers on the command line have bounds, so that none of them is a traceback of the database or of a clock."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from click.types import FloatParamType, IntParamType

from supervisor.__main__ import cli
from supervisor.commands import COMMANDS
from supervisor.commands.numbers import FiniteRange, IdType


def _parameters(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        yield f"{name} {parameter.name}", parameter
    if isinstance(command, click.Group):
        for below, sub in command.commands.items():
            yield from _parameters(sub, f"{name} {below}")


def _all() -> list[tuple[str, click.Parameter]]:
    context = click.Context(cli)
    return [
        found
        for name in COMMANDS
        for command in [cli.get_command(context, name)]
        if command is not None
        for found in _parameters(command, name)
    ]


def test_every_number_has_a_least_and_a_most() -> None:
    whole = {name: one.type for name, one in _all() if isinstance(one.type, IntParamType)}
    parts = {name: one.type for name, one in _all() if isinstance(one.type, FloatParamType)}
    assert len(whole) > 12
    assert len(parts) > 3
    for name, kind in whole.items():
        bounded = isinstance(kind, click.IntRange) and None not in (kind.min, kind.max)
        assert bounded or isinstance(kind, IdType), name
    for name, part in parts.items():
        assert isinstance(part, FiniteRange), name
        assert None not in (part.min, part.max), name


@pytest.mark.parametrize(
    "args",
    [
        ["wallet", "credit", "x", "9" * 22, "--reason", "y"],
        ["wallet", "credit", "x", "9223372036854775807", "--reason", "y"],
        ["token", "create", "--workspace", "9" * 20, "--account", "x", "--name", "y"],
        ["token", "create", "--workspace", "1", "--account", "x", "--name", "y", "--days", "nan"],
        ["token", "create", "--workspace", "1", "--account", "x", "--name", "y", "--days", "inf"],
        ["token", "revoke", "0"],
        ["jobs", "list", "--limit", "9" * 23],
        ["pipelines", "run", "-1"],
        ["pipelines", "history", "9" * 30],
        ["harvest", "BWBR0018451", "--wait", "--timeout", "nan"],
        ["status", "--watch", "--interval", "nan"],
        ["vlam-check", "--limit", "inf"],
    ],
)
def test_a_number_that_nothing_can_hold_is_a_wrong_command_line(args: list[str]) -> None:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 2, done.output
    assert "Error: " in done.output
