"""A bare loop of httpx on trio over the same pages: no rules, no checks, no extraction."""

from __future__ import annotations

import sys
import time

import httpx
import trio

from benchmarks.contestants import tell

FETCHERS = 4


async def main(port: int, kind: str, pages: int) -> None:
    numbers = iter(range(pages))

    async def worker(client: httpx.AsyncClient) -> None:
        for number in numbers:
            answer = await client.get(f"http://127.0.0.1:{port}/{kind}/{number}")
            assert answer.status_code == 200

    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(f"http://127.0.0.1:{port}/{kind}/0")
        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(FETCHERS):
                nursery.start_soon(worker, client)
        tell(took_s=time.perf_counter() - begin)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
