"""What people ask of the queue: harvest a law, cancel a job, try it again (``queue.md`` 7.1, D26). One transaction each."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from attrs import evolve, field, frozen

from protocols import control
from protocols.failures import InvalidInput, JobCancelled, LawEnd, Transient
from protocols.law_ids import InvalidDate, InvalidLawId, law_source, parse_date
from protocols.payloads import HarvestPayload, to_document
from protocols.scrub import payload_to_json, to_json
from schema import laws
from schema.aftercare import AftercareRules, Ending, after_failure
from schema.connection import Connection
from schema.errors import JobNotFound, JobNotWaiting
from schema.queue.create import create_enrich_job_if_not_exists, create_harvest_job_if_not_exists, create_job
from schema.queue.endings import WAKE
from schema.records import JOB_COLUMNS, job_of
from schema.rows import ACTIVE_STATUSES, Job, JobRequest, JobStatus, JobType, LawStatus

_TRIES: Final = 3
_NOT_QUEUED: Final = (LawStatus.HARVESTING, LawStatus.ENRICHING, LawStatus.HARVEST_EXHAUSTED)
"""A request does not turn these into ``queued`` (``queue.md`` 2.10)."""


@frozen
class HarvestRequest:
    """A harvest that somebody asks for. ``date`` is YYYY-MM-DD and not in the future; None: the text in force."""

    law_id: str
    priority: int = 50
    date: str | None = None
    law_name: str | None = None
    slug: str | None = None
    max_size_mb: int | None = None
    max_depth: int | None = None
    no_follow: bool = False
    today: dt.date = field(factory=lambda: dt.datetime.now(ZoneInfo("Europe/Amsterdam")).date())

    @property
    def payload(self) -> HarvestPayload:
        return evolve(
            HarvestPayload.for_law(self.law_id, self.date),
            max_size_mb=self.max_size_mb,
            max_depth=self.max_depth,
            no_follow=self.no_follow,
        )


@frozen
class Created:
    job: Job


@frozen
class AlreadyQueued:
    """``job`` is active for this law. A pending one was made due and got the higher priority of the two.

    ``other_date``: it is for another date than the one asked for, or with other limits, so it does not answer the request.
    """

    job: Job
    other_date: bool


@frozen
class Exhausted:
    """The law failed so often that a person must reset it first (``laws.reset_exhausted``)."""

    law_id: str


HarvestAnswer = Created | AlreadyQueued | Exhausted


async def request_harvest(connection: Connection, request: HarvestRequest) -> HarvestAnswer:
    """Queue a harvest, unless one is active or the law is exhausted. InvalidInput for a bad id or date: nothing was written.

    Needs a transaction. The lock is the one that the existing services take, so that requests for a law take turns.
    """
    _check(request)
    await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", request.law_id)
    for _ in range(_TRIES):
        active = await _active_harvest(connection, request.law_id)
        if active is not None:
            return await _hurry(connection, active, request)
        if await _is_exhausted(connection, request.law_id):
            return Exhausted(request.law_id)
        wanted = JobRequest(
            JobType.HARVEST, request.law_id, priority=request.priority, payload=to_document(request.payload)
        )
        job = await create_harvest_job_if_not_exists(connection, wanted)
        if job is not None:
            await _note_request(connection, request, job)
            return Created(job)
    raise Transient(f"harvests of {request.law_id} come and go faster than this request: ask again")


class Declined(StrEnum):
    """Why a scheduled refresh of a law is left out; the value is for people."""

    ALREADY_QUEUED = "already queued"
    EXHAUSTED = "harvest exhausted: a person must reset it"
    NOT_HARVESTABLE = "not harvestable"
    ENRICH_ACTIVE = "an enrichment is queued or running"


async def request_refresh(
    connection: Connection,
    request: HarvestRequest,
    *,
    delay_s: float | None = None,
    include_not_harvestable: bool = False,
) -> Job | Declined:
    """Queue a harvest that no person waits for: it hurries nothing, and the law keeps its status until it begins (D14).

    Needs a transaction. InvalidInput for a bad id or date.
    """
    _check(request)
    await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", request.law_id)
    status = await connection.fetchval("SELECT status::text FROM law_entries WHERE law_id = $1", request.law_id)
    if status == LawStatus.HARVEST_EXHAUSTED:
        return Declined.EXHAUSTED
    if status == LawStatus.NOT_HARVESTABLE and not include_not_harvestable:
        return Declined.NOT_HARVESTABLE
    if await connection.fetchval(
        """
        SELECT EXISTS (SELECT FROM jobs WHERE law_id = $1 AND job_type = 'enrich' AND status IN ('pending', 'processing'))
        """,
        request.law_id,
    ):
        return Declined.ENRICH_ACTIVE
    payload = to_document(evolve(request.payload, refresh=True))
    wanted = JobRequest(JobType.HARVEST, request.law_id, priority=request.priority, payload=payload, delay_s=delay_s)
    job = await create_harvest_job_if_not_exists(connection, wanted)
    if job is None:
        return Declined.ALREADY_QUEUED
    await laws.upsert_law(connection, request.law_id)
    await laws.update_status_if(connection, request.law_id, LawStatus.UNKNOWN, LawStatus.QUEUED)
    await laws.set_harvest_job(connection, request.law_id, job.id)
    return job


async def cancel(connection: Connection, job_id: UUID, rules: AftercareRules | None = None) -> Job:
    """End a job for good: a pending one at once, a running one by asking its holder (D26). Needs a transaction.

    The answered row is failed, or still processing with ``cancel_requested_at`` set. JobNotFound, JobNotWaiting.
    """
    job = await _locked(connection, job_id)
    if job.status not in ACTIVE_STATUSES:
        raise JobNotWaiting(f"job {job_id} is {job.status} already: there is nothing to cancel")
    if job.status is JobStatus.PROCESSING:
        row = await connection.fetchrow(
            f"UPDATE jobs SET cancel_requested_at = now() WHERE id = $1 RETURNING {JOB_COLUMNS}", job_id
        )
        hint = control.render(control.CancelHint(job_id))
        await connection.execute("SELECT pg_notify($1, $2)", control.CHANNEL, hint)
        assert row is not None
        return job_of(row)
    failure = JobCancelled("cancelled on request")
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET status = 'failed', completed_at = now(), scheduled_at = NULL, cancel_requested_at = now(),
            result = $2::text::jsonb
        WHERE id = $1 RETURNING {JOB_COLUMNS}
        """,
        job_id,
        to_json(failure.to_result()),
    )
    assert row is not None
    await after_failure(connection, Ending(job, LawEnd.RESTORE, failure.message, rules or AftercareRules()))
    return job_of(row)


