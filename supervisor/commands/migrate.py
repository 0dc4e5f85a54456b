"""``migrate``: the database schema, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.session import embedded_option, on_database
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database
    from schema.migrate import MigrationReport


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor migrate
  regelrecht-supervisor migrate --add-anyway
"""
)
@click.option(
    "--add-anyway",
    is_flag=True,
    help="On a database of the existing platform: add also what its own next release would add.",
)
@embedded_option
def command(add_anyway: bool, embedded: bool) -> None:
    """Bring the database schema up to date, or adopt one of the existing platform.

    Safe to repeat, and safe while supervisors run: one process migrates, the others wait. `run` does the same at its
    start.
    """

    async def work(database: Database) -> MigrationReport:
        from schema import migrate

        return await database.direct(migrate.migrate, add_anyway=add_anyway, on_wait=_waiting)

    report = on_database(work, embedded=embedded, migrated=False)
    for name in report.applied:
        say(f"applied {name}")
    if report.adopted:
        say("this database belongs to the existing platform; its own migrations were left alone")
    for item in report.added_anyway:
        say(f"added ahead of the platform: {item}")
    if report.newer:
        say(f"a later version of this program applied {len(report.newer)} more; this one works with them", err=True)
    say(f"up to date: {len(report.applied)} applied now, {report.already} before")


def _waiting(waited_s: float) -> None:
    if waited_s % 10 == 0:
        say(f"another process migrates; waiting ({waited_s:g} s)", err=True)
