"""What a harvest job writes besides its own row: at its start, and in the transaction that completes it (D14, D15).

Follow-ups and enrich jobs are created in the completing transaction, so a crash after the push loses nothing.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from attrs import frozen

from protocols.budget import PROVIDERS
from protocols.payloads import Change, HarvestPayload, HarvestResult, to_document
from schema import laws
from schema.connection import Connection
from schema.laws import FailKind
from schema.queue.create import create_enrich_job_if_not_exists, create_harvest_jobs
from schema.rows import Job, JobRequest, JobType, LawEntry, LawStatus

FOLLOW_UP_PRIORITY: Final = 30
DIRECT_ENRICH_PRIORITY: Final = 50
RECURSIVE_ENRICH_PRIORITY: Final = 10

_BWB_ID: Final = re.compile(r"BWBR[0-9]{7}")


@frozen
class HarvestRules:
    """``auto_enrich`` is ENRICH_AUTO_ENQUEUE: one enrich job per provider after a harvest that changed the text."""

    auto_enrich: bool = False
    providers: tuple[str, ...] = PROVIDERS


@frozen
class HarvestVersion:
    """What was last harvested into one file: hashes (hex) of the source text and of the bytes made of it."""

    source_sha256: str
    content_sha256: str


async def known_versions(connection: Connection, law_id: str) -> dict[str, HarvestVersion]:
    """What was last harvested into each file of the law, the newest first.

    A file that is missing was never harvested by us; then the one on the remote branch is what to compare with (D15).
    """
    rows = await connection.fetch(
        """
        SELECT file_path, source_sha256, content_sha256 FROM harvest_versions
        WHERE law_id = $1 ORDER BY harvested_at DESC, file_path
        """,
        law_id,
    )
    return {row["file_path"]: HarvestVersion(row["source_sha256"], row["content_sha256"]) for row in rows}


async def earlier_attempts(connection: Connection, job: Job) -> tuple[UUID, ...]:
    """The jobs of which an attempt at this law may have pushed and died before it could say so, the newest first.

    That is this one from its second attempt on, and those that failed for good, to which the law-level ladder made this
    one as a successor.
    """
    rows = await connection.fetch(
        """
        SELECT id FROM jobs WHERE law_id = $1 AND job_type = 'harvest'
           AND (status = 'failed' OR (id = $2 AND attempts > 1))
        ORDER BY created_at DESC, id LIMIT 10
        """,
        job.law_id,
        job.id,
    )
    return tuple(row["id"] for row in rows)


async def begin(connection: Connection, job: Job) -> None:
    """The law is being harvested, by this job. A fenced write at the start of the work."""
    await laws.upsert_law(connection, job.law_id)
    await laws.set_harvest_job(connection, job.law_id, job.id)
    await laws.update_status(connection, job.law_id, LawStatus.HARVESTING)


async def settle(
    connection: Connection,
    job: Job,
    *,
    payload: HarvestPayload,
    result: HarvestResult,
    rules: HarvestRules,
    moved_from: str | None = None,
) -> None:
    """Everything that a completed harvest means, in its transaction. ``moved_from``: the law's former file path (D33).

    The last statement creates the follow-ups, sorted, so that two laws that cite each other do not deadlock (D8).
    """
    entry = await _settle_law(connection, job.law_id, result)
    await _remember_version(connection, job, result, moved_from)
    if rules.auto_enrich and result.change is Change.TEXT and entry.enrich_exhausted_at is None:
        await _enqueue_enrich(connection, job.law_id, payload, result, rules)
    if result.change is not Change.NONE and payload.follows:
        await _enqueue_follow_ups(connection, job.law_id, payload, result)


async def _settle_law(connection: Connection, law_id: str, result: HarvestResult) -> LawEntry:
    """Status, name and count. Where the text is the same, what enrichment left behind stands again (D14)."""
    await laws.upsert_law(connection, law_id)
    if result.change is Change.TEXT:
        await laws.update_status(connection, law_id, LawStatus.HARVESTED)
    else:
        await laws.restore_status(connection, law_id, (LawStatus.HARVESTING,), harvested=True)
    await laws.reset_fail_count(connection, law_id, FailKind.HARVEST)
    await laws.rename_law(connection, law_id, result.law_name, result.slug)
    return await laws.get_law(connection, law_id)


async def _remember_version(connection: Connection, job: Job, result: HarvestResult, moved_from: str | None) -> None:
    await connection.execute(
        """
        INSERT INTO harvest_versions (law_id, file_path, source_sha256, content_sha256, job_id)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (law_id, file_path) DO UPDATE SET source_sha256 = excluded.source_sha256,
            content_sha256 = excluded.content_sha256, job_id = excluded.job_id, harvested_at = now()
        """,
        job.law_id,
        result.file_path,
        result.source_sha256,
        result.content_sha256,
        job.id,
    )
    if moved_from is None or moved_from == result.file_path:
        return
    await connection.execute(
        "DELETE FROM harvest_versions WHERE law_id = $1 AND file_path = $2", job.law_id, moved_from
    )
    await connection.execute(
        """
        UPDATE jobs SET payload = jsonb_set(payload, '{yaml_path}', to_jsonb($3::text))
        WHERE law_id = $1 AND job_type = 'enrich' AND status = 'pending' AND payload->>'yaml_path' = $2
        """,
        job.law_id,
        moved_from,
        result.file_path,
    )


async def _enqueue_enrich(
    connection: Connection, law_id: str, payload: HarvestPayload, result: HarvestResult, rules: HarvestRules
) -> None:
    """One job per provider, linked to the law: the last one made stays linked (``queue.md`` Q21)."""
    for provider in rules.providers:
        job = await create_enrich_job_if_not_exists(
            connection,
            JobRequest(
                JobType.ENRICH,
                law_id,
                priority=RECURSIVE_ENRICH_PRIORITY if payload.depth or payload.refresh else DIRECT_ENRICH_PRIORITY,
                payload={
                    "law_id": law_id,
                    "yaml_path": result.file_path,
                    "provider": provider,
                    **({} if payload.depth is None else {"depth": payload.depth}),
                },
            ),
        )
        if job is not None:
            await laws.set_enrich_job(connection, law_id, job.id)


async def _enqueue_follow_ups(
    connection: Connection, law_id: str, payload: HarvestPayload, result: HarvestResult
) -> list[Job]:
    return await create_harvest_jobs(
        connection,
        [
            JobRequest(
                JobType.HARVEST,
                bwb_id,
                priority=FOLLOW_UP_PRIORITY,
                payload=to_document(payload.follow_up(bwb_id)),
            )
            for bwb_id in result.referenced_bwb_ids
            if _BWB_ID.fullmatch(bwb_id) and bwb_id != law_id
        ],
    )
