"""Claim, beat, reap, complete and release in hundreds of orders, on the queue in memory; with PostgreSQL in integration."""

from __future__ import annotations

import os

import pytest
import trio

from tests.kit.quartet import Quartet
from tests.kit.queuebench import MemoryBench

SEEDS = int(os.environ.get("INTERLEAVINGS", "150"))


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
async def test_no_order_of_events_ends_a_claim_twice(autojump_clock: trio.abc.Clock, start: int) -> None:
    for seed in range(start, min(start + 50, SEEDS)):
        quartet = Quartet(MemoryBench(), seed, pause_s=1)
        assert quartet.problems(await quartet.play()) == []
