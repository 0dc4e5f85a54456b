"""The command line: ``regelrecht-supervisor`` and ``python -m supervisor`` are the same (D21)."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
import textwrap
from typing import Any

import click

from supervisor import exitcodes, names, outputs
from supervisor.commands import COMMANDS
from supervisor.terminaltext import harmless, say
from supervisor.version import VERSION

PROG = "regelrecht-supervisor"

_OF_A_PATH = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ETXTBSY, errno.EBUSY),
}
"""What a folder or a file may be to people: not there, not theirs, full. Other errors of the system are ours to explain."""


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

    def invoke(self, ctx: click.Context) -> Any:
        """As click does. What it says of a wrong argument repeats it, which may be the name of somebody's file."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = harmless(error.message)  # type: ignore[misc]  # final for those who type, not for click
            raise
        except (KeyboardInterrupt, click.Abort, BaseExceptionGroup) as error:
            if not _interrupted(error):
                raise
            say("interrupted", err=True)
            raise click.exceptions.Exit(exitcodes.INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that no command module is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


_EXIT_CODES = "\n".join(
    textwrap.fill(f"{code:>3}  {text}", width=76, initial_indent="  ", subsequent_indent=" " * 7)
    for code, text in exitcodes.MEANINGS.items()
)
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
    outputs.take_over()
    foreign = names.problem()
    if foreign is not None:
        say(f"Error: {foreign}", err=True)
        sys.exit(exitcodes.USAGE)
    try:
        try:
            cli(prog_name=PROG)
        except SystemExit:
            outputs.flush()  # later, nobody could say in order that it failed
            raise
    except Exception as error:  # noqa: BLE001 - raised again unless every leaf of it has a name
        try:
            code = _report(error)
        except outputs.OutputFailed as unheard:
            unheard.give_up()
            code = exitcodes.ESCALATED
        sys.exit(code)


def _interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is what ended it: the loop wraps that into groups, with what it broke off."""
    from protocols.failures import leaves

    return any(isinstance(leaf, KeyboardInterrupt | click.Abort) for leaf in leaves(error))


def _named(error: BaseException) -> BaseException:
    """``error``; for a file that cannot be read or written a failure with a name: people gave us its path."""
    from protocols.failures import Permanent

    if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_A_PATH:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else "a file"
        return Permanent(f"{name}: {error.strerror}")
    return error


def _report(error: Exception) -> int:
    """Print a failure that has a name in one line each and return its exit code; anything else is raised on."""
    from protocols.failures import DatabaseUnavailable, InvalidInput, OutcomeUnclear, SupervisorError, leaves
    from supervisor.settings import SettingsFault

    known = [_named(leaf) for leaf in leaves(error)]
    for failure in known:
        if isinstance(failure, outputs.OutputFailed):
            failure.give_up()
            if not failure.reader_gone:  # who wants no more, as `head` does, needs no word about it
                say(f"Error: {failure}", err=True)
            return exitcodes.ESCALATED
    if not all(isinstance(failure, SettingsFault | SupervisorError) for failure in known):
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
