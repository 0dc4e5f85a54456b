"""``wallet``: crawl credit of accounts, with every change on record (D70)."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import click

from supervisor.commands.numbers import MOST_MICROS
from supervisor.commands.session import embedded_option, json_option, on_database, print_json
from supervisor.money import dollars
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ports.database import Database
    from schema.pipelines.wallet import Imbalance, Wallet


@click.group(
    epilog="""\b
Examples:
  regelrecht-supervisor wallet credit jan@example.org 5000000 --reason invoice
  regelrecht-supervisor wallet show jan@example.org
"""
)
def command() -> None:
    """Credit or show the wallet of an account. Amounts are micros: 1000000 are one dollar."""


@command.command(
    context_settings={"ignore_unknown_options": True},  # so that -2000 is an amount
    epilog="""\b
Examples:
  regelrecht-supervisor wallet credit jan@example.org 5000000 --reason invoice
  regelrecht-supervisor wallet credit jan@example.org -2000 --reason wrong
""",
)
@click.argument("who")
@click.argument("micros", type=click.IntRange(-MOST_MICROS, MOST_MICROS))
@click.option("--reason", required=True, help="Why; it is kept with the entry, as is who entered it.")
@embedded_option
def credit(who: str, micros: int, reason: str, embedded: bool) -> None:
    """Add MICROS to a wallet; a negative amount corrects an entry of before."""

    async def work(database: Database) -> Wallet:
        from schema.pipelines import wallet, workspaces

        account = await database.run(workspaces.find_account, who)
        return await database.transact(wallet.credit, account, micros, reason=reason, entered_by=_user())

    _print(who, on_database(work, embedded=embedded))


@command.command(epilog="\b\nExample:\n  regelrecht-supervisor wallet show jan@example.org --json\n")
@click.argument("who")
@json_option
@embedded_option
def show(who: str, as_json: bool, embedded: bool) -> None:
    """Show what an account has, and whether its numbers add up."""

    async def work(database: Database) -> tuple[Wallet, Sequence[Imbalance]]:
        from schema.pipelines import wallet, workspaces

        account = await database.run(workspaces.find_account, who)
        found = await database.run(wallet.wallet_of, account)
        return found, [off for off in await database.run(wallet.imbalances) if off.owner_id == account]

    found, off = on_database(work, embedded=embedded)
    if as_json:
        print_json(
            {
                "owner_id": found.owner_id,
                "balance_micros": found.balance_micros,
                "reserved_micros": found.reserved_micros,
                "spendable_micros": found.spendable_micros,
                "adds_up": not off,
            }
        )
        return
    _print(who, found)
    for line in off:
        say(
            f"does not add up: balance by {line.balance_off_micros}, holds by {line.reserved_off_micros} micros",
            err=True,
        )


def _print(who: str, found: Wallet) -> None:
    say(
        f"{who}: {found.balance_micros} micros ({dollars(found.balance_micros)}), "
        f"of which {found.reserved_micros} are held by runs"
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "?"
