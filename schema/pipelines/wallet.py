"""Crawl credit: hold before the crawl, charge or give back after it (``pipelines.md`` 4).

All arithmetic is relative and in SQL, so that runs in parallel never lose a micro; a hold is what keeps the balance from
going below zero through crawls. Amounts are micros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import structlog
from attrs import frozen

from protocols.credits import InsufficientCredits, Pricing
from protocols.failures import InvalidInput
from protocols.scrub import payload_to_json, scrub_text
from schema.connection import Connection

WEB_CRAWL: Final = "web_crawl"

_log = structlog.get_logger(__name__)


@frozen
class Wallet:
    """A balance may be negative, through other products; then nothing new is begun."""

    owner_id: UUID
    balance_micros: int = 0
    reserved_micros: int = 0

    @property
    def spendable_micros(self) -> int:
        return self.balance_micros - self.reserved_micros


@frozen
class Usage:
    """One line of the audit. ``run_id`` is unique per usage type: a run is charged at most once."""

    workspace_id: int
    owner_id: UUID
    cost_micros: int
    details: Mapping[str, Any]
    run_id: int | None = None
    usage_type: str = WEB_CRAWL


@frozen
class Imbalance:
    """An owner whose numbers do not add up. Both are 0 for everybody, always, once a transaction is over."""

    owner_id: UUID
    balance_off_micros: int
    """Balance less (entries less charges)."""
    reserved_off_micros: int
    """Holds of the wallet less those of active runs and connector jobs."""


async def wallet_of(connection: Connection, owner_id: UUID) -> Wallet:
    """An owner without a row has nothing."""
    row = await connection.fetchrow(
        "SELECT balance_micros, reserved_micros FROM credit_wallets WHERE owner_id = $1", owner_id
    )
    return Wallet(owner_id) if row is None else Wallet(owner_id, row["balance_micros"], row["reserved_micros"])


async def credit(connection: Connection, owner_id: UUID, amount_micros: int, *, reason: str, entered_by: str) -> Wallet:
    """Add to a balance (or, below zero, correct it), with a line in the audit. Needs a transaction. InvalidInput."""
    if amount_micros == 0:
        raise InvalidInput("an amount of 0 changes nothing")
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM accounts WHERE id = $1)", owner_id):
        raise InvalidInput(f"there is no account {owner_id}")
    await connection.execute(
        """
        INSERT INTO credit_wallets AS w (owner_id, balance_micros) VALUES ($1, $2)
        ON CONFLICT (owner_id) DO UPDATE SET balance_micros = w.balance_micros + excluded.balance_micros, updated_at = now()
        """,
        owner_id,
        amount_micros,
    )
    await connection.execute(
        "INSERT INTO credit_entries (owner_id, amount_micros, reason, entered_by) VALUES ($1, $2, $3, $4)",
        owner_id,
        amount_micros,
        scrub_text(reason, 500),
        scrub_text(entered_by, 200),
    )
    return await wallet_of(connection, owner_id)


async def check_credits(connection: Connection, owner_id: UUID, crawls: int, pricing: Pricing) -> None:
    """Whether so many crawls could be paid now; holds nothing. InsufficientCredits. A no-op when billing is off."""
    required = pricing.successes_to_micros(crawls)
    wallet = await wallet_of(connection, owner_id)
    if pricing.enabled and wallet.spendable_micros < required:
        raise InsufficientCredits(required_micros=required, available_micros=wallet.spendable_micros)


async def charge_credits(connection: Connection, usage: Usage, pricing: Pricing, crawls: int) -> bool:
    """Charge crawls for which nothing is held. A no-op when billing is off. True: charged. Needs a transaction."""
    if not pricing.enabled or crawls == 0:
        return False
    return await settle(connection, usage, held_micros=0)


async def reserve(connection: Connection, owner_id: UUID, amount_micros: int) -> None:
    """Hold ``amount_micros`` of what is spendable, or InsufficientCredits: then nothing was written."""
    if amount_micros == 0:
        return
    row = await connection.fetchrow(
        """
        UPDATE credit_wallets SET reserved_micros = reserved_micros + $2, updated_at = now()
        WHERE owner_id = $1 AND balance_micros - reserved_micros >= $2 RETURNING owner_id
        """,
        owner_id,
        amount_micros,
    )
    if row is None:
        wallet = await wallet_of(connection, owner_id)
        raise InsufficientCredits(required_micros=amount_micros, available_micros=wallet.spendable_micros)


async def give_back(connection: Connection, owner_id: UUID, held_micros: int) -> None:
    """End a hold without a charge. More than there is to end is a defect: it is logged, and the rest is left at 0."""
    if not held_micros:
        return
    lacking = await connection.fetchval(
        """
        WITH before AS (SELECT reserved_micros FROM credit_wallets WHERE owner_id = $1 FOR NO KEY UPDATE)
        UPDATE credit_wallets AS w SET reserved_micros = GREATEST(0, w.reserved_micros - $2), updated_at = now()
        FROM before WHERE w.owner_id = $1 RETURNING $2 - before.reserved_micros
        """,
        owner_id,
        held_micros,
    )
    if lacking is not None and lacking > 0:
        _log.error("more was held than the wallet knows", owner_id=str(owner_id), lacking_micros=lacking)


async def settle(connection: Connection, usage: Usage, *, held_micros: int) -> bool:
    """End a hold by a charge, with its line in the audit; one transaction with what it belongs to (WB-05).

    False: this run has its line already, so it was charged before, and only the hold ends. The charge is made even if
    the balance fell below it meanwhile: the service was delivered.
    """
    line = await connection.fetchval(
        """
        INSERT INTO token_usage (usage_type, workspace_id, user_id, cost_micros, call_details, pipeline_run_id)
        VALUES ($1, $2, $3, $4, $5::text::jsonb, $6)
        ON CONFLICT (pipeline_run_id, usage_type) WHERE pipeline_run_id IS NOT NULL DO NOTHING RETURNING id
        """,
        usage.usage_type,
        usage.workspace_id,
        usage.owner_id,
        usage.cost_micros,
        payload_to_json(dict(usage.details)),
        usage.run_id,
    )
    await give_back(connection, usage.owner_id, held_micros)
    if line is None:
        return False
    await connection.execute(
        """
        INSERT INTO credit_wallets AS w (owner_id, balance_micros) VALUES ($1, -$2::bigint)
        ON CONFLICT (owner_id) DO UPDATE SET balance_micros = w.balance_micros - $2, updated_at = now()
        """,
        usage.owner_id,
        usage.cost_micros,
    )
    return True


async def imbalances(connection: Connection) -> Sequence[Imbalance]:
    """Owners whose wallet does not agree with the audit and the holds, in one snapshot. Empty unless there is a defect,
    or a workspace was deleted: its audit goes with it.
    """
    rows = await connection.fetch(
        """
        WITH owner AS (
            SELECT owner_id FROM credit_wallets UNION SELECT owner_id FROM credit_entries
            UNION SELECT user_id FROM token_usage WHERE cost_micros > 0
        ), sums AS (
            SELECT o.owner_id,
                COALESCE((SELECT balance_micros FROM credit_wallets AS w WHERE w.owner_id = o.owner_id), 0)
                - COALESCE((SELECT sum(amount_micros) FROM credit_entries AS e WHERE e.owner_id = o.owner_id), 0)
                + COALESCE((SELECT sum(cost_micros) FROM token_usage AS u WHERE u.user_id = o.owner_id), 0) AS balance_off,
                COALESCE((SELECT reserved_micros FROM credit_wallets AS w WHERE w.owner_id = o.owner_id), 0)
                - COALESCE((SELECT sum(reserved_micros) FROM pipeline_runs AS r WHERE r.reserved_owner_id = o.owner_id
                            AND r.status IN ('pending', 'running')), 0)
                - COALESCE((SELECT sum((j.payload #>> '{hold,micros}')::bigint) FROM jobs AS j
                            WHERE j.job_type::text = 'connector_index' AND j.status IN ('pending', 'processing')
                              AND j.payload #>> '{hold,owner}' = o.owner_id::text), 0) AS reserved_off
            FROM owner AS o
        )
        SELECT owner_id, balance_off::bigint, reserved_off::bigint FROM sums
        WHERE balance_off <> 0 OR reserved_off <> 0 ORDER BY owner_id
        """
    )
    return [Imbalance(UUID(int=row["owner_id"].int), row["balance_off"], row["reserved_off"]) for row in rows]
