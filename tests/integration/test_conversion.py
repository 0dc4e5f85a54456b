"""Where conversions run: the loop keeps turning, children give typed answers and can be stopped."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, date, datetime

import attrs
import pytest
import trio

from actors.ports import conversion, proctable
from actors.ports.conversion import LARGE_BYTES, converted
from benchmarks.biglaw import BWB_ID, DAY, big_law
from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.bwb.toestand import LawFacts, Style
from protocols.failures import Crashed, ResourceExhausted
from protocols.law import Layer
from protocols.lawproduct import Order, produce
from tests.kit.processes import until

FACTS = LawFacts(BWB_ID, "Grote lantaarnwet", Layer.WET, date(2024, 1, 15), date.fromisoformat(DAY))
LIMIT_S = 0.05
TRIES = 6
"""A busy machine makes gaps longer, never shorter: one quiet try shows what the code does."""


def order(text: bytes) -> Order:
    return Order(text, FACTS, Style.FULL, "regulation/nl", datetime(2026, 1, 2, tzinfo=UTC))


async def longest_gap_s(work: Order) -> float:
    """The longest time for which the loop did not come round while ``work`` was done."""
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not done:
            await trio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await converted(work)
        done = True
    return longest


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("size_bytes", [5_000_000, LARGE_BYTES - 30_000], ids=["child", "thread"])
async def test_the_loop_never_stands_still_for_50_ms_while_a_large_law_is_converted(size_bytes: int) -> None:
    work = order(big_law(size_bytes))
    assert (len(work.text) >= LARGE_BYTES) == (size_bytes == 5_000_000)
    gaps = []
    for _ in range(TRIES):
        gaps.append(await longest_gap_s(work))
        if gaps[-1] < LIMIT_S:
            return
    pytest.fail(f"the loop stood still for {min(gaps):.3f} s at least")


@pytest.fixture
def anything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "LARGE_BYTES", 0)


@pytest.mark.usefixtures("anything_is_large")
async def test_a_child_makes_the_same_as_a_thread() -> None:
    work = order(big_law(20_000))
    assert await converted(work) == produce(work)


@pytest.mark.usefixtures("anything_is_large")
@pytest.mark.parametrize(
    ("text", "failure", "reason"),
    [
        (b"<toestand>", MalformedLaw, "syntax"),
        (b"<a>" * 6000 + b"</a>" * 6000, RefusedLaw, "too_deep"),
        (b"<html></html>", MalformedLaw, "html"),
    ],
)
async def test_what_a_child_refuses_comes_out_as_the_same_failure(
    text: bytes, failure: type[MalformedLaw | RefusedLaw], reason: str
) -> None:
    with pytest.raises(failure) as told:
        await converted(order(text))
    with pytest.raises(failure) as expected:
        produce(order(text))
    assert (told.value.reason, told.value.message) == (reason, expected.value.message)


@pytest.mark.usefixtures("anything_is_large")
async def test_a_child_that_dies_of_a_bug_is_a_crash_with_the_last_line_of_its_trace() -> None:
    with pytest.raises(Crashed, match="exit code 1: TypeError"):
        await converted(attrs.evolve(order(big_law(20_000)), base=None))  # type: ignore[arg-type]


async def test_a_child_that_is_killed_is_a_strain_of_this_machine() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_kill_the_converter)
        with pytest.raises(ResourceExhausted, match="enough memory"):
            await converted(order(big_law(5_000_000)))


async def test_a_cancelled_conversion_leaves_no_child() -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(converted, order(big_law(5_000_000)))
            await until(lambda: bool(_converters()))
            scope.cancel()
    assert _converters() == []


async def _kill_the_converter() -> None:
    await until(lambda: bool(_converters()))
    for pid in _converters():
        os.kill(pid, signal.SIGKILL)


def _converters() -> list[int]:
    """Our children that run a conversion."""
    ours = [row.pid for row in proctable.rows() if row.parent == os.getpid() and row.alive]
    return [pid for pid in ours if b"conversion_process" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
