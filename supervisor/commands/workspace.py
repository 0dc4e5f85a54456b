"""``workspace``: the places that pipelines belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.session import embedded_option, json_option, on_database, print_json, print_table
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from actors.ports.database import Database
    from schema.pipelines.workspaces import Workspace


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor workspace create Beleid --owner jan@example.org \\
      --new-account
  regelrecht-supervisor workspace list
"""
)
def command() -> None:
    """Make or list workspaces: the owner of one pays for what its pipelines crawl."""


@command.command(
    epilog="""\b
Examples:
  regelrecht-supervisor workspace create "Beleid" --owner jan@example.org
  regelrecht-supervisor workspace create Proef --owner jan@example.org \\
      --new-account

\b
The first needs an account that is there: the platform makes one when somebody
logs in. The second makes it where there is none.
"""
)
@click.argument("name")
@click.option("--owner", required=True, metavar="WHO", help="Account: e-mail address, subject or id.")
@click.option("--new-account", is_flag=True, help="Make the account where there is none: WHO is its e-mail address.")
@embedded_option
def create(name: str, owner: str, new_account: bool, embedded: bool) -> None:
    """Make a workspace. Its owner may do everything in it."""

    async def work(database: Database) -> Workspace:
        from schema.pipelines import workspaces

        found = workspaces.find_or_create_account if new_account else workspaces.find_account
        account = await database.run(found, owner)
        return await database.transact(workspaces.create_workspace, name, account)

    made = on_database(work, embedded=embedded)
    say(f"workspace {made.id}: {made.name}")


@command.command("list", epilog="\b\nExample:\n  regelrecht-supervisor workspace list --json\n")
@json_option
@embedded_option
def list_(as_json: bool, embedded: bool) -> None:
    """List workspaces with their owners."""

    async def work(database: Database) -> Sequence[Mapping[str, Any]]:
        from schema.pipelines import workspaces

        return await database.run(workspaces.list_workspaces)

    found = on_database(work, embedded=embedded)
    if as_json:
        print_json(found)
    elif found:
        rows = [(str(one["id"]), one["name"], one["owner"]) for one in found]
        print_table(("ID", "NAME", "OWNER"), rows, flexible=("NAME", "OWNER"))
    else:
        say("no workspaces", err=True)
