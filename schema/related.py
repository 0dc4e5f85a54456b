"""Harvests of laws that an enrichment names: limited, deduplicated and remembered (D60, ``queue.md`` 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from attrs import frozen

from protocols.payloads import HarvestPayload, to_document
from protocols.related import RelatedLimits, Resolution, priority_at, select
from schema.connection import Connection
from schema.queue.create import HARVEST_SUFFICES, create_harvest_jobs
from schema.rows import Job, JobRequest, JobType

_log = structlog.get_logger(__name__)


@frozen
class RelatedWish:
    """What the entries of an envelope stand for. ``depth`` is the enrich job's own."""

    resolutions: tuple[Resolution, ...]
    depth: int
    limits: RelatedLimits
    tally: dict[str, int]


async def law_of_slug(connection: Connection, slug: str) -> str | None:
    """The law id that bears this slug; None: nobody does."""
    found: Any = await connection.fetchval("SELECT law_id FROM law_entries WHERE slug = $1", slug)
    return None if found is None else str(found)


async def enqueue_related(connection: Connection, job: Job, wish: RelatedWish) -> None:
    """New harvests within the limits, as the last statements of the transaction, and one summary line.

    In a savepoint: nothing here may cost the run that named them.
    """
    try:
        async with connection.transaction():
            counts = await _enqueue(connection, job, wish)
    except Exception:  # noqa: BLE001 - whatever the driver raises: the window itself is done and stays
        _log.exception("related laws not queued", law_id=job.law_id)
        return
    _log.info("related laws", law_id=job.law_id, **wish.tally, **counts)


async def _enqueue(connection: Connection, job: Job, wish: RelatedWish) -> dict[str, int]:
    ids = [resolution.bwb_id for resolution in wish.resolutions if hasattr(resolution, "bwb_id")]
    made_by_job, made_for_law = await _made(connection, job)
    selection = select(
        wish.resolutions,
        source_law_id=job.law_id,
        exhausted=await _exhausted(connection, ids),
        active=await _known(connection, ids),
        limits=wish.limits,
        made_by_job=made_by_job,
        made_for_law=made_for_law,
    )
    depth = wish.depth + 1
    made = await create_harvest_jobs(
        connection,
        [
            JobRequest(
                JobType.HARVEST,
                bwb_id,
                priority=priority_at(wish.depth),
                payload=to_document(HarvestPayload(bwb_id=bwb_id, depth=depth)),
            )
            for bwb_id in selection.wanted
        ],
    )
    await _remember(connection, job, made)
    return {
        "enqueued": len(made),
        "already_queued": len(selection.wanted) - len(made),
        "exhausted": selection.exhausted,
        "over_limit": selection.over_limit,
    }


async def _made(connection: Connection, job: Job) -> tuple[int, int]:
    row = await connection.fetchrow(
        """
        SELECT count(*) FILTER (WHERE enrich_job_id = $1) AS by_job, count(*) AS for_law
        FROM related_harvests WHERE source_law_id = $2
        """,
        job.id,
        job.law_id,
    )
    assert row is not None
    return row["by_job"], row["for_law"]


async def _exhausted(connection: Connection, ids: Sequence[str]) -> set[str]:
    rows = await connection.fetch(
        "SELECT law_id FROM law_entries WHERE law_id = ANY ($1::text[]) AND status = 'harvest_exhausted'", list(ids)
    )
    return {row["law_id"] for row in rows}


async def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Those that need no new job: a harvest is active, was done, or found nothing to harvest a moment ago (D15)."""
    rows = await connection.fetch(
        f"""
        SELECT DISTINCT j.law_id FROM jobs AS j
        WHERE j.law_id = ANY ($1::text[]) AND j.job_type = 'harvest' AND {HARVEST_SUFFICES}
        """,
        list(ids),
    )
    return {row["law_id"] for row in rows}


async def _remember(connection: Connection, job: Job, made: Sequence[Job]) -> None:
    await connection.execute(
        """
        INSERT INTO related_harvests (source_law_id, law_id, enrich_job_id, harvest_job_id)
        SELECT $1, r.law_id, $2, r.job_id FROM unnest($3::text[], $4::uuid[]) AS r(law_id, job_id)
        """,
        job.law_id,
        job.id,
        [harvest.law_id for harvest in made],
        [harvest.id for harvest in made],
    )
