"""Deleting jobs that ended long ago, a few at a time, and never one that somebody still points at.

A pass walks the table by primary key, so it needs no index of its own and what must stay is looked at once a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from schema.connection import Connection
from schema.records import plain_uuid

LOCK_KEY: Final = 5928222847461901637
"""Held for one batch, so that the janitors of several supervisors take turns."""


@frozen
class Batch:
    """One step of a pass. ``last`` is where the next one goes on; None: the pass is over.

    ``busy``: another supervisor was at it just now, and nothing was looked at.
    """

    deleted: int = 0
    last: UUID | None = None
    busy: bool = False


# Rows that may go, in the order of the primary key from $1 on, at most $2 of them looked at.
#
# A completed harvest stays while it is the newest of its law: D14 and D15 ask whether a law was ever harvested.
# Runs of the last hours stay, because the hourly budget counts them (D11); three cover the doubled hour of autumn.
_PRUNE: Final = """
WITH looked AS MATERIALIZED (
    SELECT id, job_type, law_id, status, started_at, completed_at, run_starts FROM jobs
    WHERE id > $1 ORDER BY id LIMIT $2
), doomed AS MATERIALIZED (
    SELECT l.id FROM looked AS l
    WHERE l.status IN ('completed', 'failed') AND l.completed_at < now() - $3 * interval '1 day'
      AND (l.started_at IS NULL OR l.started_at < now() - interval '3 hours')
      AND NOT EXISTS (SELECT FROM unnest(l.run_starts) AS run(at) WHERE run.at >= now() - interval '3 hours')
      AND (l.job_type <> 'harvest' OR l.status <> 'completed' OR EXISTS (
            SELECT FROM jobs AS newer WHERE newer.law_id = l.law_id AND newer.job_type = 'harvest'
              AND newer.status = 'completed' AND (newer.completed_at, newer.id) > (l.completed_at, l.id)))
      AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.job_id = l.id AND t.status = 'open')
      AND NOT EXISTS (SELECT FROM law_entries AS e WHERE e.harvest_job_id = l.id)
      AND NOT EXISTS (SELECT FROM law_entries AS e WHERE e.enrich_job_id = l.id)
      {references}
), locked AS MATERIALIZED (
    SELECT j.id FROM jobs AS j WHERE j.id = ANY (ARRAY(SELECT id FROM doomed)) AND j.status IN ('completed', 'failed')
    ORDER BY j.id FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING id
)
SELECT (SELECT count(*) FROM gone) AS deleted, (SELECT count(*) FROM looked) AS looked,
       (SELECT id FROM looked ORDER BY id DESC LIMIT 1) AS last
"""

# Tables that would lose rows with their job, or that would refuse: ours, and those that a later platform release adds.
_REFERENCES: Final = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS relation, quote_ident(a.attname) AS attribute
FROM pg_constraint AS k
    JOIN pg_class AS c ON c.oid = k.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
WHERE k.contype = 'f' AND k.confrelid = 'jobs'::regclass AND cardinality(k.conkey) = 1 AND k.confdeltype <> 'n'
ORDER BY 1, 2
"""


async def prune_jobs(connection: Connection, *, days: int, after: UUID | None = None, look_at: int = 500) -> Batch:
    """Look at the next ``look_at`` jobs and delete those that ended more than ``days`` days ago and that nobody needs.

    Needs a transaction. Kept whatever their age: active jobs, jobs that a law or an open task links to, those that
    enrichment's reports belong to (they would be deleted with them), the last harvest of a law, runs that the hourly
    budget counts.
    """
    if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", LOCK_KEY):
        return Batch(last=after, busy=True)
    query = _PRUNE.format(references=_guards(await connection.fetch(_REFERENCES)))
    row = await connection.fetchrow(query, after or UUID(int=0), look_at, days)
    assert row is not None
    return Batch(row["deleted"], plain_uuid(row["last"]) if row["looked"] == look_at else None)


def _guards(references: Sequence[Mapping[str, Any]]) -> str:
    """A condition for each table that must not lose rows. The names come quoted from the catalogue."""
    return "\n      ".join(
        f"AND NOT EXISTS (SELECT FROM {row['relation']} AS r WHERE r.{row['attribute']} = l.id)" for row in references
    )
