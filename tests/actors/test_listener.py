"""The listener: wakes the claimer, says whether listening is proven, finds what notifications lost."""

from __future__ import annotations

from uuid import uuid4

import trio
from attrs import define, field

from actors.listener import Listener
from actors.ports.database import Subscription
from protocols import control
from protocols.messages import CancelJob, ListenState, Wake
from schema.rows import Job, Lease
from tests.kit.actorhouse import ActorHouse


@define
class Ear:
    """A listener with the database side of its subscription in our hands."""

    house: ActorHouse = field(factory=ActorHouse)
    leases: list[Lease] = field(factory=list)
    listener: Listener = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.notify, wakeups = trio.open_memory_channel[None](1)
        self.say, payloads = trio.open_memory_channel[str](256)
        self.subscription = Subscription(wakeups, payloads)
        self.listener = Listener(
            self.subscription, self.house.to_claimer, self.house.to_jobs, lambda: tuple(self.leases), self.house.queue
        )

    notify: trio.MemorySendChannel[None] = field(init=False)
    say: trio.MemorySendChannel[str] = field(init=False)
    subscription: Subscription = field(init=False)

    async def hold(self) -> Job:
        self.house.add()
        claimed = await self.house.claim()
        self.leases.append(claimed.lease)
        return claimed.job


async def test_a_notification_wakes_the_claimer(autojump_clock: trio.abc.Clock) -> None:
    ear = Ear()
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        ear.notify.send_nowait(None)
        assert await ear.house.claimer_inbox.receive() == Wake("notification")
        nursery.cancel_scope.cancel()


async def test_the_claimer_is_told_when_listening_is_proven_and_when_it_is_not_any_more(
    autojump_clock: trio.abc.Clock,
) -> None:
    ear = Ear()
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        ear.subscription.proven = True
        assert await ear.house.claimer_inbox.receive() == ListenState(proven=True)
        ear.subscription.proven = False
        assert await ear.house.claimer_inbox.receive() == ListenState(proven=False)
        assert trio.current_time() <= 2
        nursery.cancel_scope.cancel()


async def test_a_cancel_message_is_looked_up_before_it_is_believed(autojump_clock: trio.abc.Clock) -> None:
    ear = Ear()
    job = await ear.hold()
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        ear.subscription.proven = True
        await trio.sleep(3)
        ear.say.send_nowait(control.render(control.CancelHint(job.id)))  # nothing in the row says so
        await trio.sleep(0.1)
        assert ear.house.cancels.statistics().current_buffer_used == 0
        ear.house.memory.ask_to_cancel(job.id)
        ear.say.send_nowait(control.render(control.CancelHint(job.id)))
        assert await ear.house.cancels.receive() == CancelJob(job.id)
        assert trio.current_time() < 4
        nursery.cancel_scope.cancel()


async def test_without_proven_listening_cancel_requests_are_found_within_2_s(autojump_clock: trio.abc.Clock) -> None:
    # D26: always so behind a pooler
    ear = Ear()
    job = await ear.hold()
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        await trio.sleep(10)
        ear.house.memory.ask_to_cancel(job.id)
        begin = trio.current_time()
        assert await ear.house.cancels.receive() == CancelJob(job.id)
        assert trio.current_time() - begin <= 2
        nursery.cancel_scope.cancel()


async def test_with_proven_listening_it_looks_every_30_s_and_after_each_new_session(
    autojump_clock: trio.abc.Clock,
) -> None:
    ear = Ear()
    await ear.hold()
    ear.subscription.proven = True
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        await trio.sleep(95)
        nursery.cancel_scope.cancel()
    assert [round(at) for at in ear.house.queue.times("cancel_requests")] == [0, 30, 60, 90]


async def test_a_cancel_that_was_lost_while_a_new_session_came_up_is_found_at_once(
    autojump_clock: trio.abc.Clock,
) -> None:
    # so quickly that nobody saw that listening was not proven
    ear = Ear()
    job = await ear.hold()
    ear.subscription.proven = True
    ear.subscription.sessions = 1
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        await trio.sleep(10)
        ear.house.memory.ask_to_cancel(job.id)
        ear.subscription.sessions = 2
        begin = trio.current_time()
        assert await ear.house.cancels.receive() == CancelJob(job.id)
        assert trio.current_time() - begin <= 1
        nursery.cancel_scope.cancel()


async def test_without_running_jobs_nothing_is_asked(autojump_clock: trio.abc.Clock) -> None:
    ear = Ear()
    with trio.move_on_after(60):
        await ear.listener.run()
    assert ear.house.queue.calls == []


async def test_a_resumed_job_type_wakes_the_claimer_and_noise_does_nothing(autojump_clock: trio.abc.Clock) -> None:
    ear = Ear()
    async with trio.open_nursery() as nursery:
        await nursery.start(ear.listener.run)
        for noise in ("", "cancel", "cancel nonsense", "drop table jobs", f"CANCEL {uuid4()}"):
            ear.say.send_nowait(noise)
        ear.say.send_nowait(control.render(control.PausesChanged()))
        assert isinstance(await ear.house.claimer_inbox.receive(), Wake)
        assert ear.house.claimer_inbox.statistics().current_buffer_used == 0
        nursery.cancel_scope.cancel()
