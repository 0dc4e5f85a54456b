"""``token``: who may speak to the HTTP interface, for which workspace, to do what (D70)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.numbers import ID, FiniteRange
from supervisor.commands.session import embedded_option, json_option, on_database, print_json, print_table, this_user
from supervisor.terminaltext import say

if TYPE_CHECKING:
    import datetime as dt

    from actors.ports.database import Database
    from schema.tokens import NewToken, Token


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor token create --workspace 3 --account jan@example.org \\
      --name dashboard --days 90
  regelrecht-supervisor token list
  regelrecht-supervisor token revoke 7
"""
)
def command() -> None:
    """Make, list or revoke tokens of the HTTP interface."""


@command.command()
@click.option("--workspace", type=ID, required=True, help="The workspace it is for.")
@click.option("--account", required=True, help="In whose name: id, subject or e-mail address of a member.")
@click.option("--name", required=True, help="What it is for, for those who see the list.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    default=("connectors:read",),
    show_default=True,
    help="What it allows; may be given several times. Never more than the account may do at that moment.",
)
@click.option("--days", type=FiniteRange(min=0, min_open=True, max=3660), help="Valid so long. Without: until revoked.")
@json_option
@embedded_option
def create(
    workspace: int,
    account: str,
    name: str,
    permissions: tuple[str, ...],
    days: float | None,
    as_json: bool,
    embedded: bool,
) -> None:
    """Make a token. It is shown now and never again."""

    async def work(database: Database) -> NewToken:
        from schema import tokens
        from schema.pipelines import workspaces

        owner = await database.run(workspaces.find_account, account)
        return await database.transact(
            tokens.create_token,
            owner,
            workspace,
            name=name,
            permissions=permissions,
            created_by=this_user(),
            valid_days=days,
        )

    made = on_database(work, embedded=embedded)
    if as_json:
        print_json({"id": made.token.id, "token": made.text, "expires_at": made.token.expires_at})
        return
    say(made.text)
    say(f"token {made.token.id}: keep it now, it cannot be shown again", err=True)


@command.command("list")
@click.option("--workspace", type=ID, help="Only those for this workspace.")
@json_option
@embedded_option
def list_(workspace: int | None, as_json: bool, embedded: bool) -> None:
    """List tokens, the revoked and the expired too. The tokens themselves cannot be shown."""

    async def work(database: Database) -> tuple[list[Token], dt.datetime]:
        from schema import tokens
        from schema.pipelines.scheduling import database_now

        return await database.run(tokens.list_tokens, workspace_id=workspace), await database.run(database_now)

    found, now = on_database(work, embedded=embedded)
    if as_json:
        print_json(found)
        return
    if not found:
        say("no tokens", err=True)
        return
    headings = ("ID", "WORKSPACE", "NAME", "ACCOUNT", "STATE UTC", "USED UTC", "PERMISSIONS")
    print_table(headings, [_cells(token, now) for token in found], flexible=("PERMISSIONS", "NAME", "ACCOUNT"))


@command.command()
@click.argument("token_id", metavar="ID", type=ID)
@embedded_option
def revoke(token_id: int, embedded: bool) -> None:
    """Make a token good for nothing, from the next request on."""

    async def work(database: Database) -> tuple[Token, bool]:
        from schema import tokens

        return await database.run(tokens.revoke_token, token_id)

    revoked, new = on_database(work, embedded=embedded)
    when = "" if new or revoked.revoked_at is None else f" already, at {revoked.revoked_at:%Y-%m-%d %H:%M} UTC"
    say(f"token {revoked.id} ({revoked.name}): revoked{when}")


def _cells(token: Token, now: dt.datetime) -> tuple[str, ...]:
    state = "valid"
    if token.expires_at is not None:
        state = "expired" if token.expires_at <= now else f"until {token.expires_at:%Y-%m-%d %H:%M}"
    if token.revoked_at is not None:
        state = "revoked"
    used = "never" if token.last_used_at is None else f"{token.last_used_at:%Y-%m-%d %H:%M}"
    who = token.account or str(token.account_id)
    return str(token.id), str(token.workspace_id), token.name, who, state, used, ",".join(token.permissions)
