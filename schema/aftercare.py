"""What the end of a job that did not succeed does to everything but its row: law, tasks, blobs, uploads.

The worker's own failure and the reaper run the same functions, in the transaction that ends the claim, so a job that
killed its worker is treated like one that failed (D3, D13). A job type that nobody lists here has no aftercare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.backoff import retry_backoff
from protocols.failures import LawEnd, SupervisorError
from schema import laws
from schema.connection import Connection
from schema.enrichblobs import hand_on
from schema.laws import FailKind
from schema.pipelines import aftercare as pipelines
from schema.queue.create import create_enrich_job_if_not_exists, create_harvest_job_if_not_exists
from schema.rows import Job, JobRequest, JobType, LawStatus
from schema.tasks import (
    TASK_FLOW_TYPES,
    UPLOAD_TYPES,
    NewTask,
    TaskType,
    create_task,
    delete_blobs_for_job,
    delete_upload,
)

REAPED_TASK_TEXT: Final = "De taak is afgebroken: hij duurde te lang of de worker is herstart."
"""What the requester of a reaped task reads (D30: texts for users are Dutch)."""


@frozen
class AftercareRules:
    """``exhausted_threshold``: so many final failures of one kind in a row exhaust a law (``queue.md`` 2.8)."""

    exhausted_threshold: int = 10


@frozen
class Ending:
    """How a job ended. ``job`` is the row as it was while processing; ``error`` is for the person who asked for it.

    ``failure`` is what the job said itself; None where it said nothing: reaped, handed back, cancelled while it waited.
    """

    job: Job
    law_end: LawEnd
    error: str
    rules: AftercareRules
    failure: SupervisorError | None = None


Aftercare = Callable[[Connection, Ending], Awaitable[None]]


@frozen
class TypeAftercare:
    """One job type's part: after a final failure, before a retry, and when a job is put back or cancelled."""

    on_failed: Aftercare
    on_retry: Aftercare
    on_restored: Aftercare


async def after_failure(connection: Connection, ending: Ending) -> None:
    """The job is failed for good."""
    if is_task_flow(ending.job):
        await _tell_requester(connection, ending)
    elif ending.job.job_type in AFTERCARE:
        await AFTERCARE[ending.job.job_type].on_failed(connection, ending)
    await _drop_upload(connection, ending.job)


async def after_retry(connection: Connection, ending: Ending) -> None:
    """The job is pending again after a failed attempt."""
    if not is_task_flow(ending.job) and ending.job.job_type in AFTERCARE:
        await AFTERCARE[ending.job.job_type].on_retry(connection, ending)


async def after_hand_back(connection: Connection, ending: Ending) -> None:
    """The job is pending again and nothing happened (D12)."""
    if not is_task_flow(ending.job) and ending.job.job_type in AFTERCARE:
        await AFTERCARE[ending.job.job_type].on_restored(connection, ending)


def is_task_flow(job: Job) -> bool:
    """Whether the result of the job goes to a person as a task; such a job never touches a law entry."""
    return (
        job.job_type.value in TASK_FLOW_TYPES and _payload(job).get("deliver") == "task" and _requester(job) is not None
    )


# --- Laws --------------------------------------------------------------------------------------------------------------


async def _harvest_failed(connection: Connection, ending: Ending) -> None:
    law_id = ending.job.law_id
    match ending.law_end:
        case LawEnd.KEEP:
            return
        case LawEnd.RESTORE:
            await _harvest_restored(connection, ending)
        case LawEnd.NOT_HARVESTABLE:
            await laws.upsert_law(connection, law_id)
            await laws.update_status(connection, law_id, LawStatus.NOT_HARVESTABLE)
        case _:
            await laws.upsert_law(connection, law_id)
            await laws.update_status(connection, law_id, LawStatus.HARVEST_FAILED)
            await _go_on(connection, ending, FailKind.HARVEST)


async def _harvest_retried(connection: Connection, ending: Ending) -> None:
    await laws.update_status_unless_any(connection, ending.job.law_id, (), LawStatus.QUEUED)


async def _harvest_restored(connection: Connection, ending: Ending) -> None:
    await laws.restore_status(connection, ending.job.law_id, (LawStatus.HARVESTING, LawStatus.QUEUED))


async def _enrich_failed(connection: Connection, ending: Ending) -> None:
    law_id = ending.job.law_id
    match ending.law_end:
        case LawEnd.KEEP | LawEnd.NOT_HARVESTABLE:
            return
        case LawEnd.RESTORE:
            await _enrich_restored(connection, ending)
        case _ if await laws.law_exists(connection, law_id):
            await laws.mark_enrich_failed(connection, law_id)
            await _go_on(connection, ending, FailKind.ENRICH)


