"""One function per way in which a claim ends, with everything that belongs to it: each is one transaction.

This is where the verdict of a failure (``protocols.failures``) becomes rows. ``actors.ports.pgqueue`` runs these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from protocols.budget import CLAUDE
from protocols.failures import (
    Crashed,
    JobCancelled,
    JobEnd,
    JsonObject,
    LawEnd,
    ProviderTrouble,
    SupervisorError,
    Verdict,
    verdict_of,
)
from schema import pauses
from schema.aftercare import (
    REAPED_TASK_TEXT,
    AftercareRules,
    Ending,
    after_failure,
    after_hand_back,
    after_retry,
)
from schema.connection import Connection
from schema.queue import endings, probing, reap
from schema.queue.terms import ReapRule
from schema.rows import Job, JobStatus, Lease, ReapedJob

_STAYS: Final = LawEnd.LADDER


async def write(connection: Connection, lease: Lease, unit: Callable[[Connection, Job], Awaitable[None]]) -> None:
    """A fenced write in the middle of a job. LeaseLost: nothing was written."""
    await unit(connection, await endings.prove(connection, lease))


async def complete(
    connection: Connection,
    lease: Lease,
    result: JsonObject | None,
    settle: Callable[[Connection, Job], Awaitable[None]],
) -> None:
    """Complete, then settle, so that follow-up jobs are the last statement of the transaction (D8).

    A job that was let through to a provider in trouble has shown that it works again (D52).
    """
    job = await endings.complete(connection, lease, result)
    if job.run_provider is not None:
        await probing.end_probe(connection, job.id)
    await settle(connection, job)


async def fail(
    connection: Connection, lease: Lease, failure: SupervisorError, rules: AftercareRules, *, refund: bool = False
) -> JobStatus:
    """What the verdict of ``failure`` says. ValueError for a verdict that says to write nothing.

    Trouble with a provider benches it in the same transaction, so that the job is not claimed for it again at once (D52).
    """
    verdict = verdict_of(failure)
    if verdict.job is JobEnd.ABANDON:
        raise ValueError(f"{failure.kind!r} means: write nothing")
    job = await endings.prove(connection, lease)
    verdict = verdict.after(job.result, failure.kind)
    if isinstance(failure, ProviderTrouble):
        await pauses.bench_for(connection, failure, _provider(job, failure))
    if verdict.job is JobEnd.HAND_BACK:
        return await _hand_back(connection, job, rules, refund=refund)
    ending = Ending(job, verdict.law, failure.message, rules, failure)
    if verdict.job is JobEnd.COMPLETE:
        await endings.complete(connection, lease, failure.to_result())
        await after_failure(connection, ending)
        return JobStatus.COMPLETED
    row = await endings.fail(connection, job, failure.to_result(), terminal=verdict.job is JobEnd.TERMINAL)
    if row.status is JobStatus.PENDING:
        await after_retry(connection, ending)
    else:
        await after_failure(connection, ending)
    return row.status


def _provider(job: Job, trouble: ProviderTrouble) -> str:
    """Whom the trouble is with: the provider that it names, else the one that the claim stamped."""
    return str(trouble.details.get("provider") or job.run_provider or CLAUDE)


async def fail_plainly(connection: Connection, lease: Lease, verdict: Verdict) -> JobStatus:
    """End the claim with a fixed text and no aftercare, when the database refused what the failure had to say (DB-09)."""
    job = await endings.prove(connection, lease)
    failure = Crashed("the failure could not be stored; see the log of the supervisor that ran the job")
    row = await endings.fail(connection, job, failure.to_result(), terminal=verdict.job is not JobEnd.RETRY)
    return row.status


async def hand_back(connection: Connection, lease: Lease, rules: AftercareRules, *, refund: bool) -> JobStatus:
    """Back to pending at once, the law as before (D12, D14). LeaseLost: it was not ours any more."""
    return await _hand_back(connection, await endings.prove(connection, lease), rules, refund=refund)


async def _hand_back(connection: Connection, job: Job, rules: AftercareRules, *, refund: bool) -> JobStatus:
    row = await endings.hand_back(connection, job, refund=refund)
    ending = Ending(job, LawEnd.RESTORE, JobCancelled.kind, rules)
    if row.status is JobStatus.PENDING:
        await after_hand_back(connection, ending)
    else:
        await after_failure(connection, ending)
    return row.status


async def reap_one(
    connection: Connection, job_id: UUID, rule: ReapRule, rules: AftercareRules, *, bare: bool = False
) -> ReapedJob | None:
    """Take one orphan from its dead holder, with aftercare unless ``bare`` (D3). None: another was faster, or it lives."""
    reaped = await reap.reap(connection, job_id, rule)
    if reaped is None:
        return None
    before, after = reaped
    if not bare:
        cancelled = before.cancel_requested_at is not None
        ending = Ending(before, LawEnd.RESTORE if cancelled else _STAYS, REAPED_TASK_TEXT, rules)
        if after.status is JobStatus.PENDING:
            await after_retry(connection, ending)
        else:
            await after_failure(connection, ending)
    return ReapedJob(
        id=after.id,
        job_type=after.job_type,
        law_id=after.law_id,
        status=after.status,
        priority=after.priority,
        attempts=after.attempts,
        payload=after.payload,
        aftercare_failed=bare,
    )
