"""What people ask of enrichment: enrich a law, or begin its enrichment anew from its present text (``queue.md`` 7.1, D55)."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from protocols.enrichpayload import EnrichPayload, law_path, payload_document
from protocols.failures import InvalidInput
from protocols.scrub import payload_to_json
from schema import laws
from schema.connection import Connection
from schema.queue.create import create_enrich_job_if_not_exists
from schema.queue.endings import WAKE
from schema.records import JOB_COLUMNS, job_of
from schema.rows import Job, JobRequest, JobStatus, JobType, LawStatus


class NotHarvested(InvalidInput):
    """No text of this law was ever harvested, so there is nothing to enrich."""

    kind: ClassVar[str] = "not_harvested"


class EnrichExhausted(InvalidInput):
    """Enrichment of the law failed so often, or so surely, that a person must reset it first."""

    kind: ClassVar[str] = "enrich_exhausted"


def _path(path: str | None) -> str | None:
    return None if path is None else law_path(path)


@frozen
class EnrichRequest:
    """``law`` is an id or a slug. ``yaml_path`` None: the file of the last harvest. ``restart``: from the present base (D55)."""

    law: str
    provider: str
    priority: int = 50
    yaml_path: str | None = field(default=None, converter=_path)
    restart: bool = False


@frozen
class EnrichAnswer:
    """``created`` False: the job was there; a waiting one was made due, and took over a restart that was asked for."""

    job: Job
    created: bool

    @property
    def answers(self) -> bool:
        """False: it runs already, so what was asked for beyond that has no effect."""
        return self.created or self.job.status is JobStatus.PENDING


async def request_enrich(connection: Connection, request: EnrichRequest) -> EnrichAnswer:
    """Queue a window, unless one is active for this law and provider. Needs a transaction.

    LawNotFound, NotHarvested, EnrichExhausted; InvalidInput for a path that is none.
    """
    entry = await laws.find_law(connection, request.law)
    await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", entry.law_id)
    if entry.status is LawStatus.ENRICH_EXHAUSTED or entry.enrich_exhausted_at is not None:
        raise EnrichExhausted(
            f"enrichment of {entry.law_id} failed too often: see `laws show {entry.law_id}`, then "
            f"`laws reset {entry.law_id}` and ask again"
        )
    path = request.yaml_path or await _last_file(connection, entry.law_id)
    if path is None:
        raise NotHarvested(f"{entry.law_id} was never harvested: `harvest {entry.law_id}` first, or name its file")
    payload = payload_document(EnrichPayload(entry.law_id, path, request.provider, restart=request.restart))
    job = await create_enrich_job_if_not_exists(
        connection, JobRequest(JobType.ENRICH, entry.law_id, priority=request.priority, payload=payload)
    )
    if job is None:
        return EnrichAnswer(await _hurry(connection, entry.law_id, request, path), created=False)
    await laws.set_enrich_job(connection, entry.law_id, job.id)
    return EnrichAnswer(job, created=True)


async def _last_file(connection: Connection, law_id: str) -> str | None:
    """The file that the law was last harvested into, by us or by an existing worker."""
    path: str | None = await connection.fetchval(
        """
        SELECT COALESCE(
            (SELECT file_path FROM harvest_versions WHERE law_id = $1 ORDER BY harvested_at DESC LIMIT 1),
            (SELECT result->>'file_path' FROM jobs WHERE law_id = $1 AND job_type = 'harvest' AND status = 'completed'
             AND result->>'file_path' IS NOT NULL ORDER BY completed_at DESC LIMIT 1))
        """,
        law_id,
    )
    return path


async def _hurry(connection: Connection, law_id: str, request: EnrichRequest, path: str) -> Job:
    """The active job: a waiting one is made due, with the higher priority and the restart that was asked for."""
    row = await connection.fetchrow(
        f"""
        UPDATE jobs SET scheduled_at = NULL, priority = GREATEST(priority, LEAST(100, $3)),
            payload = CASE WHEN $4 THEN payload || $5::text::jsonb ELSE payload END
        WHERE law_id = $1 AND job_type = 'enrich' AND payload->>'provider' = $2 AND traject_ref IS NULL
          AND status = 'pending' RETURNING {JOB_COLUMNS}
        """,
        law_id,
        request.provider,
        request.priority,
        request.restart,
        payload_to_json({"restart": True, "yaml_path": path}),
    )
    if row is not None:
        await connection.execute(WAKE)
        return job_of(row)
    row = await connection.fetchrow(
        f"""
        SELECT {JOB_COLUMNS} FROM jobs WHERE law_id = $1 AND job_type = 'enrich' AND payload->>'provider' = $2
          AND traject_ref IS NULL AND status = 'processing'
        """,
        law_id,
        request.provider,
    )
    if row is None:
        raise InvalidInput(f"an enrichment of {law_id} ended just now: ask again")
    return job_of(row)
