"""``member``: who may do what in a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.numbers import ID
from supervisor.commands.session import embedded_option, on_database
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database


@click.group(epilog="\b\nExample:\n  regelrecht-supervisor member add 1 jan@example.org\n")
def command() -> None:
    """Let accounts into workspaces."""


@command.command(
    epilog="""\b
Examples:
  regelrecht-supervisor member add 1 jan@example.org
  regelrecht-supervisor member add 1 piet@example.org --new-account
  regelrecht-supervisor member add 1 jan@example.org \\
      --permission connectors:read --permission connectors:update
"""
)
@click.argument("workspace", type=ID)
@click.argument("who")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    default=("connectors:read",),
    show_default=True,
    help="What the account may do; may be given several times. Replaces what it could do before.",
)
@click.option("--new-account", is_flag=True, help="Make the account where there is none: WHO is its e-mail address.")
@embedded_option
def add(workspace: int, who: str, permissions: tuple[str, ...], new_account: bool, embedded: bool) -> None:
    """Let an account into a workspace, or change what it may do there. WHO: e-mail address, subject or id."""

    async def work(database: Database) -> None:
        from schema.pipelines import workspaces

        await database.run(workspaces.get_workspace, workspace)
        found = workspaces.find_or_create_account if new_account else workspaces.find_account
        account = await database.run(found, who)
        await database.transact(workspaces.add_member, workspace, account, permissions)

    on_database(work, embedded=embedded)
    say(f"{who} may do in workspace {workspace}: {', '.join(permissions)}")
