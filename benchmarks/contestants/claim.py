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


async def blocks(one: Callable[[], Awaitable[ClaimAnswer]]) -> None:
    """For each line of standard input, the median time of so many single claims; the same code runs on both loops.

    The parent asks both sides in turn, so that what the machine does besides hits both. Waiting for it blocks the loop.
    """
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            answer = await one()
            times.append(time.perf_counter() - begin)
            assert len(answer.jobs) == 1
        tell(p50_s=statistics.median(times))


def request() -> ClaimRequest:
    return ClaimRequest(uuid4(), "bench", (Want((JobType.TRAJECT_HARVEST,), 1),))


def port(url: str, _session: dict[str, str]) -> None:
    import trio

    from actors.ports.database import DatabaseSettings, open_database

    async def main() -> None:
        async with open_database(DatabaseSettings(url=url)) as database:
            await blocks(lambda: database.run(claim, request()))

    trio.run(main)


def bare(url: str, session: dict[str, str]) -> None:
    """``session`` are the server settings that the port makes for its sessions: the same plans on both sides."""
    import asyncio

    import asyncpg

    async def main() -> None:
        connection: Any = await asyncpg.connect(url, server_settings=session)
        try:
            await blocks(lambda: claim(connection, request()))
        finally:
            await connection.close()

    asyncio.run(main())
    assert "trio_asyncio" not in sys.modules


if __name__ == "__main__":
    {"port": port, "bare": bare}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
