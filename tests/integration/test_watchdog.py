"""The thread beside the loop, on the real clock: it sees what holds the loop, and ends what does not end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import structlog
import trio
from structlog.testing import LogCapture
from structlog.typing import EventDict

from supervisor.watchdog import Watchdog, WatchdogRule
from tests.kit.processes import until

RULE = WatchdogRule(sample_s=0.005, hold_s=0.05, stand_still_s=0.2, tick_s=0.05)


@pytest.fixture
def said() -> Iterator[list[EventDict]]:
    before = structlog.get_config()
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture.entries
    structlog.configure(**before)


def hold_the_loop(seconds: float) -> None:
    """Blocks this thread, and with it the loop, as a long parse would."""
    threading.Event().wait(seconds)


async def test_who_holds_the_loop_is_named_while_it_holds(said: list[EventDict]) -> None:
    # D17, QH-08
    watchdog = Watchdog(rule=RULE)

    async def culprit() -> None:
        hold_the_loop(0.12)

    with watchdog.watching():
        async with trio.open_nursery() as nursery:
            await nursery.start(watchdog.run)
            nursery.start_soon(culprit, name="job:harvest 41")
            await until(lambda: watchdog.holds > 0)
            nursery.cancel_scope.cancel()
    (line,) = [line for line in said if line["event"] == "a task holds the loop"]
    assert line["task"] == "job:harvest 41"
    assert any("hold_the_loop" in frame for frame in line["stack"])
    assert line["held_ms"] >= 50


async def test_a_loop_that_turns_is_left_in_peace(said: list[EventDict]) -> None:
    watchdog = Watchdog(rule=WatchdogRule(sample_s=0.005, hold_s=5, stand_still_s=5, tick_s=0.01))
    with watchdog.watching():
        async with trio.open_nursery() as nursery:
            await nursery.start(watchdog.run)
            await trio.to_thread.run_sync(hold_the_loop, 0.2)  # in a thread: that is how heavy work is done
            nursery.cancel_scope.cancel()
    assert said == []
    assert watchdog.holds == 0


async def test_a_loop_that_stands_still_is_dumped_once_with_all_stacks(said: list[EventDict]) -> None:
    watchdog = Watchdog(rule=RULE)
    with watchdog.watching():
        async with trio.open_nursery() as nursery:
            await nursery.start(watchdog.run)
            await trio.sleep(0.1)
            hold_the_loop(0.6)
            nursery.cancel_scope.cancel()
    (line,) = [line for line in said if line["event"] == "the loop stands still"]
    assert any("hold_the_loop" in frame for frame in line["stacks"]["MainThread"])


async def test_past_the_last_bound_the_process_is_ended_with_the_survivors_named(said: list[EventDict]) -> None:
    # D12; the earliest bound counts
    codes: list[int] = []
    watchdog = Watchdog(lambda: ["harvest job 41"], RULE, end=codes.append)
    with watchdog.watching():
        watchdog.end_by(0.05)
        watchdog.end_by(60)
        await until(lambda: codes == [1])
    (line,) = [line for line in said if line["event"].startswith("ended by force")]
    assert line["survivors"] == ["harvest job 41"]


async def test_an_end_in_time_is_no_forced_end(said: list[EventDict]) -> None:
    codes: list[int] = []
    watchdog = Watchdog(rule=RULE, end=codes.append)
    with watchdog.watching():
        watchdog.end_by(60)
    assert codes == []
    assert "watchdog" not in {thread.name for thread in threading.enumerate()}
