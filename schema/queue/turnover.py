"""Completing jobs and claiming the next ones in one transaction: one commit and one crossing for both (D8)."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.failures import JsonObject
from schema.connection import Connection
from schema.queue.claim import claim
from schema.queue.endings import complete_many
from schema.queue.terms import ClaimAnswer, ClaimRequest
from schema.rows import Lease


async def turn_over(
    connection: Connection, results: Mapping[Lease, JsonObject | None], request: ClaimRequest
) -> tuple[frozenset[Lease], ClaimAnswer]:
    """Complete jobs that have nothing to settle, then claim. The completed ones; a lease that was lost is not among them.

    To be run as a transaction. When its outcome is unclear, either both happened or neither did.
    """
    done = await complete_many(connection, results) if results else set()
    return frozenset(done), await claim(connection, request)