async def retry(connection: Connection, job_id: UUID) -> Job:
    """Try again: a failed job as a new row, a waiting one at once (D26). Needs a transaction.

    JobNotFound. JobNotWaiting when it is running, completed, or when the same work is active under another id.
    """
    job = await _locked(connection, job_id)
    match job.status:
        case JobStatus.PENDING:
            return await _make_due(connection, job, job.priority)
        case JobStatus.FAILED:
            return await _again(connection, job)
        case _:
            raise JobNotWaiting(f"job {job_id} is {job.status}: only a failed or a waiting job can be tried again")


async def _again(connection: Connection, job: Job) -> Job:
    request = JobRequest(
        job.job_type,
        job.law_id,
        priority=job.priority,
        payload=job.payload,
        max_attempts=job.max_attempts - job.releases,
        traject_ref=job.traject_ref,
    )
    new: Job | None
    if job.job_type is JobType.HARVEST:
        new = await create_harvest_job_if_not_exists(connection, request)
    elif job.job_type is JobType.ENRICH and isinstance(job.payload, dict) and job.payload.get("provider"):
        new = await create_enrich_job_if_not_exists(connection, request)
    else:
        new = await create_job(connection, request)
    if new is None:
        raise JobNotWaiting(f"{job.job_type} of {job.law_id} is queued or running already: see `jobs list`")
    if job.job_type is JobType.HARVEST:
        await _queue_law(connection, job.law_id, new)
    return new


async def _hurry(connection: Connection, active: Job, request: HarvestRequest) -> AlreadyQueued:
    asked = to_document(request.payload)
    found = active.payload if isinstance(active.payload, dict) else {}
    keys = ("date", "max_depth", "no_follow")
    differs = [found.get(key) for key in keys] != [asked.get(key) for key in keys]
    if active.status is JobStatus.PENDING:
        active = await _make_due(connection, active, max(active.priority, request.priority))
    return AlreadyQueued(active, differs)


async def _make_due(connection: Connection, job: Job, priority: int) -> Job:
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET priority = $2, scheduled_at = NULL WHERE id = $1 AND status = 'pending' RETURNING {JOB_COLUMNS}
        """,
        job.id,
        min(100, priority),
    )
    if row is None:
        raise JobNotWaiting(f"job {job.id} was claimed just now")
    await connection.execute(WAKE)
    return job_of(row)


async def _active_harvest(connection: Connection, law_id: str) -> Job | None:
    row = await connection.fetchrow(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs
        WHERE law_id = $1 AND job_type = 'harvest' AND status IN ('pending', 'processing') FOR UPDATE
        """,
        law_id,
    )
    return None if row is None else job_of(row)


async def _is_exhausted(connection: Connection, law_id: str) -> bool:
    status = await connection.fetchval("SELECT status::text FROM law_entries WHERE law_id = $1", law_id)
    return bool(status == LawStatus.HARVEST_EXHAUSTED)


async def _note_request(connection: Connection, request: HarvestRequest, job: Job) -> None:
    await _queue_law(connection, request.law_id, job)
    if request.law_name is not None or request.slug is not None:
        await laws.rename_law(connection, request.law_id, request.law_name, request.slug)


async def _queue_law(connection: Connection, law_id: str, job: Job) -> None:
    await laws.upsert_law(connection, law_id)
    await laws.update_status_unless_any(connection, law_id, _NOT_QUEUED, LawStatus.QUEUED)
    await laws.set_harvest_job(connection, law_id, job.id)


async def _locked(connection: Connection, job_id: UUID) -> Job:
    row = await connection.fetchrow(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = $1 FOR UPDATE", job_id)
    if row is None:
        raise JobNotFound(job_id)
    return job_of(row)


def _check(request: HarvestRequest) -> None:
    """Before any work on the database."""
    try:
        law_source(request.law_id)
        if request.date is not None:
            parse_date(request.date, today=request.today)
    except (InvalidLawId, InvalidDate) as error:
        raise InvalidInput(str(error)) from error
    if request.max_depth is not None and request.max_depth < 0:
        raise InvalidInput("max_depth counts references from the law that is asked for: 0 or more")
    payload_to_json(to_document(request.payload))