async def _enrich_retried(connection: Connection, ending: Ending) -> None:
    await laws.update_status_if(connection, ending.job.law_id, LawStatus.ENRICHING, LawStatus.HARVESTED)


async def _enrich_restored(connection: Connection, ending: Ending) -> None:
    await laws.restore_status(connection, ending.job.law_id, (LawStatus.ENRICHING,))


async def _go_on(connection: Connection, ending: Ending, kind: FailKind) -> None:
    """The law-level ladder (``queue.md`` 2.8): count, then exhaust at the threshold or try again with a new delayed job."""
    job = ending.job
    if ending.law_end is LawEnd.EXHAUST:
        await laws.exhaust_law(connection, job.law_id, kind)
        return
    if ending.law_end is not LawEnd.LADDER:
        return
    count = await laws.increment_fail_count(connection, job.law_id, kind)
    if count >= ending.rules.exhausted_threshold:
        await laws.exhaust_law(connection, job.law_id, kind)
        return
    request = JobRequest(
        job.job_type,
        job.law_id,
        priority=job.priority,
        payload=job.payload,
        traject_ref=job.traject_ref,
        delay_s=retry_backoff(count),
    )
    if kind is FailKind.HARVEST:
        await create_harvest_job_if_not_exists(connection, request)
    elif _payload(job).get("provider"):
        follower = await create_enrich_job_if_not_exists(connection, request)
        if follower is not None:
            await hand_on(connection, job, follower.id)


AFTERCARE: Final[dict[JobType, TypeAftercare]] = {
    JobType.HARVEST: TypeAftercare(_harvest_failed, _harvest_retried, _harvest_restored),
    JobType.ENRICH: TypeAftercare(_enrich_failed, _enrich_retried, _enrich_restored),
    JobType.PIPELINE_RUN: TypeAftercare(pipelines.run_failed, pipelines.run_retried, pipelines.run_restored),
    JobType.CONNECTOR_INDEX: TypeAftercare(pipelines.index_ended, pipelines.index_ended, pipelines.index_ended),
}
"""By job type, for jobs that are not task flow."""


# --- The person who asked ----------------------------------------------------------------------------------------------


async def _tell_requester(connection: Connection, ending: Ending) -> None:
    """One ``job_failed`` task instead of the blobs (QH-12). A traject or account that is gone makes none."""
    job = ending.job
    await delete_blobs_for_job(connection, job.id)
    requester, traject = _requester(job), _uuid(_payload(job).get("traject_id"))
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM accounts WHERE id = $1)", requester):
        return
    if traject is not None and not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM trajects WHERE id = $1)", traject
    ):
        traject = None
    payload = {
        key: value
        for key in ("traject_ref", "law_id", "target_path", "filename", "bwb_id", "law_name")
        if isinstance(value := _payload(job).get(key), str)
    }
    await create_task(
        connection,
        NewTask(
            TaskType.JOB_FAILED,
            failure_title(job),
            job_id=job.id,
            assignee_account_id=requester,
            traject_id=traject,
            payload={**payload, "error": ending.error},
        ),
    )


def failure_title(job: Job) -> str:
    """The Dutch title of the task that reports a failed task-flow job (``corpus-and-tasks.md`` 3.1)."""
    payload = _payload(job)
    match job.job_type:
        case JobType.DOCUMENT_CONVERT:
            return f"Conversie mislukt: {payload.get('target_path') or job.law_id}"
        case JobType.LAW_CONVERT:
            return f"Conversie naar wet mislukt: {payload.get('filename') or job.law_id}"
        case JobType.TRAJECT_HARVEST:
            return f"Wet ophalen mislukt: {payload.get('law_name') or payload.get('bwb_id') or job.law_id}"
        case _ if payload.get("new_law") is True:
            return f"Wet aanmaken mislukt: {job.law_id}"
        case _:
            return f"Verrijking mislukt: {job.law_id}"


async def _drop_upload(connection: Connection, job: Job) -> None:
    """A conversion that failed for good leaves no bytes of the user behind."""
    upload = _uuid(_payload(job).get("upload_id"))
    if job.job_type.value in UPLOAD_TYPES and upload is not None:
        await delete_upload(connection, upload)


def _payload(job: Job) -> Mapping[str, Any]:
    return job.payload if isinstance(job.payload, dict) else {}


def _requester(job: Job) -> UUID | None:
    return _uuid(_payload(job).get("requested_by"))


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None
