"""The life of a run, from its claim to its one terminal transaction (``pipelines.md`` 2.1-2.3, 4).

Run and job change together, always. The functions that take a ``Job`` are for use behind its fence: inside
``QueuePort.write``, or as the settling part of a completion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import frozen

from protocols.connectors import BWB_LAWS
from protocols.crawl import Target
from protocols.credits import InsufficientCredits, Pricing
from protocols.failures import InvalidInput, LeaseLost
from protocols.runs import (
    RunCounts,
    RunGone,
    RunStatus,
    claim_holder,
    out_of_credit,
)
from protocols.scrub import to_json
from schema.connection import Connection
from schema.pipelines import items, leases, tombstones, wallet
from schema.pipelines.rows import (
    CONNECTOR_COLUMNS,
    PIPELINE_COLUMNS,
    RUN_COLUMNS,
    Connector,
    Item,
    Pipeline,
    Run,
    connector_of,
    pipeline_of,
    run_of,
)
from schema.pipelines.wallet import Usage
from schema.rows import Job


class RunNotFound(InvalidInput):
    """No run has this id, or not within what was asked for."""

    kind = "run_not_found"


@frozen
class RunContext:
    """A run with what it stands on. ``connector`` None: an uploads pipeline."""

    run: Run
    pipeline: Pipeline
    connector: Connector | None
    owner_id: UUID
    """Who pays: the owner of the workspace, never the person who pressed the button."""

    @property
    def actor_id(self) -> UUID:
        """In whose name documents are made."""
        return self.pipeline.created_by_id or self.owner_id


@frozen
class Published:
    """A stored result: the key becomes visible with the success of the run (D65)."""

    backend: str
    key: str
    size_bytes: int
    retention_days: int


async def get_run(connection: Connection, run_id: int) -> Run:
    """RunNotFound."""
    row = await connection.fetchrow(f"SELECT {RUN_COLUMNS} FROM pipeline_runs WHERE id = $1", run_id)
    if row is None:
        raise RunNotFound(f"there is no run {run_id}")
    return run_of(row)


async def load(connection: Connection, run_id: int) -> RunContext:
    """The run with pipeline, connector and payer. RunNotFound."""
    run = await get_run(connection, run_id)
    row = await connection.fetchrow(f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE id = $1", run.pipeline_id)
    if row is None:
        raise RunNotFound(f"the pipeline of run {run_id} is gone")
    pipeline = pipeline_of(row)
    owner = await connection.fetchval("SELECT owner_id FROM workspaces WHERE id = $1", pipeline.workspace_id)
    found = await connection.fetchrow(
        f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = $1", pipeline.connector_id
    )
    return RunContext(run, pipeline, None if found is None else connector_of(found), UUID(int=owner.int))


# --- driven -----------------------------------------------------------------------------------------------------------


async def begin(connection: Connection, job: Job, run_id: int) -> RunContext | RunStatus:
    """Pending to running, under this claim. The status instead when it is another: then nothing was written.

    That status is the first guard against a second charge; a claim that finds its own mark goes on (its answer was
    lost). RunNotFound.
    """
    run = await locked(connection, run_id)
    if run is None:
        raise RunNotFound(f"there is no run {run_id}")
    if run.status is RunStatus.RUNNING and (run.job_id, run.claim_seq) == (job.id, job.attempts):
        return await load(connection, run_id)
    if run.status is not RunStatus.PENDING:
        return run.status
    await connection.execute(
        """
        UPDATE pipeline_runs SET status = 'running', started_at = COALESCE(started_at, now()), claim_seq = $2, job_id = $3
        WHERE id = $1
        """,
        run_id,
        job.attempts,
        job.id,
    )
    return await load(connection, run_id)


async def preflight(
    connection: Connection,
    job: Job,
    context: RunContext,
    *,
    targets: Sequence[Target],
    pricing: Pricing | None,
    keep_done: bool,
) -> list[Item]:
    """Freeze the list, take the price, hold the credit: what is left to do. RunFailed (G8): nothing was written.

    List, price and billing flag are taken the first time only (D64); ``targets`` and ``pricing`` do not matter later.
    The hold is for all targets, also when some are done: the charge will be for all of them. ``pricing`` None: free.
    """
    run = await owned(connection, job, context.run.id)
    price, owner = run.unit_price_micros, run.reserved_owner_id or context.owner_id
    if run.preflight_at is None:
        price = None if pricing is None else pricing.unit_price_micros
        await items.freeze(connection, run.id, targets)
    total = (await items.counts(connection, run.id)).targets
    hold = 0 if price is None or run.charged_micros is not None or run.reserved_micros else price * total
    try:
        await wallet.reserve(connection, owner, hold)
    except InsufficientCredits as poor:
        raise out_of_credit(poor.required_micros, poor.available_micros) from poor
    await connection.execute(
        """
        UPDATE pipeline_runs SET preflight_at = COALESCE(preflight_at, now()), unit_price_micros = $2,
            reserved_micros = reserved_micros + $3, reserved_owner_id = $4 WHERE id = $1
        """,
        run.id,
        price,
        hold,
        owner,
    )
    return await items.resume(connection, run.id, keep_done=keep_done)


async def owned(connection: Connection, job: Job, run_id: int) -> Run:
    """The run, locked, as this claim's own. RunGone: it was deleted; LeaseLost: another claim has it."""
    run = await locked(connection, run_id)
    if run is None:
        raise RunGone(f"run {run_id} was deleted while it ran")
    if run.status is not RunStatus.RUNNING or (run.job_id, run.claim_seq) != (job.id, job.attempts):
        raise LeaseLost(f"run {run_id} is {run.status} and not under this claim any more")
    return run


