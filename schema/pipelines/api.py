"""What the HTTP interface asks: everything within one workspace, so that an id of another is as good as none.

One unit of work each. What is not there is one of the ``...NotFound``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from protocols.failures import InvalidInput
from schema.connection import Connection
from schema.pipelines import asking, history, indexing, items, manage, wallet
from schema.pipelines.asking import PipelineNotFound, RunState
from schema.pipelines.history import Children
from schema.pipelines.indexing import ConnectorNotFound
from schema.pipelines.periodic import PeriodicChange
from schema.pipelines.rows import (
    CONNECTOR_COLUMNS,
    PIPELINE_COLUMNS,
    Connector,
    Item,
    Pipeline,
    Run,
    connector_of,
    pipeline_of,
)
from schema.pipelines.wallet import Wallet
from schema.pipelines.workspaces import get_workspace
from schema.records import json_of
from schema.rows import Job
from schema.tokens import Principal

KEY_LIFE_HOURS: Final = 24


class KeyReused(InvalidInput):
    """The Idempotency-Key stands for another request."""

    kind = "idempotency_key_reused"


class IndexActive(InvalidInput):
    """A job of the connector waits or runs."""

    kind = "connector_busy"


@frozen
class WorkspaceView:
    """A workspace with the wallet of its owner, read through."""

    id: int
    name: str
    wallet: Wallet


@frozen
class RunDetail:
    """A run with what changes while it lasts. ``progress`` is its job's; ``children`` are the harvests of a law run."""

    run: Run
    progress: Any
    children: Children


@frozen
class StoredResult:
    """Where the result of a run is kept. ``key`` None: there is none, or not any more."""

    run_id: int
    key: str | None
    backend: str | None


async def workspace_view(connection: Connection, workspace_id: int) -> WorkspaceView:
    """WorkspaceNotFound."""
    found = await get_workspace(connection, workspace_id)
    return WorkspaceView(found.id, found.name, await wallet.wallet_of(connection, found.owner_id))


# --- pipelines --------------------------------------------------------------------------------------------------------


async def pipeline_in(connection: Connection, workspace_id: int, pipeline_id: int, *, lock: str = "") -> Pipeline:
    """PipelineNotFound when it is not in that workspace."""
    found = await manage.get_pipeline(connection, pipeline_id, lock=lock)
    if found.workspace_id != workspace_id:
        raise PipelineNotFound(f"there is no pipeline {pipeline_id}")
    return found


async def pipelines_of(
    connection: Connection, workspace_id: int, *, limit: int, offset: int = 0
) -> tuple[list[Pipeline], int]:
    """A page of the pipelines by id, and how many there are in all."""
    rows = await connection.fetch(
        f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE workspace_id = $1 ORDER BY id LIMIT $2 OFFSET $3",
        workspace_id,
        limit,
        offset,
    )
    total = await connection.fetchval("SELECT count(*) FROM pipelines WHERE workspace_id = $1", workspace_id)
    return [pipeline_of(row) for row in rows], int(total)


async def change_pipeline(
    connection: Connection, workspace_id: int, pipeline_id: int, changes: Mapping[str, Any]
) -> tuple[Pipeline, PeriodicChange]:
    """``manage.update_pipeline`` within a workspace."""
    await pipeline_in(connection, workspace_id, pipeline_id, lock="FOR NO KEY UPDATE")
    return await manage.update_pipeline(connection, pipeline_id, changes)


async def remove_pipeline(connection: Connection, workspace_id: int, pipeline_id: int) -> PeriodicChange:
    """``manage.delete_pipeline`` within a workspace."""
    await pipeline_in(connection, workspace_id, pipeline_id)
    return await manage.delete_pipeline(connection, pipeline_id)


# --- connectors -------------------------------------------------------------------------------------------------------


async def connector_in(connection: Connection, workspace_id: int, connector_id: int, *, lock: str = "") -> Connector:
    """ConnectorNotFound when it is not in that workspace."""
    row = await connection.fetchrow(
        f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = $1 AND workspace_id = $2 {lock}",
        connector_id,
        workspace_id,
    )
    if row is None:
        raise ConnectorNotFound(f"there is no connector {connector_id}")
    return connector_of(row)


async def connectors_of(
    connection: Connection, workspace_id: int, *, limit: int, offset: int = 0
) -> tuple[list[Connector], int]:
    """A page of the connectors by id, and how many there are in all."""
    rows = await connection.fetch(
        f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE workspace_id = $1 ORDER BY id LIMIT $2 OFFSET $3",
        workspace_id,
        limit,
        offset,
    )
    total = await connection.fetchval("SELECT count(*) FROM connectors WHERE workspace_id = $1", workspace_id)
    return [connector_of(row) for row in rows], int(total)


async def change_connector(
    connection: Connection, workspace_id: int, connector_id: int, changes: Mapping[str, Any]
) -> Connector:
    """``manage.update_connector`` within a workspace."""
    await connector_in(connection, workspace_id, connector_id)
    return await manage.update_connector(connection, connector_id, changes)


async def remove_connector(connection: Connection, workspace_id: int, connector_id: int) -> None:
    """``manage.delete_connector`` within a workspace."""
    await connector_in(connection, workspace_id, connector_id)
    await manage.delete_connector(connection, connector_id)


