"""Looking at runs without changing them. Nothing here widens the workspace that it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from protocols.runhistory import DEFAULT_LIMIT, RunLine, clamp_limit
from schema.connection import Connection
from schema.pipelines.rows import RUN_COLUMNS, Run, run_of
from schema.pipelines.runs import RunNotFound
from schema.records import columns_of

_READ_LIMIT_MS: Final = 5000
_ID_MAX: Final = 2**63 - 1


@frozen
class Children:
    """The harvests of a run over laws, as they are now: the run itself is over when all are queued."""

    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    changed: int = 0


async def recent_runs(
    connection: Connection, workspace_id: int, *, pipeline_id: int | None = None, limit: int = DEFAULT_LIMIT
) -> list[RunLine]:
    """The newest runs of one workspace; another's pipeline has none, just as one that does not exist."""
    rows = await connection.fetch(
        """
        SELECT r.id AS run_id, p.id AS pipeline_id, p.name, r.status::text AS status, r.trigger::text AS trigger,
               p.schedule_cron, p.schedule_timezone, r.started_at, r.finished_at, r.documents_indexed, r.crawls_attempted,
               r.crawls_succeeded, r.charged_micros, r.error->>'message' AS error
        FROM pipeline_runs AS r JOIN pipelines AS p ON p.id = r.pipeline_id
        WHERE p.workspace_id = $1 AND ($2::bigint IS NULL OR p.id = $2)
        ORDER BY r.created_at DESC, r.id DESC LIMIT $3
        """,
        workspace_id,
        pipeline_id,
        clamp_limit(limit),
    )
    return [RunLine(**row) for row in rows]


async def recent_runs_read_only(
    connection: Connection, workspace_id: int, *, pipeline_id: int | None, limit: int
) -> list[RunLine]:
    """The same, in a transaction that cannot write. A number that can be no id names no pipeline."""
    await read_only(connection)
    if pipeline_id is not None and not 0 < pipeline_id <= _ID_MAX:
        return []
    return await recent_runs(connection, workspace_id, pipeline_id=pipeline_id, limit=limit)


async def read_only(connection: Connection) -> None:
    """For the rest of this transaction: no writes, and 5 s for a statement."""
    await connection.execute("SET TRANSACTION READ ONLY")
    await connection.execute("SELECT set_config('statement_timeout', $1, true)", str(_READ_LIMIT_MS))


async def runs_of(
    connection: Connection, pipeline_id: int, *, limit: int = 50, offset: int = 0
) -> tuple[Sequence[Run], int]:
    """A page of a pipeline's runs, the newest first, and how many there are in all."""
    rows = await connection.fetch(
        f"""
        SELECT {RUN_COLUMNS} FROM pipeline_runs WHERE pipeline_id = $1
        ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
        """,
        pipeline_id,
        limit,
        offset,
    )
    total = await connection.fetchval("SELECT count(*) FROM pipeline_runs WHERE pipeline_id = $1", pipeline_id)
    return [run_of(row) for row in rows], int(total)


async def run_within(connection: Connection, workspace_id: int, pipeline_id: int, run_id: int) -> Run:
    """RunNotFound when the run is not of that pipeline in that workspace."""
    row = await connection.fetchrow(
        f"""
        SELECT {columns_of("r", RUN_COLUMNS)} FROM pipeline_runs AS r JOIN pipelines AS p ON p.id = r.pipeline_id
        WHERE r.id = $1 AND p.id = $2 AND p.workspace_id = $3
        """,
        run_id,
        pipeline_id,
        workspace_id,
    )
    if row is None:
        raise RunNotFound(f"there is no run {run_id} of pipeline {pipeline_id}")
    return run_of(row)


async def children_of(connection: Connection, run_id: int) -> Children:
    """What has become of the harvests that a run over laws queued."""
    row = await connection.fetchrow(
        """
        SELECT count(*) FILTER (WHERE j.status = 'pending') AS pending,
            count(*) FILTER (WHERE j.status = 'processing') AS processing,
            count(*) FILTER (WHERE j.status = 'completed') AS completed,
            count(*) FILTER (WHERE j.status = 'failed') AS failed,
            count(*) FILTER (WHERE j.status = 'completed' AND j.result->>'changed' = 'true') AS changed
        FROM pipeline_run_items AS i JOIN jobs AS j ON j.id = i.job_id WHERE i.run_id = $1
        """,
        run_id,
    )
    assert row is not None
    return Children(**row)
