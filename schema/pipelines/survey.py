"""What goes on in the pipelines of all workspaces, for who runs the service. Never shown to a workspace.

Each function makes its transaction one that cannot write, and takes at most 5 s for a statement.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from attrs import frozen

from protocols.runhistory import clamp_limit
from schema.connection import Connection
from schema.pipelines import wallet, workspaces
from schema.pipelines.history import read_only
from schema.pipelines.leases import Resource
from schema.pipelines.rows import RUN_COLUMNS, Run, run_of
from schema.pipelines.wallet import Imbalance, Wallet

MOST_LEASES: Final = 200


@frozen
class HeldLease:
    """One row of ``leases``. ``left_s`` by the database's clock; below 0 it has ended, and who comes next takes it over."""

    kind: Resource
    resource_id: int
    holder: str
    acquired_at: dt.datetime
    left_s: float


@frozen
class WalletSeen:
    """``off`` None: the numbers of this owner add up."""

    wallet: Wallet
    off: Imbalance | None


async def newest_runs(
    connection: Connection, *, pipeline_id: int | None = None, active: bool = False, limit: int
) -> Sequence[Run]:
    """The newest first, 1 to 100. ``active``: only those that wait or run. Needs a transaction."""
    await read_only(connection)
    rows = await connection.fetch(
        f"""
        SELECT {RUN_COLUMNS} FROM pipeline_runs
        WHERE ($1::bigint IS NULL OR pipeline_id = $1) AND (NOT $2::boolean OR status IN ('pending', 'running'))
        ORDER BY id DESC LIMIT $3
        """,
        pipeline_id,
        active,
        clamp_limit(limit),
    )
    return [run_of(row) for row in rows]


async def held_leases(connection: Connection) -> Sequence[HeldLease]:
    """By kind and id, at most 200. Needs a transaction."""
    await read_only(connection)
    rows = await connection.fetch(
        """
        SELECT kind, resource_id, holder, acquired_at, extract(epoch FROM expires_at - now())::float8 AS left_s
        FROM leases ORDER BY kind, resource_id LIMIT $1
        """,
        MOST_LEASES,
    )
    return [
        HeldLease(Resource(row["kind"]), row["resource_id"], row["holder"], row["acquired_at"], row["left_s"])
        for row in rows
    ]


async def wallet_seen(connection: Connection, owner: str | UUID) -> WalletSeen:
    """Of an account by id, subject or e-mail address. AccountNotFound. Needs a transaction."""
    await read_only(connection)
    account = await workspaces.find_account(connection, str(owner))
    off = [found for found in await wallet.imbalances(connection) if found.owner_id == account]
    return WalletSeen(await wallet.wallet_of(connection, account), off[0] if off else None)
