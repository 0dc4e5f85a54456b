"""Restart policy: which end is a crash, how often it is forgiven, and when the supervisor must go."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from attrs import define, field, frozen

from actors.ports.lifecycle import Lifecycle
from protocols.messages import Escalation, Phase
from supervisor.restart import Keeper, Policy


@frozen
class Scripted:
    """An actor that reports ready and then does what it is told."""

    body: Callable[[], Awaitable[None]]
    ready: bool = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        if self.ready:
            task_status.started()
        await self.body()


@define
class Stage:
    """One kept actor; each start of it plays the next body, the last one for ever."""

    policy: Policy
    bodies: list[Callable[[], Awaitable[None]]]
    lifecycle: Lifecycle = field(factory=Lifecycle)
    starts: list[float] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.send, self.alarms = trio.open_memory_channel[Escalation](math.inf)
        self.keeper = Keeper("actor", self.policy, self.make, self.send, self.lifecycle)

    send: trio.MemorySendChannel[Escalation] = field(init=False)
    alarms: trio.MemoryReceiveChannel[Escalation] = field(init=False)
    keeper: Keeper = field(init=False)

    def make(self) -> Scripted:
        self.starts.append(round(trio.current_time(), 3))
        return Scripted(self.bodies[min(len(self.starts), len(self.bodies)) - 1])

    def alarm(self) -> Escalation | None:
        try:
            return self.alarms.receive_nowait()
        except trio.WouldBlock:
            return None


async def crash() -> None:
    raise ZeroDivisionError("by design")


async def end() -> None:
    await trio.lowlevel.checkpoint()


async def test_a_crashed_permanent_actor_comes_back_after_1_2_4_8_16_s_and_then_escalates(
    autojump_clock: trio.abc.Clock,
) -> None:
    # D17: more than 5 restarts within 60 s
    stage = Stage(Policy.PERMANENT, [crash])
    await stage.keeper.run()
    assert stage.starts == [0, 1, 3, 7, 15, 31]
    alarm = stage.alarm()
    assert alarm is not None
    assert "ZeroDivisionError: by design" in alarm.why
    assert not alarm.at_once
    assert stage.keeper.done.is_set()


async def test_crashes_that_lie_far_apart_are_forgiven(autojump_clock: trio.abc.Clock) -> None:
    async def crash_later() -> None:
        await trio.sleep(61)
        raise ZeroDivisionError

    stage = Stage(Policy.PERMANENT, [crash_later])
    with trio.move_on_after(1000):
        await stage.keeper.run()
    assert len(stage.starts) == 17
    assert stage.alarm() is None
    assert stage.starts[1] - stage.starts[0] == 62  # each pause is the first again


@pytest.mark.parametrize(("policy", "starts"), [(Policy.PERMANENT, 2), (Policy.TRANSIENT, 1), (Policy.FATAL, 1)])
async def test_only_a_permanent_actor_may_not_end_by_itself(
    autojump_clock: trio.abc.Clock, policy: Policy, starts: int
) -> None:
    stage = Stage(policy, [end, trio.sleep_forever])
    with trio.move_on_after(10):
        await stage.keeper.run()
    assert len(stage.starts) == starts
    assert stage.alarm() is None


async def test_a_transient_actor_that_crashes_is_restarted(autojump_clock: trio.abc.Clock) -> None:
    stage = Stage(Policy.TRANSIENT, [crash, end])
    await stage.keeper.run()
    assert stage.starts == [0, 1]


async def test_a_fatal_actor_that_crashes_brings_the_supervisor_down_at_once(autojump_clock: trio.abc.Clock) -> None:
    stage = Stage(Policy.FATAL, [crash])
    await stage.keeper.run()
    assert stage.starts == [0]
    alarm = stage.alarm()
    assert alarm is not None
    assert alarm.at_once


async def test_nobody_is_restarted_in_the_drain(autojump_clock: trio.abc.Clock) -> None:
    stage = Stage(Policy.PERMANENT, [crash])
    stage.lifecycle.advance(Phase.DRAINING)
    await stage.keeper.run()
    assert stage.starts == [0]
    assert stage.alarm() is None


async def test_an_actor_that_never_became_ready_fails_the_start(autojump_clock: trio.abc.Clock) -> None:
    stage = Stage(Policy.PERMANENT, [crash])
    keeper = Keeper("actor", Policy.PERMANENT, lambda: Scripted(crash, ready=False), stage.send, stage.lifecycle)
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.run)


async def test_a_group_of_errors_is_told_in_one_line(autojump_clock: trio.abc.Clock) -> None:
    async def fall_apart() -> None:
        raise ExceptionGroup("nursery", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])

    stage = Stage(Policy.FATAL, [fall_apart])
    await stage.keeper.run()
    alarm = stage.alarm()
    assert alarm is not None
    assert alarm.why == "actor crashed: ValueError: one; KeyError: 'two'"


async def test_a_cancellation_is_no_crash_even_when_cleanup_raises(autojump_clock: trio.abc.Clock) -> None:
    async def fail_in_cleanup() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

    stage = Stage(Policy.PERMANENT, [fail_in_cleanup])
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.keeper.run)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert stage.starts == [0]
    assert stage.alarm() is None
