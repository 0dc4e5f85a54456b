"""``member``: who may do what in a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.session import embedded_option, on_database

if TYPE_CHECKING:
    from actors.ports.database import Database


@click.group(
    epilog="\b\nExample:\n  regelrecht-supervisor member add 1 jan@example.org --permission connectors:update\n"
)
def command() -> None:
    """Let accounts into workspaces."""


@command.command(
    epilog="""\b
Examples:
  regelrecht-supervisor member add 1 jan@example.org
  regelrecht-supervisor member add 1 jan@example.org --permission connectors:read --permission connectors:update
"""
)
@click.argument("workspace", type=int)
@click.argument("who")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    default=("connectors:read",),
    show_default=True,
    help="What the account may do; may be given several times. Replaces what it could do before.",
)
@embedded_option
def add(workspace: int, who: str, permissions: tuple[str, ...], embedded: bool) -> None:
    """Let an account into a workspace, or change what it may do there. WHO: e-mail address, subject or id."""

    async def work(database: Database) -> None:
        from schema.pipelines import workspaces

        account = await database.run(workspaces.find_account, who)
        await database.transact(workspaces.add_member, workspace, account, permissions)

    on_database(work, embedded=embedded)
    say(f"{who} may do in workspace {workspace}: {', '.join(permissions)}")
