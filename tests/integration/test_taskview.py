"""What the tree of tasks tells of real tasks, and that the clock behind it forgets those that have ended."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
import trio

from supervisor import taskview
from supervisor.taskview import TaskClock, TaskView, duration


def watched(main: Callable[[TaskClock], Awaitable[None]]) -> TaskClock:
    """Run ``main(clock)`` under a clock."""
    clock = TaskClock()
    trio.run(main, clock, instruments=[clock])
    return clock


def by_name(view: TaskView | None) -> dict[str, TaskView]:
    assert view is not None
    return {one.name: one for _, one in view.walk()}


async def _receive(channel: trio.MemoryReceiveChannel[int]) -> None:
    with trio.move_on_after(100):
        await channel.receive()


async def _shielded(until: trio.Event) -> None:
    with trio.CancelScope(shield=True):
        await until.wait()


def test_each_task_is_told_with_name_age_deadline_shield_and_where_it_waits() -> None:
    before: dict[str, TaskView] = {}
    after: dict[str, TaskView] = {}

    async def main(clock: TaskClock) -> None:
        _, channel = trio.open_memory_channel[int](0)
        ready = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive, channel, name="claimer:run")
            nursery.start_soon(_shielded, ready, name="job:harvest 41")
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep(0.02)
            before.update(by_name(taskview.view(clock)))
            nursery.cancel_scope.cancel()
            after.update(by_name(taskview.view(clock)))
            ready.set()

    watched(main)
    claimer, job, library = before["claimer:run"], before["job:harvest 41"], before["trio.sleep_forever"]
    assert claimer.where.startswith("tests/integration/test_taskview.py:")
    assert claimer.where.endswith(" _receive")
    assert claimer.waits_in == "receive"
    assert claimer.deadline_s is not None
    assert 99 < claimer.deadline_s < 100
    assert claimer.age_s is not None
    assert 0.02 <= claimer.age_s < 5
    assert (claimer.shielded, job.shielded, library.shielded) == (False, True, False)
    assert (library.where, library.waits_in, library.deadline_s) == ("", "sleep_forever", None)
    assert (claimer.cancelled, after["claimer:run"].cancelled, after["job:harvest 41"].cancelled) == (
        False,
        True,
        False,
    )


def test_children_stand_below_their_parents_in_the_order_in_which_they_were_started() -> None:
    lines: list[str] = []

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(trio.sleep_forever, name=f"child:{number}")

    async def main(clock: TaskClock) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(parent, name="parent")
            await trio.testing.wait_all_tasks_blocked()
            view = taskview.view(clock)
            assert view is not None
            lines.extend(taskview.render(view, {"parent": "has three"}))
            nursery.cancel_scope.cancel()

    watched(main)
    assert max(map(len, lines)) <= 80
    told = re.sub(r"\n {18,}", " ", "\n".join(lines)).splitlines()[2:]
    names = [re.sub(r"^ *[0-9.]+s +[0-9.]+s  |  ·.*| · .*", "", line) for line in told]
    assert names == ["  parent: has three", "    child:0", "    child:1", "    child:2"]
    assert "waits for the tasks below" in told[0]


def test_the_clock_forgets_tasks_that_have_ended() -> None:
    most = 0

    async def main(clock: TaskClock) -> None:
        nonlocal most
        for _ in range(20):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(trio.lowlevel.checkpoint)
                most = max(most, clock.tasks)
        assert clock.tasks < 10

    assert watched(main).tasks <= 1
    assert most >= 10


def test_before_the_loop_runs_there_is_nothing_to_see() -> None:
    assert taskview.view(TaskClock()) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.44, "0.4s"), (12.9, "12s"), (185, "3m05s"), (7_620, "2h07m"), (273_600, "3d04h"), (-65, "-1m05s")],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
