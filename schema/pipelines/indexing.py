"""Connector jobs: a connector that indexes itself, without a pipeline (``pipelines.md`` 3.5 step 6, 5 step 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.credits import Pricing
from protocols.failures import InvalidInput, InvalidPayload, JsonObject
from protocols.runs import RunGone, claim_holder, connector_law_id
from schema.connection import Connection
from schema.pipelines import leases, wallet
from schema.pipelines.aftercare import give_back_index_hold, index_hold
from schema.pipelines.rows import CONNECTOR_COLUMNS, Connector, connector_of
from schema.pipelines.wallet import Usage
from schema.queue.create import create_job
from schema.rows import Job, JobRequest, JobType

SCHEDULED_PRIORITY: Final = 40
MANUAL_PRIORITY: Final = 60


class ConnectorNotFound(InvalidInput):
    """No connector has this id."""

    kind = "connector_not_found"


@frozen
class IndexContext:
    """A connector with who pays for its crawls."""

    connector: Connector
    owner_id: UUID


def read_index_payload(payload: Any) -> int:
    """The connector of a ``connector_index`` job. InvalidPayload."""
    if isinstance(payload, Mapping) and type(payload.get("connector_id")) is int:
        return int(payload["connector_id"])
    raise InvalidPayload("a connector_index job carries connector_id")


async def request_index(connection: Connection, connector: Connector, *, priority: int) -> Job | None:
    """A job that indexes the connector; None: one is active. Needs a transaction that holds the connector's row."""
    law_id = connector_law_id(connector.id)
    if await connection.fetchval(
        """
        SELECT EXISTS (SELECT FROM jobs WHERE law_id = $1 AND job_type::text = 'connector_index'
                       AND status IN ('pending', 'processing'))
        """,
        law_id,
    ):
        return None
    payload = {"connector_id": connector.id, "workspace_id": connector.workspace_id}
    return await create_job(
        connection,
        JobRequest(JobType.CONNECTOR_INDEX, law_id, priority=priority, payload=payload, max_attempts=1),
    )


async def load(connection: Connection, connector_id: int) -> IndexContext:
    """ConnectorNotFound."""
    row = await connection.fetchrow(f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = $1", connector_id)
    if row is None:
        raise ConnectorNotFound(f"there is no connector {connector_id}")
    connector = connector_of(row)
    owner = await connection.fetchval("SELECT owner_id FROM workspaces WHERE id = $1", connector.workspace_id)
    return IndexContext(connector, UUID(int=owner.int))


async def require(connection: Connection, connector_id: int) -> None:
    """RunGone when the connector was deleted; else it stays until the transaction ends."""
    if await connection.fetchval("SELECT id FROM connectors WHERE id = $1 FOR KEY SHARE", connector_id) is None:
        raise RunGone(f"connector {connector_id} was deleted while it was indexed")


async def touch(connection: Connection, connector_id: int) -> None:
    """It was indexed just now, whatever that gave."""
    await connection.execute("UPDATE connectors SET last_indexed_at = now() WHERE id = $1", connector_id)


async def hold_credit(connection: Connection, job: Job, owner_id: UUID, crawls: int, pricing: Pricing) -> int:
    """Hold the credit for so many crawls, noted in the job, and the micros. InsufficientCredits: nothing was written.

    The price of the hold is the price of the charge. Safe to repeat for the same claim.
    """
    if not pricing.billing_enabled():
        return 0
    noted = index_hold(job)
    if noted is not None:
        return noted[1]
    micros = pricing.successes_to_micros(crawls)
    hold: JsonObject = {"owner": str(owner_id), "micros": micros}
    await connection.execute(
        """
        UPDATE jobs SET payload = payload || jsonb_build_object('hold', jsonb_build_object('owner', $2::text, 'micros', $3::bigint))
        WHERE id = $1
        """,
        job.id,
        hold["owner"],
        micros,
    )
    await wallet.reserve(connection, owner_id, micros)
    return micros


async def settle(
    connection: Connection, job: Job, context: IndexContext, *, urls: int, cost_micros: int, successes: int
) -> None:
    """The settling part of the job's completion: charge what succeeded, end hold and lease."""
    noted = index_hold(job)
    there = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM workspaces WHERE id = $1)", context.connector.workspace_id
    )
    if noted is not None and cost_micros and there:
        owner, held = noted
        details = {"urls": urls, "successes": successes, "connector_id": context.connector.id}
        await connection.execute("UPDATE jobs SET payload = payload - 'hold' WHERE id = $1", job.id)
        await wallet.settle(
            connection, Usage(context.connector.workspace_id, owner, cost_micros, details), held_micros=held
        )
    else:
        await give_back_index_hold(connection, job)
    await leases.release(connection, claim_holder(job.id, job.attempts))