async def require_leases(connection: Connection, job: Job, count: int) -> None:
    """LeaseLost unless this claim has all the leases that it took: another run may be at work by now."""
    if await leases.held(connection, claim_holder(job.id, job.attempts)) < count:
        raise LeaseLost("lease_lost: pipeline or connector is leased by somebody else")


# --- ended ------------------------------------------------------------------------------------------------------------


async def succeed_crawl(
    connection: Connection, job: Job, context: RunContext, *, published: Published | None = None, leases_taken: int = 0
) -> None:
    """The settling part of a crawl run's completion: charge, publish, success and the end of its leases, or none of it.

    LeaseLost when a lease was lost: then the job stays as it is, too. A run that was deleted meanwhile leaves nothing to
    settle but its leases.
    """
    try:
        run = await owned(connection, job, context.run.id)
    except RunGone:
        await leases.release(connection, claim_holder(job.id, job.attempts))
        return
    await require_leases(connection, job, leases_taken)
    counts = await items.counts(connection, run.id)
    charged = await _charge(connection, run, context, counts)
    await _finish(connection, run, counts.to_summary(), counts=counts, charged=charged, published=published)
    if published is not None:
        await tombstones.lift(connection, backend=published.backend, key=published.key)
    await leases.release(connection, claim_holder(job.id, job.attempts))


async def succeed_plainly(connection: Connection, job: Job, context: RunContext, *, summary: Mapping[str, Any]) -> None:
    """The same for a run that crawls nothing and is never charged: counts of crawls stay NULL."""
    try:
        run = await owned(connection, job, context.run.id)
        await _finish(connection, run, summary, counts=None, charged=None, published=None)
    except RunGone:
        pass
    await leases.release(connection, claim_holder(job.id, job.attempts))


async def end_badly(
    connection: Connection, run: Run, status: RunStatus, *, error: Mapping[str, Any] | None = None
) -> None:
    """A locked active run ends failed or cancelled: hold back, never a charge, what was counted so far is kept."""
    counts = await items.counts(connection, run.id)
    crawled = run.preflight_at is not None and await connection.fetchval(
        """
        SELECT c.connector_type IS DISTINCT FROM $2 FROM pipelines AS p LEFT JOIN connectors AS c ON c.id = p.connector_id
        WHERE p.id = $1
        """,
        run.pipeline_id,
        BWB_LAWS,
    )
    await give_back_hold(connection, run)
    await connection.execute(
        """
        UPDATE pipeline_runs SET status = $2::text::pipeline_run_status, finished_at = now(), error = $3::text::jsonb,
            documents_indexed = $4, crawls_attempted = $5, crawls_succeeded = $6,
            summary = COALESCE(summary, '{}'::jsonb) || COALESCE($7::text::jsonb, '{}'::jsonb)
        WHERE id = $1
        """,
        run.id,
        status.value,
        to_json(None if error is None else dict(error)),
        counts.documents_indexed if crawled else None,
        counts.attempted if crawled else None,
        counts.success if crawled else None,
        to_json(counts.to_summary()) if crawled else None,
    )


async def give_back_hold(connection: Connection, run: Run) -> None:
    """End the hold of a locked run. Who it was stays noted: a later drive holds and charges the same owner."""
    if run.reserved_micros:
        await connection.execute("UPDATE pipeline_runs SET reserved_micros = 0 WHERE id = $1", run.id)
    if run.reserved_micros and run.reserved_owner_id is not None:
        await wallet.give_back(connection, run.reserved_owner_id, run.reserved_micros)


async def _charge(connection: Connection, run: Run, context: RunContext, counts: RunCounts) -> int | None:
    """What was charged; None: nothing. Ends the hold in any case."""
    if run.unit_price_micros is None or counts.success == 0 or run.charged_micros is not None:
        await give_back_hold(connection, run)
        return run.charged_micros
    cost = counts.success * run.unit_price_micros
    usage = Usage(
        context.pipeline.workspace_id,
        run.reserved_owner_id or context.owner_id,
        cost,
        {"urls": counts.targets, "successes": counts.success, "pipeline_id": run.pipeline_id, "run_id": run.id},
        run_id=run.id,
    )
    await wallet.settle(connection, usage, held_micros=run.reserved_micros)
    return cost


async def _finish(
    connection: Connection,
    run: Run,
    summary: Mapping[str, Any],
    *,
    counts: RunCounts | None,
    charged: int | None,
    published: Published | None,
) -> None:
    await connection.execute(
        """
        UPDATE pipeline_runs SET status = 'succeeded', finished_at = now(), reserved_micros = 0, charged_micros = $2,
            documents_indexed = $3, crawls_attempted = $4, crawls_succeeded = $5,
            summary = COALESCE(summary, '{}'::jsonb) || $6::text::jsonb,
            result_blob_backend = $7, result_blob_key = $8, result_bytes = $9, result_expires_at = now() + $10 * interval '1 day'
        WHERE id = $1
        """,
        run.id,
        charged,
        0 if counts is None else counts.documents_indexed,
        None if counts is None else counts.attempted,
        None if counts is None else counts.success,
        to_json(dict(summary)),
        None if published is None else published.backend,
        None if published is None else published.key,
        None if published is None else published.size_bytes,
        None if published is None else float(published.retention_days),
    )


async def locked(connection: Connection, run_id: int) -> Run | None:
    """The run under a lock; None: there is none."""
    row = await connection.fetchrow(f"SELECT {RUN_COLUMNS} FROM pipeline_runs WHERE id = $1 FOR UPDATE", run_id)
    return None if row is None else run_of(row)
