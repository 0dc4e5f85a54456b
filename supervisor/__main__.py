"""The command line: ``regelrecht-supervisor`` and ``python -m supervisor`` are the same (D21)."""

from __future__ import annotations

import difflib
import importlib
import sys

import click

from supervisor import exitcodes, names
from supervisor.commands import COMMANDS
from supervisor.version import VERSION

PROG = "regelrecht-supervisor"


class LazyGroup(click.Group):
    """A group whose commands are imported when used; the list of them is printed from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table, which is the order of importance."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of ``cmd_name``; None when there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest names for one that is none."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=2, cutoff=0.6)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that no command module is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


_EXIT_CODES = "\n".join(f"  {code}  {text}" for code, text in exitcodes.MEANINGS.items())
EPILOG = f"""\b
Exit codes:
{_EXIT_CODES}

\b
Try it on this machine, with a database of its own:
  {PROG} run --roles harvest --embedded
  {PROG} harvest BWBR0018451 --embedded --wait"""


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name=PROG)
def cli() -> None:
    """Turn Dutch law into machine-readable law, unattended.

    A supervisor takes jobs from PostgreSQL, downloads laws from wetten.nl, converts them to YAML and commits them to a
    git corpus. Settings come from the environment; see docs/settings.md.
    """


def main() -> None:
    """Run the command line and leave with the exit code that says how it went."""
    foreign = names.problem()
    if foreign is not None:
        say(f"Error: {foreign}", err=True)
        sys.exit(exitcodes.USAGE)
    try:
        cli(prog_name=PROG)
    except Exception as error:  # noqa: BLE001 - raised again unless every leaf of it has a name
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    """Print a failure that has a name in one line each and return its exit code; anything else is raised on."""
    from protocols.failures import DatabaseUnavailable, InvalidInput, OutcomeUnclear, SupervisorError, leaves
    from supervisor.settings import SettingsFault
    from supervisor.terminaltext import say

    known = [leaf for leaf in leaves(error) if isinstance(leaf, SettingsFault | SupervisorError)]
    if not known or len(known) < len(list(leaves(error))):
        raise error
    for failure in known:
        for line in str(failure).splitlines():
            say(f"Error: {line}", err=True)
    if isinstance(known[0], SettingsFault | InvalidInput):
        return exitcodes.USAGE
    if isinstance(known[0], DatabaseUnavailable | OutcomeUnclear):  # the latter: it went away in the middle
        return exitcodes.DATABASE_UNREACHABLE
    return exitcodes.ESCALATED


if __name__ == "__main__":
    main()
