"""``resume``: the end of a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.pause import parsed, what_argument
from supervisor.commands.session import embedded_option, on_database
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor resume harvest
  regelrecht-supervisor resume provider:claude
"""
)
@what_argument
@embedded_option
def command(what: str, embedded: bool) -> None:
    """Let supervisors take such jobs again. A provider is also freed from the troubles that they noted themselves."""

    async def work(database: Database) -> bool:
        from schema import pauses

        return await database.transact(pauses.resume, *parsed(what))

    resumed = on_database(work, embedded=embedded)
    say(f"{what}: resumed" if resumed else f"{what}: was not paused")
