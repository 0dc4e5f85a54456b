"""New rows in the queue (``queue.md`` 2.1). Only pending and processing rows block another of the same kind (CL-04)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from protocols.failures import InvalidInput, LawUnknown
from protocols.scrub import payload_to_json, scrub_text
from schema.connection import Connection
from schema.records import JOB_COLUMNS, job_of
from schema.rows import Job, JobRequest, JobType

_INSERT: Final = """
INSERT INTO jobs (job_type, law_id, priority, payload, max_attempts, traject_ref, scheduled_at)
VALUES ($1::text::job_type, $2, $3, $4::text::jsonb, $5, $6, now() + $7 * interval '1 second')
"""
_HARVEST_CONFLICT: Final = """
ON CONFLICT (law_id, job_type) WHERE job_type = 'harvest' AND status IN ('pending', 'processing') DO NOTHING
"""
_ENRICH_CONFLICT: Final = """
ON CONFLICT (law_id, job_type, (payload->>'provider'), COALESCE(traject_ref, ''))
    WHERE job_type = 'enrich' AND status IN ('pending', 'processing') DO NOTHING
"""
HARVEST_SUFFICES: Final = f"""
(j.status <> 'failed' OR (j.result->>'kind' = '{LawUnknown.kind}' AND j.completed_at > now() - interval '1 day'))
"""
"""Of a harvest row ``j``: a law that was found on the way needs no other one (D15). A law that the repository did not
know within the last day counts: each of the many texts that cite such a law would ask for it again."""


async def create_job(connection: Connection, request: JobRequest) -> Job:
    """A new pending row. The driver's unique violation when an active harvest or enrich job of the same kind exists."""
    row = await connection.fetchrow(f"{_INSERT} RETURNING {JOB_COLUMNS}", *_values(request))
    assert row is not None
    return job_of(row)


async def create_harvest_job_if_not_exists(
    connection: Connection, request: JobRequest, date: str | None = None
) -> Job | None:
    """A new harvest row, or None when the law has an active one. ``date`` has no effect: any active harvest blocks."""
    return await _insert_unless(connection, request, JobType.HARVEST, _HARVEST_CONFLICT)


async def create_enrich_job_if_not_exists(connection: Connection, request: JobRequest) -> Job | None:
    """A new enrich row, or None when one is active for the same law, provider and traject.

    The payload must name its provider: NULL never equals NULL, so without one nothing would be unique (``queue.md`` Q12).
    """
    if not isinstance(request.payload, dict) or not request.payload.get("provider"):
        raise InvalidInput("an enrich request must name its provider: payload {'provider': 'opencode'} or 'claude'")
    return await _insert_unless(connection, request, JobType.ENRICH, _ENRICH_CONFLICT)


async def create_harvest_jobs(connection: Connection, requests: Sequence[JobRequest]) -> list[Job]:
    """Many harvest rows at once, sorted by law, except for exhausted laws and those whose harvest suffices.

    To be the last of its transaction: two transactions that insert the same laws in different orders, or that write to
    rows of others afterwards, would deadlock (D8). Active harvests are left out by the look already, not
    only by the index: at the index two laws that cite each other would wait for each other's completion.
    """
    ordered = sorted({request.law_id: request for request in requests}.values(), key=lambda request: request.law_id)
    rows = await connection.fetch(
        f"""
        INSERT INTO jobs (job_type, law_id, priority, payload, max_attempts)
        SELECT 'harvest', r.law_id, r.priority, r.payload::jsonb, r.max_attempts
        FROM unnest($1::text[], $2::int[], $3::text[], $4::int[]) AS r(law_id, priority, payload, max_attempts)
        WHERE NOT EXISTS (SELECT FROM jobs AS j
                          WHERE j.law_id = r.law_id AND j.job_type = 'harvest' AND {HARVEST_SUFFICES})
          AND NOT EXISTS (SELECT FROM law_entries AS l WHERE l.law_id = r.law_id AND l.status IN (
                'harvest_exhausted', 'harvested', 'enriching', 'enriched', 'enrich_failed', 'enrich_exhausted'))
        ORDER BY r.law_id
        {_HARVEST_CONFLICT}
        RETURNING {JOB_COLUMNS}
        """,
        [request.law_id for request in ordered],
        [request.priority for request in ordered],
        [payload_to_json(request.payload) for request in ordered],
        [request.max_attempts for request in ordered],
    )
    surplus = await _take_back(connection, [row["id"] for row in rows]) if rows else set()
    return [job_of(row) for row in rows if row["id"] not in surplus]


async def _take_back(connection: Connection, made: Sequence[UUID]) -> set[UUID]:
    """Delete those of our new rows whose law was harvested while the insert waited for others at the index (D15).

    The insert looks around once, at its start; a later statement sees what was committed since. Nobody else can see or
    hold these rows yet, so this waits for nothing.
    """
    rows = await connection.fetch(
        """
        DELETE FROM jobs AS j WHERE j.id = ANY ($1::uuid[]) AND EXISTS (
            SELECT FROM jobs AS done
            WHERE done.law_id = j.law_id AND done.job_type = 'harvest' AND done.status = 'completed')
        RETURNING j.id
        """,
        made,
    )
    return {row["id"] for row in rows}


async def _insert_unless(connection: Connection, request: JobRequest, job_type: JobType, conflict: str) -> Job | None:
    if request.job_type is not job_type:
        raise InvalidInput(f"this makes {job_type} jobs, the request is for {request.job_type}")
    row = await connection.fetchrow(f"{_INSERT} {conflict} RETURNING {JOB_COLUMNS}", *_values(request))
    return None if row is None else job_of(row)


def _values(request: JobRequest) -> tuple[Any, ...]:
    law_id = scrub_text(request.law_id)
    if not law_id:
        raise InvalidInput("a job needs a law_id")
    return (
        request.job_type.value,
        law_id,
        request.priority,
        payload_to_json(request.payload),
        request.max_attempts,
        request.traject_ref,
        request.delay_s,
    )
