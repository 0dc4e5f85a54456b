"""The status register of laws (``queue.md`` 2.10, 8.2; D14).

``update_status`` and its two guarded forms are the library; what a job may do to a law at its end stands in
``schema.aftercare``. The trigger of ``law_entries`` remembers the last settled status and the exhaustion, whoever writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID

from protocols.failures import InvalidInput
from protocols.scrub import scrub_text
from schema.connection import Connection
from schema.errors import LawNotFound
from schema.records import LAW_COLUMNS, law_of
from schema.rows import LawEntry, LawStatus


class FailKind(StrEnum):
    """The two kinds of work whose consecutive failures are counted per law, all providers together."""

    HARVEST = "harvest"
    ENRICH = "enrich"

    @property
    def failed(self) -> LawStatus:
        return LawStatus(f"{self.value}_failed")

    @property
    def exhausted(self) -> LawStatus:
        return LawStatus(f"{self.value}_exhausted")


ENRICH_SETTLED: Final = (LawStatus.ENRICHED, LawStatus.ENRICH_FAILED, LawStatus.ENRICH_EXHAUSTED)
"""What enrichment left behind, and what a re-harvest that changed no text puts back."""

_SET: Final = "status = $2::text::law_status"


async def upsert_law(connection: Connection, law_id: str, name: str | None = None, slug: str | None = None) -> LawEntry:
    """The entry, made as ``unknown`` where there was none. A name or slug replaces the old one; None keeps it.

    The driver's unique violation when the slug belongs to another law; ``rename_law`` is the form that cannot fail so.
    """
    row = await connection.fetchrow(
        f"""
        INSERT INTO law_entries AS l (law_id, law_name, slug) VALUES ($1, $2, $3)
        ON CONFLICT (law_id) DO UPDATE
            SET law_name = COALESCE(excluded.law_name, l.law_name), slug = COALESCE(excluded.slug, l.slug)
        RETURNING {LAW_COLUMNS}
        """,
        scrub_text(law_id),
        _text(name),
        _text(slug),
    )
    assert row is not None
    return law_of(row)


async def rename_law(connection: Connection, law_id: str, name: str | None, slug: str | None) -> bool:
    """Set name and slug of an existing law. False: another law has the slug; the name is stored without it.

    Never aborts the surrounding transaction: two laws of the same title are no reason to lose a harvest.
    """
    if slug is not None and await _take_slug(connection, law_id, scrub_text(slug)):
        taken = True
    else:
        taken = slug is None
    await connection.execute(
        "UPDATE law_entries SET law_name = $2 WHERE law_id = $1 AND law_name IS DISTINCT FROM $2 AND $2 IS NOT NULL",
        law_id,
        _text(name),
    )
    return taken


async def _take_slug(connection: Connection, law_id: str, slug: str) -> bool:
    """In a savepoint: the unique index is the judge, and a rival that commits the same slug first makes it speak."""
    try:
        async with connection.transaction():
            owner = await connection.fetchval("SELECT law_id FROM law_entries WHERE slug = $1", slug)
            if owner is None:
                await connection.execute("UPDATE law_entries SET slug = $2 WHERE law_id = $1", law_id, slug)
            return owner in (None, law_id)
    except Exception as error:
        if getattr(error, "sqlstate", None) != "23505":
            raise
        return False


async def update_status(connection: Connection, law_id: str, status: LawStatus) -> LawEntry:
    """Unconditional; which transitions make sense is the caller's business. LawNotFound."""
    return await _update(connection, law_id, _SET, status.value)


async def update_status_if(connection: Connection, law_id: str, expected: LawStatus, new: LawStatus) -> LawEntry | None:
    """Compare and set in one statement. None: the status was another, or there is no such law."""
    row = await connection.fetchrow(
        f"UPDATE law_entries SET {_SET} WHERE law_id = $1 AND status = $3::text::law_status RETURNING {LAW_COLUMNS}",
        law_id,
        new.value,
        expected.value,
    )
    return None if row is None else law_of(row)


async def update_status_unless_any(
    connection: Connection, law_id: str, protected: Collection[LawStatus], new: LawStatus
) -> LawEntry | None:
    """Set unless the status is a protected one. None: it was, or there is no such law."""
    row = await connection.fetchrow(
        f"UPDATE law_entries SET {_SET} WHERE law_id = $1 AND status::text <> ALL ($3::text[]) RETURNING {LAW_COLUMNS}",
        law_id,
        new.value,
        [status.value for status in protected],
    )
    return None if row is None else law_of(row)


async def set_harvest_job(connection: Connection, law_id: str, job_id: UUID) -> LawEntry:
    """Link the harvest job. LawNotFound; the driver's foreign key violation for an unknown job."""
    return await _update(connection, law_id, "harvest_job_id = $2", job_id)


async def set_enrich_job(connection: Connection, law_id: str, job_id: UUID) -> LawEntry:
    """Link the enrich job: one column for all providers, so the last one made stays. LawNotFound."""
    return await _update(connection, law_id, "enrich_job_id = $2", job_id)


async def set_coverage_score(connection: Connection, law_id: str, score: float) -> LawEntry:
    """The share of articles with machine-readable rules, 0.0 to 1.0. InvalidInput for anything else; LawNotFound."""
    if not math.isfinite(score) or not 0 <= score <= 1:
        raise InvalidInput(f"a coverage score lies between 0.0 and 1.0, not {score}")
    return await _update(connection, law_id, "coverage_score = $2", float(score))


async def get_law(connection: Connection, law_id: str) -> LawEntry:
    """LawNotFound."""
    row = await connection.fetchrow(f"SELECT {LAW_COLUMNS} FROM law_entries WHERE law_id = $1", law_id)
    if row is None:
        raise LawNotFound(law_id)
    return law_of(row)


