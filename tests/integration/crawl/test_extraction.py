"""Extraction in processes of their own: limited in time and memory, replaced, gone when nobody needs them (D69)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.ports import proctable
from actors.ports.crawlsettings import MEBIBYTE, ExtractSettings
from actors.ports.extraction import Extractor, open_extractor
from protocols.failures import ResourceExhausted
from protocols.webpage.extract import Extracted, RawPage
from tests.kit.processes import alive, until, zombies_of
from tests.kit.website import article

ROOT = Path(__file__).parents[3]
HARD = "<html><body>" + "".join(f"<p>Zin nummer {n} <b>vet</b> over iets</p>" for n in range(40_000)) + "</body></html>"
"""Takes seconds, however fast the machine."""


def raw(body: str, content_type: str = "text/html; charset=utf-8") -> RawPage:
    return RawPage("https://example.com/a", content_type, body.encode())


def workers() -> set[int]:
    """The children of this process that extract."""
    return {row.pid for row in proctable.rows() if row.parent == os.getpid() and row.alive and _extracts(row.pid)}


def _extracts(pid: int) -> bool:
    try:
        return b"extraction_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@asynccontextmanager
async def extractor(**changes: Any) -> AsyncIterator[Extractor]:
    async with open_extractor(ExtractSettings(**{"workers": 1, **changes})) as made:
        yield made
    assert workers() == set()
    assert zombies_of(os.getpid()) == set()


async def test_a_page_comes_back_as_markdown_and_the_process_stays_for_the_next() -> None:
    async with extractor() as pages:
        first = await pages.extract(raw(article("Eerste")))
        before = workers()
        second = await pages.extract(raw(article("Tweede")))
        assert (first.metadata["title"], second.metadata["title"]) == ("Eerste", "Tweede")
        assert workers() == before != set()


async def test_a_page_that_takes_too_long_is_stopped_and_the_next_one_is_not_affected() -> None:
    async with extractor(time_limit_s=0.5) as pages:
        begin = trio.current_time()
        assert (await pages.extract(raw(HARD))).problem == "extraction took more than 0.5 s"
        assert trio.current_time() - begin < 10
        assert (await pages.extract(raw(article()))).problem == ""


async def test_a_page_that_takes_too_much_memory_is_given_up() -> None:
    async with extractor(memory_bytes=96 * MEBIBYTE, time_limit_s=30) as pages:
        assert "memory" in (await pages.extract(raw(HARD))).problem
        assert (await pages.extract(raw(article()))).problem == ""


async def test_a_process_that_dies_over_a_page_costs_that_page_only() -> None:
    async with extractor(time_limit_s=30) as pages, trio.open_nursery() as nursery:
        results: list[Extracted] = []

        async def one() -> None:
            results.append(await pages.extract(raw(HARD)))

        await pages.extract(raw(article()))
        (pid,) = workers()
        nursery.start_soon(one)
        await until(lambda: (row := proctable.row_of(pid)) is not None and row.state == "R")
        os.kill(pid, signal.SIGSEGV)
        await until(lambda: bool(results))
        assert "without an answer" in results[0].problem
        assert (await pages.extract(raw(article()))).problem == ""


async def test_a_process_that_dies_between_two_pages_costs_none() -> None:
    async with extractor() as pages:
        await pages.extract(raw(article()))
        (pid,) = workers()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive({pid}))
        assert (await pages.extract(raw(article()))).problem == ""


async def test_processes_are_replaced_after_their_number_of_pages() -> None:
    async with extractor(pages_per_worker=3) as pages:
        used = []
        for _ in range(7):
            await pages.extract(raw(article()))
            used.append(frozenset(workers()))
        assert used[0] == used[1] != frozenset()
        assert used[2] == frozenset()  # the third page was its last
        assert used[3] == used[4]
        assert not used[0] & used[3]


async def test_no_more_processes_run_than_are_allowed() -> None:
    async with extractor(workers=2) as pages, trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(pages.extract, raw(article()))
        most = 0
        while nursery.child_tasks:
            most = max(most, len(workers()))
            await trio.sleep(0.01)
        assert most == 2


async def test_a_cancelled_page_ends_its_process() -> None:
    async with extractor(time_limit_s=30) as pages:
        await pages.extract(raw(article()))
        with trio.move_on_after(0.1) as scope:
            await pages.extract(raw(HARD))
        assert scope.cancelled_caught
        assert workers() == set()


async def test_the_loop_turns_while_a_hard_page_is_worked_on() -> None:
    longest = 0.0
    async with extractor(time_limit_s=1.0) as pages, trio.open_nursery() as nursery:
        await pages.extract(raw(article()))
        nursery.start_soon(pages.extract, raw(HARD))
        while nursery.child_tasks:
            before = time.perf_counter()
            await trio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)
    assert longest < 0.5


async def test_an_extraction_process_knows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """D50: its environment could be read through ``/proc``."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://piet:geheim@db/x")
    async with extractor() as pages:
        await pages.extract(raw(article()))
        (pid,) = workers()
        assert b"geheim" not in Path(f"/proc/{pid}/environ").read_bytes()


async def test_what_cannot_even_start_is_said() -> None:
    async with extractor(memory_bytes=8 * MEBIBYTE) as pages:
        with pytest.raises(ResourceExhausted, match="did not start"):
            await pages.extract(raw(article()))


ORPHANING = """
import os, sys, trio
from actors.ports.crawlsettings import ExtractSettings
from actors.ports.extraction import open_extractor
from tests.integration.crawl.test_extraction import HARD, article, raw, workers

async def main():
    async with open_extractor(ExtractSettings(workers=1, time_limit_s=1.0)) as pages, trio.open_nursery() as nursery:
        await pages.extract(raw(article()))
        print(*workers(), flush=True)
        if sys.argv[1] == "busy":
            nursery.start_soon(pages.extract, raw(HARD))
            await trio.sleep(0.2)
        os._exit(0)

trio.run(main)
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
async def test_a_process_does_not_outlive_a_supervisor_that_was_killed(state: str) -> None:
    done = await trio.run_process(
        [sys.executable, "-c", ORPHANING, state], capture_stdout=True, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    pid = int(done.stdout)
    await until(lambda: not alive({pid}), limit_s=15)
