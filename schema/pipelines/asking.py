"""What is asked of runs: begin one, end one. One transaction each."""

from __future__ import annotations

import datetime as dt
from typing import Final
from uuid import UUID

from protocols.failures import InvalidInput
from protocols.runs import RunPayload, RunStatus, Trigger, pipeline_law_id
from schema import requests
from schema.connection import Connection
from schema.pipelines import runs
from schema.pipelines.rows import PIPELINE_COLUMNS, RUN_COLUMNS, Pipeline, Run, pipeline_of, run_of
from schema.pipelines.runs import RunNotFound
from schema.queue.create import create_job
from schema.records import plain_uuid
from schema.rows import JobRequest, JobType

MANUAL_PRIORITY: Final = 60
SCHEDULED_PRIORITY: Final = 40
RUN_ATTEMPTS: Final = 2
"""One more drive when a worker was lost, and none for what the run met."""


class PipelineNotFound(InvalidInput):
    """No pipeline has this id, or not within what was asked for."""

    kind = "pipeline_not_found"


class RunState(InvalidInput):
    """The run is in a state in which the request makes no sense; the text names the state."""

    kind = "run_state"


async def create_run(
    connection: Connection,
    pipeline: Pipeline,
    trigger: Trigger,
    *,
    priority: int,
    triggered_by: UUID | None = None,
    scheduled_for: dt.datetime | None = None,
) -> Run | None:
    """A pending run and its job. None: this fire has its run already. Needs a transaction that holds the pipeline."""
    run_id = await connection.fetchval(
        """
        INSERT INTO pipeline_runs (pipeline_id, trigger, triggered_by_id, scheduled_for)
        VALUES ($1, $2::text::pipeline_run_trigger, $3, $4)
        ON CONFLICT (pipeline_id, scheduled_for) WHERE scheduled_for IS NOT NULL DO NOTHING RETURNING id
        """,
        pipeline.id,
        trigger.value,
        triggered_by,
        scheduled_for,
    )
    if run_id is None:
        return None
    payload = RunPayload(run_id, pipeline.id, pipeline.workspace_id, trigger).to_document()
    request = JobRequest(
        JobType.PIPELINE_RUN,
        pipeline_law_id(pipeline.id),
        priority=priority,
        payload=payload,
        max_attempts=RUN_ATTEMPTS,
    )
    job = await create_job(connection, request)
    row = await connection.fetchrow(
        f"UPDATE pipeline_runs SET job_id = $2 WHERE id = $1 RETURNING {RUN_COLUMNS}", run_id, job.id
    )
    assert row is not None
    return run_of(row)


async def request_run(
    connection: Connection, pipeline_id: int, *, triggered_by: UUID | None = None, if_idle: bool = False
) -> Run:
    """A run that a person asks for; a pipeline that is switched off may be run too. Needs a transaction.

    PipelineNotFound. With ``if_idle`` RunState when a run is pending or running; without it the second run is made and
    will say so itself.
    """
    lock = "FOR NO KEY UPDATE" if if_idle else "FOR KEY SHARE"
    row = await connection.fetchrow(f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE id = $1 {lock}", pipeline_id)
    if row is None:
        raise PipelineNotFound(f"there is no pipeline {pipeline_id}")
    if if_idle and await has_active_run(connection, pipeline_id):
        raise RunState(f"a run of pipeline {pipeline_id} is pending or running")
    run = await create_run(
        connection, pipeline_of(row), Trigger.MANUAL, priority=MANUAL_PRIORITY, triggered_by=triggered_by
    )
    assert run is not None
    return run


async def cancel_run(connection: Connection, run_id: int) -> Run:
    """End a run: one that waits at once, a running one as soon as its holder hears of it. Needs a transaction.

    RunNotFound; RunState when it has ended. A cancelled run costs nothing, whatever it had fetched.
    """
    job_id = plain_uuid(await connection.fetchval("SELECT job_id FROM pipeline_runs WHERE id = $1", run_id))
    job = None if job_id is None else await _active_job(connection, job_id)
    run = await runs.locked(connection, run_id)
    if run is None:
        raise RunNotFound(f"there is no run {run_id}")
    if run.status.terminal:
        raise RunState(f"run {run_id} is {run.status} already")
    await connection.execute("UPDATE pipeline_runs SET cancel_requested_at = now() WHERE id = $1", run_id)
    if job is None:
        await runs.end_badly(connection, run, RunStatus.CANCELLED)
    else:
        await requests.cancel(connection, job)
    return await runs.get_run(connection, run_id)


async def has_active_run(connection: Connection, pipeline_id: int) -> bool:
    """Whether a run of the pipeline is pending or running."""
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pipeline_runs WHERE pipeline_id = $1 AND status IN ('pending', 'running'))",
            pipeline_id,
        )
    )


async def _active_job(connection: Connection, job_id: UUID) -> UUID | None:
    """The job, locked before its run is, while it waits or runs."""
    found = await connection.fetchval(
        "SELECT id FROM jobs WHERE id = $1 AND status IN ('pending', 'processing') FOR UPDATE", job_id
    )
    return plain_uuid(found)
