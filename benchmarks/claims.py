"""A durable claim through our port against the same SQL on bare asyncpg in asyncio: what the bridge costs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import asyncpg
import trio

from actors.ports.database import DatabaseSettings, open_database
from benchmarks.report import Row, alternate, median_ratio
from benchmarks.stage import Stage, on
from schema.connection import Connection
from schema.queue.claim import claim
from schema.queue.terms import ClaimAnswer, ClaimRequest, Want
from schema.rows import JobType

CLAIMS = 300
_FILL = """
INSERT INTO jobs (job_type, law_id) SELECT 'traject_harvest', 'L' || n FROM generate_series(1, $1) AS n
"""


def _request() -> ClaimRequest:
    return ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), 1),))


async def fill(connection: Connection, jobs: int) -> None:
    """Only ``jobs`` pending rows, of a type without uniqueness, and fresh statistics."""
    await connection.execute("TRUNCATE jobs CASCADE")
    await connection.execute(_FILL, jobs)
    await connection.execute("VACUUM (ANALYZE) jobs")


def _through_port(url: str) -> float:
    async def main() -> float:
        async with open_database(DatabaseSettings(url=url)) as database:
            return await _timed(lambda: database.run(claim, _request()))

    on(url, fill, CLAIMS + 20)
    return trio.run(main)


async def _timed(one: Callable[[], Awaitable[ClaimAnswer]]) -> float:
    """The median time of ``CLAIMS`` single claims, one after the other; the same code runs on both loops."""
    times = []
    for _ in range(CLAIMS):
        begin = time.perf_counter()
        answer = await one()
        times.append(time.perf_counter() - begin)
        assert len(answer.jobs) == 1
    return statistics.median(times)


def _bare(url: str) -> float:
    async def main() -> float:
        connection = await asyncpg.connect(url)
        try:
            return await _timed(lambda: claim(connection, _request()))
        finally:
            await connection.close()

    on(url, fill, CLAIMS + 20)
    return asyncio.run(main())


def run(stage: Stage) -> list[Row]:
    url = stage.database()
    pairs = alternate(lambda: _through_port(url), lambda: _bare(url), rounds=5)
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    return [
        Row(
            "durable claim, p50 (asyncpg on asyncio)",
            f"{ours * 1e6:.0f} us",
            f"{peer * 1e6:.0f} us",
            median_ratio(pairs),
            1.25,
            at_least=False,
        )
    ]
