"""What becomes of a run, and of what a connector job holds, when its job does not complete (``pipelines.md`` 2.5, 2.6).

One set of functions for the worker's own failure, the reaper, a hand-back and a cancel, in the transaction that ends the
claim. ``schema.aftercare`` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from protocols.failures import JobTimedOut, LawEnd, SupervisorError
from protocols.runs import ORPHANED, WORKER_LOST, RunError, RunFailed, RunStatus
from schema.connection import Connection
from schema.pipelines import leases, runs, wallet
from schema.pipelines.rows import RUN_COLUMNS, Run, run_of
from schema.records import columns_of
from schema.rows import Job

if TYPE_CHECKING:
    from schema.aftercare import Ending

ORPHAN_MINUTES: Final = 5
"""How long a run may be active without an active job before the second net takes it."""


async def run_failed(connection: Connection, ending: Ending) -> None:
    """The job is over, so the run is: cancelled on request, else failed with what is known."""
    run = await _active_run(connection, ending.job)
    if run is not None and ending.law_end is LawEnd.RESTORE:
        await runs.end_badly(connection, run, RunStatus.CANCELLED)
    elif run is not None:
        await runs.end_badly(connection, run, RunStatus.FAILED, error=error_of(ending.failure).to_document())
    await _let_go(connection, ending.job, interrupted=True)


async def run_retried(connection: Connection, ending: Ending) -> None:
    """The worker was lost and attempts are left: pending again, and counted as driven once more."""
    run = await _active_run(connection, ending.job)
    if run is not None:
        await _back_to_pending(connection, run, redriven=True)
    await _let_go(connection, ending.job, interrupted=True)


async def run_restored(connection: Connection, ending: Ending) -> None:
    """Handed back: as if this claim had never been; what it finished stays finished."""
    run = await _active_run(connection, ending.job)
    if run is not None:
        await _back_to_pending(connection, run, redriven=False)
    await _let_go(connection, ending.job, interrupted=False)


async def index_ended(connection: Connection, ending: Ending) -> None:
    """A connector job that did not complete, for whatever reason: its hold and its lease go back."""
    await give_back_index_hold(connection, ending.job)
    await _let_go(connection, ending.job, interrupted=True)


async def give_back_index_hold(connection: Connection, job: Job) -> None:
    """End the hold that a ``connector_index`` job carries in its payload, once."""
    hold = index_hold(job)
    if hold is None:
        return
    await connection.execute("UPDATE jobs SET payload = payload - 'hold' WHERE id = $1", job.id)
    await wallet.give_back(connection, *hold)


def index_hold(job: Job) -> tuple[UUID, int] | None:
    """Owner and micros that a ``connector_index`` job holds; None: nothing."""
    hold = job.payload.get("hold") if isinstance(job.payload, dict) else None
    if not isinstance(hold, dict):
        return None
    try:
        return UUID(hold["owner"]), int(hold["micros"])
    except (KeyError, TypeError, ValueError):
        return None


def error_of(failure: SupervisorError | None) -> RunError:
    """How a failure of the job reads in its run. None: nobody said anything, the worker just vanished."""
    match failure:
        case None:
            return WORKER_LOST
        case RunFailed():
            return failure.error
        case JobTimedOut():
            return RunError("timeout", failure.message)
        case _:
            return RunError("exception", failure.message, type=type(failure).__name__)


async def fail_orphans(connection: Connection, limit: int = 100) -> list[tuple[str, int]]:
    """The second net: runs that are active while their job is not, for whatever reason. Counts by table, as a sweep.

    Needs a transaction. A run whose job waits is ordinary backlog and is left alone.
    """
    rows = await connection.fetch(
        f"""
        SELECT {columns_of("r", RUN_COLUMNS)} FROM pipeline_runs AS r WHERE r.status IN ('pending', 'running') AND CASE
            WHEN r.job_id IS NULL THEN GREATEST(r.created_at, r.started_at)
            ELSE (SELECT j.completed_at FROM jobs AS j WHERE j.id = r.job_id AND j.status IN ('completed', 'failed'))
        END < now() - {ORPHAN_MINUTES} * interval '1 minute'
        ORDER BY r.id LIMIT $1 FOR UPDATE SKIP LOCKED
        """,
        limit,
    )
    for run in map(run_of, rows):
        await runs.end_badly(connection, run, RunStatus.FAILED, error=ORPHANED.to_document())
    for run in map(run_of, rows):
        if run.job_id is not None:
            await _let_go_of(connection, run.job_id, interrupted=True)
    return [("pipeline_runs", len(rows))]


async def _back_to_pending(connection: Connection, run: Run, *, redriven: bool) -> None:
    await runs.give_back_hold(connection, run)
    await connection.execute(
        """
        UPDATE pipeline_runs SET status = 'pending', summary = CASE WHEN $2 THEN COALESCE(summary, '{}'::jsonb)
            || jsonb_build_object('redriven', COALESCE((summary->>'redriven')::int, 0) + 1) ELSE summary END
        WHERE id = $1
        """,
        run.id,
        redriven,
    )


async def _active_run(connection: Connection, job: Job) -> Run | None:
    """The run that this very job carries, locked; None: it is over, or another job carries it."""
    run_id: Any = job.payload.get("run_id") if isinstance(job.payload, dict) else None
    if type(run_id) is not int:
        return None
    row = await connection.fetchrow(
        f"""
        SELECT {RUN_COLUMNS} FROM pipeline_runs
        WHERE id = $1 AND job_id = $2 AND status IN ('pending', 'running') FOR UPDATE
        """,
        run_id,
        job.id,
    )
    return None if row is None else run_of(row)


async def _let_go(connection: Connection, job: Job, *, interrupted: bool) -> None:
    await _let_go_of(connection, job.id, interrupted=interrupted)


async def _let_go_of(connection: Connection, job_id: UUID, *, interrupted: bool) -> None:
    """Documents that its claims were at, then its leases. A document with content from before stays readable."""
    await connection.execute(
        """
        UPDATE documents SET claimed_by = NULL, updated_at = now(),
            state = CASE WHEN content <> '' THEN 'ready' WHEN $2 THEN 'failed' ELSE 'pending' END::document_state,
            state_reason = CASE WHEN $2 THEN 'interrupted' ELSE state_reason END
        WHERE id IN (SELECT id FROM documents WHERE claimed_by LIKE $1 ORDER BY id FOR UPDATE)
        """,
        f"{job_id}:%",
        interrupted,
    )
    await leases.release_of_job(connection, job_id)
