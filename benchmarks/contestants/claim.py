"""The claim statement of the product, one row at a time: ``port`` through our database port, ``bare`` on bare asyncpg."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from benchmarks.contestants import tell
from schema.queue.claim import claim
from schema.queue.terms import ClaimAnswer, ClaimRequest, Want
from schema.rows import JobType


async def timed(one: Callable[[], Awaitable[ClaimAnswer]], claims: int) -> float:
    """The median time of single claims, one after the other; the same code runs on both loops."""
    times = []
    for _ in range(claims):
        begin = time.perf_counter()
        answer = await one()
        times.append(time.perf_counter() - begin)
        assert len(answer.jobs) == 1
    return statistics.median(times)


def request() -> ClaimRequest:
    return ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), 1),))


def port(url: str, claims: int, _session: dict[str, str]) -> float:
    import trio

    from actors.ports.database import DatabaseSettings, open_database

    async def main() -> float:
        async with open_database(DatabaseSettings(url=url)) as database:
            return await timed(lambda: database.run(claim, request()), claims)

    return trio.run(main)


def bare(url: str, claims: int, session: dict[str, str]) -> float:
    """``session`` are the server settings that the port makes for its sessions: the same plans on both sides."""
    import asyncio

    import asyncpg

    async def main() -> float:
        connection: Any = await asyncpg.connect(url, server_settings=session)
        try:
            return await timed(lambda: claim(connection, request()), claims)
        finally:
            await connection.close()

    return asyncio.run(main())


if __name__ == "__main__":
    side, url, claims = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tell(p50_s={"port": port, "bare": bare}[side](url, claims, json.loads(sys.argv[4])))
    assert side == "port" or "trio_asyncio" not in sys.modules
