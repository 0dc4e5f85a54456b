"""The task flow of enrichment: result blobs, review tasks and the next window, in the completing transaction.

Nothing here touches a law entry (``enrich.md`` 5.8). The state of a law in progress rides in blobs: the proposal and
the cursor of one window are the input of the next.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import ClassVar, Final

from attrs import frozen

from protocols import enrichmentfile, envelope
from protocols.enrichpayload import EnrichPayload, law_path
from protocols.failures import ContentFailure, JsonObject, NoOutput, Transient
from protocols.reviewdiff import changed_entries
from schema.connection import Connection
from schema.queue.create import create_enrich_job_if_not_exists
from schema.rows import Job, JobRequest, JobType
from schema.tasks import (
    Blob,
    BlobKind,
    NewTask,
    TaskType,
    create_task,
    delete_blobs_for_job,
    existing_addressee,
    insert_blob,
    load_blobs,
)

NOTHING_TO_REVIEW: Final = "de verrijking leverde geen wet-YAML op om te beoordelen"


class NotComparable(Transient):
    """The proposal of one of several windows cannot be compared with what it began with.

    No task for the whole law takes its place: it would bring back what a reviewer rejected in an earlier window.
    """

    kind: ClassVar[str] = "not_comparable"


class ScopeTaken(Transient):
    """Another enrichment of this law is active for the same traject, and this one's state cannot go into that."""

    kind: ClassVar[str] = "scope_taken"


@frozen
class TaskOutcome:
    """A window that is done. ``files`` are relative to the work folder. ``first``: the walk began with this window."""

    payload: EnrichPayload
    provider: str
    files: tuple[Blob, ...]
    law_complete: bool
    first: bool

    @property
    def single(self) -> bool:
        """The whole law in this one window."""
        return self.first and self.law_complete


async def load_input(connection: Connection, job: Job) -> list[Blob]:
    """The files to work on. ContentFailure when there are none, InvalidInput for a path that leaves the folder."""
    blobs = await load_blobs(connection, job.id, BlobKind.INPUT)
    if not blobs:
        raise ContentFailure(f"de verrijkingstaak {job.law_id} heeft geen input-blob")
    return [Blob(law_path(blob.path), blob.content) for blob in blobs]


async def settle(connection: Connection, job: Job, outcome: TaskOutcome) -> None:
    """Blobs, tasks, next window. Raises NoOutput, NotComparable or ScopeTaken: then nothing of it is kept.

    The snapshot to compare with is read before the blobs go.
    """
    payload = outcome.payload
    proposal = _reviewable(outcome)
    if proposal is None:
        raise NoOutput(NOTHING_TO_REVIEW)
    source = {blob.path: blob.content for blob in await load_blobs(connection, job.id, BlobKind.INPUT)}
    tasks = _tasks(job, outcome, source.get(payload.yaml_path), proposal.content)
    await delete_blobs_for_job(connection, job.id)
    for blob in outcome.files:
        await insert_blob(connection, job.id, BlobKind.RESULT, blob.path, blob.content)
    addressee = await existing_addressee(connection, payload.requested_by, payload.traject_id)
    for title, document in tasks if addressee is not None else ():
        assert addressee is not None
        await create_task(
            connection,
            NewTask(
                TaskType.JOB_REVIEW,
                title,
                job_id=job.id,
                assignee_account_id=addressee[0],
                traject_id=addressee[1],
                payload=document,
            ),
        )
    if not outcome.law_complete:
        await _continue(connection, job, outcome)


def _reviewable(outcome: TaskOutcome) -> Blob | None:
    """The law among the files: at the path of the payload, else any YAML that is no sidecar."""
    by_path = {blob.path: blob for blob in outcome.files}
    if outcome.payload.yaml_path in by_path:
        return by_path[outcome.payload.yaml_path]
    names = (blob for blob in outcome.files if PurePosixPath(blob.path).suffix == ".yaml")
    return next((blob for blob in names if not PurePosixPath(blob.path).name.startswith(".")), None)


def _tasks(job: Job, outcome: TaskOutcome, source: str | None, proposal: str) -> list[tuple[str, JsonObject]]:
    """Titles (Dutch, for the person) and payloads."""
    payload = outcome.payload
    document: JsonObject = {
        "law_id": payload.law_id,
        "yaml_path": payload.yaml_path,
        "traject_ref": payload.traject_ref or job.traject_ref,
        "source_etag": payload.source_etag,
        "provider": outcome.provider,
    }
    if payload.new_law:
        if not outcome.law_complete:
            return []
        return [(f"Nieuwe wet beoordelen: {payload.law_id}", {**document, "kind": "law_create"})]
    changed = changed_entries(source, proposal)
    if changed is not None:
        title = f"Verrijking beoordelen: {payload.law_id} artikel "
        return [(f"{title}{number}", {**document, "article": number}) for number in changed]
    if not outcome.single:
        raise NotComparable(f"het voorstel voor {payload.law_id} is niet per artikel te vergelijken met de invoer")
    return [(f"Verrijking beoordelen: {payload.law_id}", document)]


async def _continue(connection: Connection, job: Job, outcome: TaskOutcome) -> None:
    """The next window, with this one's proposal, cursor and envelope as its input."""
    payload = outcome.payload
    following = await create_enrich_job_if_not_exists(
        connection,
        JobRequest(
            JobType.ENRICH,
            job.law_id,
            priority=job.priority,
            payload=payload.task_continuation(outcome.provider),
            traject_ref=payload.traject_ref or job.traject_ref,
        ),
    )
    if following is None:
        raise ScopeTaken(f"er loopt al een verrijking van {payload.law_id} voor dit traject")
    folder = PurePosixPath(payload.yaml_path).parent
    carried = {
        payload.yaml_path,
        str(folder / enrichmentfile.FILE_NAME),
        str(folder / envelope.FILE_NAME),
    }
    for blob in outcome.files:
        if blob.path in carried:
            await insert_blob(connection, following.id, BlobKind.INPUT, blob.path, blob.content)
