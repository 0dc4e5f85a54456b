"""Claims on a table with a history against claims on an empty one: what a million finished rows and long queues cost."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Final
from uuid import uuid4

import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from benchmarks.report import Row, median_ratio
from benchmarks.stage import Stage, on
from schema.connection import Connection
from schema.queue.claim import claim
from schema.queue.terms import ClaimRequest, Want
from schema.rows import JobType

FINISHED: Final = 1_000_000
PENDING: Final = 100_000
WAITING: Final = 20_000
CLAIMS: Final = 250
WARM_UP: Final = 10
ROUNDS: Final = 5
_BATCH: Final = 100_000

_ADD_FINISHED: Final = """
INSERT INTO jobs (job_type, law_id, status, attempts, payload, result, created_at, started_at, completed_at)
SELECT (CASE n % 3 WHEN 0 THEN 'enrich' ELSE 'harvest' END)::job_type, 'BWBR' || lpad((n % 40000)::text, 7, '0'),
       (CASE n % 20 WHEN 0 THEN 'failed' ELSE 'completed' END)::job_status, 1,
       jsonb_build_object('provider', CASE n % 2 WHEN 0 THEN 'claude' ELSE 'opencode' END),
       jsonb_build_object('law_name', 'Wet nummer ' || n, 'change', 'text'),
       m.at, m.at + interval '1 second', m.at + interval '30 seconds'
FROM generate_series($1::int, $2::int) AS n, LATERAL (SELECT now() - interval '2 days' - n * interval '1 minute' AS at) AS m
"""
_ADD_PENDING: Final = """
INSERT INTO jobs (job_type, law_id, payload, scheduled_at)
SELECT $1::text::job_type, 'L' || n, CASE WHEN $2::text IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('provider', $2::text) END,
       CASE WHEN $4 THEN now() + interval '1 day' + n * interval '1 second' END
FROM generate_series(1, $3::int) AS n
"""


async def add_history(connection: Connection, rows: int) -> None:
    """Jobs that ended, over the last two years."""
    for first in range(1, rows + 1, _BATCH):
        await connection.execute(_ADD_FINISHED, first, min(first + _BATCH - 1, rows))


async def add_pending(
    connection: Connection, job_type: JobType, rows: int, *, provider: str | None = None, later: bool = False
) -> None:
    """Rows to claim now, or ``later``."""
    await connection.execute(_ADD_PENDING, job_type.value, provider, rows, later)


async def settle(connection: Connection) -> None:
    """What autovacuum would have done in the time that all this took."""
    await connection.execute("VACUUM (ANALYZE) jobs")


async def refill(connection: Connection, job_type: JobType, provider: str | None) -> None:
    """Nothing but the rows that are claimed."""
    await connection.execute("TRUNCATE jobs CASCADE")
    await add_pending(connection, job_type, CLAIMS + 20, provider=provider)
    await settle(connection)


async def _timed(database: Database, job_type: JobType) -> float:
    """Seconds of one claim through our port."""
    request = ClaimRequest(uuid4(), "bench", (Want((job_type,), 1),))
    begin = time.perf_counter()
    answer = await database.run(claim, request)
    seconds = time.perf_counter() - begin
    assert len(answer.jobs) == 1
    return seconds


async def _claims_per_s(full_url: str, empty_url: str, job_type: JobType) -> tuple[float, float]:
    """By the median of single claims, taken in turns, so that whatever else the machine does slows both down."""
    times: tuple[list[float], list[float]] = ([], [])
    async with (
        open_database(DatabaseSettings(url=full_url)) as full,
        open_database(DatabaseSettings(url=empty_url)) as empty,
    ):
        sides = [(full, times[0]), (empty, times[1])]
        for number in range(CLAIMS):
            for database, taken in sides if number % 2 else reversed(sides):
                taken.append(await _timed(database, job_type))
    ours, peer = (1 / statistics.median(side[WARM_UP:]) for side in times)
    return ours, peer


def _against_empty(name: str, full: str, empty: str, job_type: JobType, aim: float, provider: str | None = None) -> Row:
    pairs = []
    for _ in range(ROUNDS):
        on(empty, partial(refill, job_type=job_type, provider=provider))
        pairs.append(trio.run(_claims_per_s, full, empty, job_type))
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Row(name, f"{ours:.0f}/s", f"{peer:.0f}/s", median_ratio(pairs), aim, at_least=True)


def run(stage: Stage) -> list[Row]:
    """Each line keeps what those before it put into the table. The sessions of each round are new, and plan anew."""
    full, empty = stage.database(), stage.database()
    own, other = JobType.TRAJECT_HARVEST, JobType.DOCUMENT_CONVERT
    on(full, add_history, FINISHED)
    on(full, add_pending, own, PENDING)
    on(full, settle)
    against = "claims, 1 million finished, 100,000 pending"
    rows = [_against_empty(against, full, empty, own, 0.9)]
    on(full, partial(add_pending, job_type=own, rows=WAITING, later=True))
    on(full, settle)
    rows.append(_against_empty("  and 20,000 that wait for their time", full, empty, own, 0.8))
    on(full, add_pending, other, PENDING)
    on(full, settle)
    rows.append(_against_empty("  and 100,000 of another type", full, empty, own, 0.8))
    on(full, partial(add_pending, job_type=JobType.LAW_CONVERT, rows=PENDING, provider="claude"))
    on(full, partial(add_pending, job_type=JobType.LAW_CONVERT, rows=2 * ROUNDS * CLAIMS, provider="opencode"))
    on(full, settle)
    rows.append(_against_empty("  and 100,000 of another provider", full, empty, JobType.LAW_CONVERT, 0.8, "opencode"))
    return rows