async def law_exists(connection: Connection, law_id: str) -> bool:
    return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM law_entries WHERE law_id = $1)", law_id))


async def find_law(connection: Connection, law_id_or_slug: str) -> LawEntry:
    """By id, else by slug. LawNotFound."""
    row = await connection.fetchrow(
        f"SELECT {LAW_COLUMNS} FROM law_entries WHERE law_id = $1 OR slug = $1 ORDER BY (law_id = $1) DESC LIMIT 1",
        law_id_or_slug,
    )
    if row is None:
        raise LawNotFound(law_id_or_slug)
    return law_of(row)


async def list_laws(connection: Connection, status: LawStatus | None = None) -> Sequence[LawEntry]:
    """All laws, or those of one status, by id."""
    rows = await connection.fetch(
        f"SELECT {LAW_COLUMNS} FROM law_entries WHERE $1::text IS NULL OR status = $1::text::law_status ORDER BY law_id",
        None if status is None else status.value,
    )
    return [law_of(row) for row in rows]


async def increment_fail_count(connection: Connection, law_id: str, kind: FailKind) -> int:
    """The new count of consecutive failures. LawNotFound."""
    column = f"{kind.value}_fail_count"
    count = await connection.fetchval(
        f"UPDATE law_entries SET {column} = {column} + 1 WHERE law_id = $1 RETURNING {column}", law_id
    )
    if count is None:
        raise LawNotFound(law_id)
    return int(count)


async def reset_fail_count(connection: Connection, law_id: str, kind: FailKind) -> None:
    """Back to 0: a success ends the row of failures."""
    column = f"{kind.value}_fail_count"
    await connection.execute(f"UPDATE law_entries SET {column} = 0 WHERE law_id = $1 AND {column} <> 0", law_id)


async def exhaust_law(connection: Connection, law_id: str, kind: FailKind) -> LawEntry | None:
    """From the failed status of ``kind`` only, so that a reset by a person is not overwritten. None: it was another."""
    return await update_status_if(connection, law_id, kind.failed, kind.exhausted)


async def reset_exhausted(connection: Connection, law_id: str, kind: FailKind) -> LawEntry | None:
    """Let a person's decision end the exhaustion: failed again, count 0, no job made. None: it was not exhausted."""
    entry = await update_status_if(connection, law_id, kind.exhausted, kind.failed)
    remembered = kind is FailKind.ENRICH and entry is None
    if remembered:
        row = await connection.fetchrow(
            f"""
            UPDATE law_entries SET enrich_exhausted_at = NULL
            WHERE law_id = $1 AND enrich_exhausted_at IS NOT NULL RETURNING {LAW_COLUMNS}
            """,
            law_id,
        )
        entry = None if row is None else law_of(row)
    if entry is not None:
        await reset_fail_count(connection, law_id, kind)
    return entry


async def mark_enrich_failed(connection: Connection, law_id: str) -> int:
    """Rows changed, 0 or 1: an enriched or exhausted law keeps its status."""
    protected = (LawStatus.ENRICHED, LawStatus.ENRICH_EXHAUSTED)
    return int(await update_status_unless_any(connection, law_id, protected, LawStatus.ENRICH_FAILED) is not None)


async def restore_status(
    connection: Connection, law_id: str, wrote: Collection[LawStatus], *, harvested: bool = False
) -> LawEntry | None:
    """Undo the status that a job wrote, while it still stands (D14). None: it does not, or there is no such law.

    The status from before the job, else harvested if a harvest ever completed, else unknown; ``enriching`` when a
    corpus enrich job is at work right now. ``harvested``: the job was a harvest that went well, so what a failed one
    left behind is not put back, only what enrichment left, also when harvests failed since.
    """
    row = await connection.fetchrow(
        f"""
        UPDATE law_entries AS l SET status = CASE
            WHEN EXISTS (SELECT FROM jobs AS j WHERE j.law_id = l.law_id AND j.job_type = 'enrich'
                         AND j.status = 'processing' AND j.traject_ref IS NULL) THEN 'enriching'
            WHEN l.settled_status::text = ANY ($3::text[]) THEN l.settled_status
            WHEN $4 AND l.enrichment_status IS NOT NULL THEN l.enrichment_status
            WHEN $4 OR EXISTS (SELECT FROM jobs AS j WHERE j.law_id = l.law_id AND j.job_type = 'harvest'
                               AND j.status = 'completed' AND NOT COALESCE(j.result ? 'skipped', false))
                THEN 'harvested'::law_status
            ELSE 'unknown' END
        WHERE l.law_id = $1 AND l.status::text = ANY ($2::text[]) RETURNING {LAW_COLUMNS}
        """,
        law_id,
        [status.value for status in wrote],
        [status.value for status in (ENRICH_SETTLED if harvested else _RESTORABLE)],
        harvested,
    )
    return None if row is None else law_of(row)


_RESTORABLE: Final = tuple(
    status
    for status in LawStatus
    if status not in {LawStatus.UNKNOWN, LawStatus.QUEUED, LawStatus.HARVESTING, LawStatus.ENRICHING}
)


async def _update(connection: Connection, law_id: str, assignment: str, value: object) -> LawEntry:
    row = await connection.fetchrow(
        f"UPDATE law_entries SET {assignment} WHERE law_id = $1 RETURNING {LAW_COLUMNS}", law_id, value
    )
    if row is None:
        raise LawNotFound(law_id)
    return law_of(row)


def _text(value: str | None) -> str | None:
    return None if value is None else scrub_text(value)
