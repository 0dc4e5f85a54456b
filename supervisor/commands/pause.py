"""``pause``: what nobody shall claim just now, for all supervisors of a database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import embedded_option, on_database
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database
    from schema.pauses import PauseScope

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_S = 366 * 86_400


class _Duration(click.ParamType[float]):
    """``90s``, ``30m``, ``2h``, ``1d``; a bare number is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        seconds = int(match[1]) * _UNITS[match[2] or "s"] if match else 0
        if not 0 < seconds <= _MOST_S:
            self.fail(f"{value!r} is no duration: expected 90s, 30m, 2h or 1d, at most a year", param, ctx)
        return float(seconds)


what_argument = click.argument("what", metavar="TYPE|provider:NAME")


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor pause harvest --for 2h --reason "the corpus moves"
  regelrecht-supervisor pause provider:claude
  regelrecht-supervisor resume harvest
"""
)
@what_argument
@click.option("--for", "for_s", type=_Duration(), help="Until then, such as 30m or 2h. Without: until `resume`.")
@click.option("--reason", default="", help="Why, for those who see it in `status`.")
@embedded_option
def command(what: str, for_s: float | None, reason: str, embedded: bool) -> None:
    """Let no supervisor take jobs of a type, or for a provider. Running jobs go on.

    Takes effect at the next claim of every supervisor; shown in `status` and in /readyz.
    """

    async def work(database: Database) -> None:
        from schema import pauses

        scope, name = parsed(what)
        await database.run(pauses.pause, scope, name, reason=reason, paused_by=_user(), for_s=for_s)

    on_database(work, embedded=embedded)
    from supervisor.taskview import duration

    until = "until it is resumed" if for_s is None else f"for {duration(for_s)}"
    say(f"{what}: paused {until}; running jobs go on")


def parsed(what: str) -> tuple[PauseScope, str]:
    """InvalidInput names what there is."""
    from protocols.failures import InvalidInput
    from schema.pauses import PauseScope
    from schema.rows import JobType

    if what.startswith("provider:"):
        return PauseScope.PROVIDER, known_provider(what.removeprefix("provider:"))
    known = [job_type.value for job_type in JobType]
    if what not in known:
        raise InvalidInput(f"{what[:60]!r} is no job type: {', '.join(known)}, or provider:NAME")
    return PauseScope.JOB_TYPE, what


def known_provider(name: str) -> str:
    from protocols.budget import PROVIDERS
    from protocols.failures import InvalidInput

    if name not in PROVIDERS:
        raise InvalidInput(f"{name[:60]!r} is no provider: {', '.join(PROVIDERS)}")
    return name


def _user() -> str:
    """Who it was, for people. Inside a container the user may have no name."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
