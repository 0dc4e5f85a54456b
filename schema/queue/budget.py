"""Counting claude runs in the jobs table (D11, ``queue.md`` 5): every claim is a run, whatever became of it."""

from __future__ import annotations

import datetime as dt
from typing import Final
from uuid import UUID

from protocols.budget import CLAUDE, PROVIDERS
from schema.connection import Connection

LOCK_KEY: Final = 5928222847461901636
"""Held from the count to the commit of a claim that may take claude rows, so that no two supervisors share an allowance."""


async def try_budget_lock(connection: Connection) -> bool:
    """Take the budget lock until the end of the transaction; False when another claim holds it just now."""
    return bool(await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", LOCK_KEY))


# date_trunc with a zone, not over AT TIME ZONE: local 02:30 of the doubled autumn hour is ambiguous, the instant is not.
# A row without the stamp of its newest start was claimed by an existing worker, or before there were stamps: that start
# counts once. A provider that nobody knows counts as claude.
_COUNT: Final = """
WITH moment AS (
    SELECT COALESCE($3::timestamptz, clock_timestamp()) AS at
), bucket AS (
    SELECT date_trunc('hour', at, 'Europe/Amsterdam') AS start, at FROM moment
), runs AS (
    SELECT count(*) AS used
    FROM bucket, jobs AS j CROSS JOIN LATERAL unnest(
        CASE WHEN j.started_at = ANY (j.run_starts) THEN j.run_starts ELSE j.run_starts || j.started_at END) AS run(at)
    WHERE j.job_type IN ('enrich', 'document_convert', 'law_convert') AND ($2 OR j.job_type = 'enrich')
      AND j.started_at >= bucket.start
      AND run.at >= bucket.start AND run.at < bucket.start + interval '1 hour'
      AND COALESCE(j.run_provider, j.payload->>'provider', '') <> ALL ($1::text[])
)
SELECT runs.used, bucket.at, EXTRACT(HOUR FROM bucket.at AT TIME ZONE 'Europe/Amsterdam')::int AS local_hour
FROM runs, bucket
"""


async def count_runs(
    connection: Connection, *, includes_convert: bool, provider: str = CLAUDE, at: dt.datetime | None = None
) -> tuple[int, int, dt.datetime]:
    """Runs of ``provider`` in the current clock hour, the local hour (0..23), and the moment that both are of.

    The claim that follows stamps its runs with that very moment, else a run could fall into an hour it was not counted for.
    """
    others = [name for name in PROVIDERS if name != provider]
    row = await connection.fetchrow(_COUNT, others, includes_convert, at)
    assert row is not None
    return row["used"], row["local_hour"], row["at"]


async def refund_run(connection: Connection, job_id: UUID) -> None:
    """Forget the newest run of a claim that ended before its child started; the caller has proved the claim (D11)."""
    await connection.execute(
        """
        UPDATE jobs SET run_starts = left_over.runs, started_at = left_over.newest
        FROM (SELECT array_remove(run_starts, started_at) AS runs,
                     (SELECT max(s) FROM unnest(array_remove(run_starts, started_at)) AS s) AS newest
              FROM jobs WHERE id = $1) AS left_over
        WHERE id = $1 AND started_at = ANY (run_starts)
        """,
        job_id,
    )
