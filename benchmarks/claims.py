"""A durable claim through our port against the same SQL on bare asyncpg in asyncio: what the bridge costs."""

from __future__ import annotations

import json
import statistics

from actors.ports.database import DatabaseSettings
from benchmarks.contest import contestant
from benchmarks.report import Row, alternate, median_ratio
from benchmarks.stage import Stage, on
from schema.connection import Connection

BLOCK = 100
ROUNDS = 15
_FILL = """
INSERT INTO jobs (job_type, law_id) SELECT 'traject_harvest', 'L' || n FROM generate_series(1, $1) AS n
"""


async def fill(connection: Connection, jobs: int) -> None:
    """Only ``jobs`` pending rows, of a type without uniqueness, and fresh statistics."""
    await connection.execute("TRUNCATE jobs CASCADE")
    await connection.execute(_FILL, jobs)
    await connection.execute("VACUUM (ANALYZE) jobs")


def run(stage: Stage) -> list[Row]:
    url = stage.database()
    session = json.dumps(DatabaseSettings(url=url).session)
    on(url, fill, 2 * (ROUNDS + 2) * BLOCK)
    with contestant("claim", "port", url, session) as port, contestant("claim", "bare", url, session) as bare:
        pairs = alternate(lambda: port(BLOCK)["p50_s"], lambda: bare(BLOCK)["p50_s"], rounds=ROUNDS)
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    name = "durable claim, p50 (asyncpg on asyncio)"
    return [Row(name, f"{ours * 1e6:.0f} us", f"{peer * 1e6:.0f} us", median_ratio(pairs), 1.25, at_least=False)]