async def index_connector(connection: Connection, workspace_id: int, connector_id: int) -> Job:
    """A job that indexes the connector now. IndexActive; InvalidInput when it cannot be indexed."""
    connector = await connector_in(connection, workspace_id, connector_id, lock="FOR NO KEY UPDATE")
    if not connector.is_indexable:
        raise InvalidInput("this connector is not indexable: set is_indexable first")
    job = await indexing.request_index(connection, connector, priority=indexing.MANUAL_PRIORITY)
    if job is None:
        raise IndexActive(f"a job that indexes connector {connector_id} waits or runs already")
    return job


# --- runs -------------------------------------------------------------------------------------------------------------


async def ask_for_run(
    connection: Connection, principal: Principal, pipeline_id: int, *, if_idle: bool = False, key: str | None = None
) -> Run:
    """A manual run, or the one that the same ``key`` has made within a day. PipelineNotFound, RunState, KeyReused.

    Two requests with one key at once: the second waits for the first and gets its run.
    """
    await pipeline_in(connection, principal.workspace_id, pipeline_id)
    if key is not None:
        earlier = await _take_key(connection, principal, pipeline_id, key)
        if earlier is not None:
            return await history.run_within(connection, principal.workspace_id, pipeline_id, earlier)
    run = await asking.request_run(connection, pipeline_id, triggered_by=principal.account_id, if_idle=if_idle)
    if key is not None:
        await connection.execute(
            "UPDATE api_idempotency_keys SET run_id = $3 WHERE account_id = $1 AND key = $2",
            principal.account_id,
            key,
            run.id,
        )
    return run


async def cancel_run(connection: Connection, workspace_id: int, pipeline_id: int, run_id: int) -> Run:
    """``asking.cancel_run`` within a pipeline of a workspace."""
    await history.run_within(connection, workspace_id, pipeline_id, run_id)
    return await asking.cancel_run(connection, run_id)


async def runs_page(
    connection: Connection, workspace_id: int, pipeline_id: int, *, limit: int, offset: int
) -> tuple[Sequence[Run], int]:
    """``history.runs_of`` within a workspace."""
    await pipeline_in(connection, workspace_id, pipeline_id)
    return await history.runs_of(connection, pipeline_id, limit=limit, offset=offset)


async def run_detail(connection: Connection, workspace_id: int, pipeline_id: int, run_id: int) -> RunDetail:
    """RunNotFound when the run is not of that pipeline in that workspace."""
    run = await history.run_within(connection, workspace_id, pipeline_id, run_id)
    progress = await connection.fetchval("SELECT progress::text FROM jobs WHERE id = $1", run.job_id)
    return RunDetail(run, json_of(progress), await history.children_of(connection, run_id))


async def items_page(
    connection: Connection, workspace_id: int, pipeline_id: int, run_id: int, *, limit: int, offset: int
) -> tuple[list[Item], int]:
    """A page of the targets of a run in order, and how many there are in all. RunNotFound."""
    await history.run_within(connection, workspace_id, pipeline_id, run_id)
    total = await connection.fetchval("SELECT count(*) FROM pipeline_run_items WHERE run_id = $1", run_id)
    return await items.page_of(connection, run_id, limit=limit, offset=offset), int(total)


async def stored_result(connection: Connection, workspace_id: int, pipeline_id: int, run_id: int) -> StoredResult:
    """RunNotFound. By the clock of the database: what has expired is not there, whether it was deleted yet or not."""
    run = await history.run_within(connection, workspace_id, pipeline_id, run_id)
    now: dt.datetime = await connection.fetchval("SELECT now()")
    if run.result_expires_at is not None and run.result_expires_at <= now:
        return StoredResult(run.id, None, None)
    return StoredResult(run.id, run.result_blob_key, run.result_blob_backend)


async def _take_key(connection: Connection, principal: Principal, pipeline_id: int, key: str) -> int | None:
    """The run that the key stands for; None: it is ours now."""
    await connection.execute(
        """
        DELETE FROM api_idempotency_keys WHERE (account_id, key) IN (
            SELECT account_id, key FROM api_idempotency_keys WHERE created_at < now() - $1::int * interval '1 hour'
            ORDER BY created_at LIMIT 100 FOR UPDATE SKIP LOCKED)
        """,
        KEY_LIFE_HOURS,
    )
    taken = await connection.fetchval(
        """
        INSERT INTO api_idempotency_keys (account_id, key, pipeline_id) VALUES ($1, $2, $3)
        ON CONFLICT DO NOTHING RETURNING true
        """,
        principal.account_id,
        key,
        pipeline_id,
    )
    if taken:
        return None
    row = await connection.fetchrow(
        "SELECT pipeline_id, run_id FROM api_idempotency_keys WHERE account_id = $1 AND key = $2",
        principal.account_id,
        key,
    )
    if row is None:
        raise RunState("the Idempotency-Key has just expired: send the request again")
    if row["pipeline_id"] != pipeline_id:
        raise KeyReused("this Idempotency-Key was used for a run of another pipeline: choose a new one")
    return int(row["run_id"])
