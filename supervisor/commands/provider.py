"""``provider``: deal with a provider that supervisors have benched (D52)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.pause import known_provider
from supervisor.commands.session import embedded_option, on_database
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database


@click.group(epilog="\b\nExample:\n  regelrecht-supervisor provider resume claude\n")
def command() -> None:
    """Deal with a provider that supervisors have benched: its login, bill or quota failed."""


@command.command("resume", epilog="\b\nExample:\n  regelrecht-supervisor provider resume claude\n")
@click.argument("name", metavar="NAME")
@embedded_option
def resume_provider(name: str, embedded: bool) -> None:
    """The trouble is solved: take jobs for this provider again. A pause that a person set stays."""

    async def work(database: Database) -> int:
        from schema import pauses

        return await database.transact(pauses.resume_provider, known_provider(name))

    freed = on_database(work, embedded=embedded)
    say(f"{name}: resumed" if freed else f"{name}: was in no trouble")
