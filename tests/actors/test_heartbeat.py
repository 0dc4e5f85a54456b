"""The heartbeat: on time, one statement for all, lost leases told at once, suspects released."""

from __future__ import annotations

import math
from uuid import uuid4

import pytest
import trio

from actors.heartbeat import BeatRule
from actors.ports.queue import ClaimRequest, Want
from protocols.messages import (
    Beaten,
    ClaimedJob,
    ConfirmAnswer,
    ConfirmBeat,
    Finalising,
    LeaseGone,
    NotBeaten,
    Released,
    SuspectToken,
)
from schema.rows import JobStatus, JobType
from tests.kit.actorhouse import TIMEOUT_S, ActorHouse


async def events_of(claimed: ClaimedJob) -> list[object]:
    """What the heartbeat has told so far."""
    heard: list[object] = []
    with trio.move_on_after(0.001):
        while True:
            heard.append(await claimed.events.receive())
    return heard


async def ask(house: ActorHouse, claimed: ClaimedJob) -> trio.MemoryReceiveChannel[ConfirmAnswer]:
    sender, receiver = trio.open_memory_channel[ConfirmAnswer](1)
    house.to_heartbeat.send_nowait(ConfirmBeat(claimed.lease, sender))
    return receiver


@pytest.mark.claim("S0-009")
async def test_beats_come_from_a_fixed_origin_however_long_each_takes(autojump_clock: trio.abc.Clock) -> None:
    # QH-03: 0, 30, 60, ... and not 0, 50, 100
    house = ActorHouse(beat_rule=BeatRule(interval_s=30, answer_limit_s=25))
    house.add()
    await house.claim()
    house.queue.slow_s["beat"] = 20
    start = trio.current_time()
    with trio.move_on_after(100):
        await house.heartbeat().run()
    assert [round(at - start, 3) for at in house.queue.times("beat")] == [0, 30, 60, 90]


async def test_a_beat_longer_than_its_interval_skips_ticks_and_stays_on_the_grid(
    autojump_clock: trio.abc.Clock,
) -> None:
    house = ActorHouse(beat_rule=BeatRule(interval_s=30, answer_limit_s=100))
    house.add()
    await house.claim()
    house.queue.slow_s["beat"] = 35
    start = trio.current_time()
    with trio.move_on_after(130):
        await house.heartbeat().run()
    assert [round(at - start, 3) for at in house.queue.times("beat")] == [0, 60, 120]


@pytest.mark.claim("C-017")
async def test_one_statement_beats_every_held_lease(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    claimed = []
    for number in range(5):
        house.add(f"law {number}")
        claimed.append(await house.claim())
    await trio.sleep(10)
    heartbeat = house.heartbeat()
    await heartbeat.run_once()
    assert len(house.queue.times("beat")) == 1
    assert heartbeat.held == {item.lease for item in claimed}
    beaten_at = trio.current_time()
    for item in claimed:
        assert await events_of(item) == [Beaten(beaten_at)]


async def test_a_beat_sets_the_sign_of_life_of_the_row(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    await house.claim()
    claimed_at = house.memory.job(job.id).heartbeat_at
    await trio.sleep(30)
    await house.heartbeat().run_once()
    beaten_at = house.memory.job(job.id).heartbeat_at
    assert claimed_at is not None
    assert beaten_at is not None
    assert (beaten_at - claimed_at).total_seconds() == pytest.approx(30)


async def test_a_stolen_row_is_told_to_its_runner_at_the_next_beat_and_beaten_no_more(
    autojump_clock: trio.abc.Clock,
) -> None:
    # QH-15
    house = ActorHouse()
    job = house.add()
    claimed = await house.claim()
    house.memory.steal(job.id)
    heartbeat = house.heartbeat()
    await heartbeat.run_once()
    (event,) = await events_of(claimed)
    assert isinstance(event, LeaseGone)
    assert heartbeat.held == frozenset()


async def test_a_finalising_job_is_never_declared_lost(autojump_clock: trio.abc.Clock) -> None:
    # D5: the row leaves processing in our own final write while a beat is on its way
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.queue.slow_s["beat"] = 5
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.heartbeat().run_once)
        await trio.sleep(1)  # the beat is under way and knows nothing of what follows
        house.to_heartbeat.send_nowait(Finalising(claimed.lease))
        await house.memory.complete(claimed.lease, None)
    assert await events_of(claimed) == []


async def test_a_released_lease_is_beaten_no_more(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.to_heartbeat.send_nowait(Released(claimed.lease))
    await house.heartbeat().run_once()
    assert house.queue.times("beat") == []


@pytest.mark.claim("S0-016")
async def test_beats_end_600_s_after_the_job_timeout(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    await house.claim()
    start = trio.current_time()
    with trio.move_on_after(TIMEOUT_S + 900):
        await house.heartbeat().run()
    assert house.queue.times("beat")[-1] - start == pytest.approx(TIMEOUT_S + 600 - 30)


async def test_a_confirmed_beat_is_answered_at_once_between_ticks(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.heartbeat().run)
        await trio.sleep(7)
        asked_at = trio.current_time()
        answer = await (await ask(house, claimed)).receive()
        assert answer == Beaten(asked_at)
        nursery.cancel_scope.cancel()


async def test_a_confirmation_asked_for_during_a_beat_is_answered_right_after_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.queue.slow_s["beat"] = 4
    async with trio.open_nursery() as nursery:
        await nursery.start(house.heartbeat().run)
        await trio.sleep(2)
        receiver = await ask(house, claimed)
        assert await receiver.receive() == Beaten(4)
        assert trio.current_time() == 8
        nursery.cancel_scope.cancel()


async def test_a_confirmation_without_a_database_says_so_and_is_no_loss(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.queue.down = True
    receiver = await ask(house, claimed)
    await house.heartbeat().run_once()
    assert isinstance(await receiver.receive(), NotBeaten)
    assert await events_of(claimed) == []


async def test_a_confirmation_for_a_stolen_row_says_that_the_lease_is_gone(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    claimed = await house.claim()
    house.memory.steal(job.id)
    receiver = await ask(house, claimed)
    await house.heartbeat().run_once()
    assert isinstance(await receiver.receive(), LeaseGone)


async def test_a_silent_database_costs_one_tick_and_not_the_next_ones(autojump_clock: trio.abc.Clock) -> None:
    # QH-07: a beat that raises is retried at the next tick and kills nothing
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.queue.slow_s["beat"] = math.inf
    start = trio.current_time()
    with trio.move_on_after(65):
        await house.heartbeat().run()
    assert [round(at - start, 3) for at in house.queue.times("beat")] == [0, 30, 60]
    assert await events_of(claimed) == []


async def test_a_suspect_token_is_released_at_once(autojump_clock: trio.abc.Clock) -> None:
    # D7
    house = ActorHouse()
    job, token = house.add(), uuid4()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.heartbeat().run)
        await trio.sleep(3)
        await house.memory.claim(ClaimRequest(token, "us", (Want((JobType.PROBE,), 1),)))
        house.to_heartbeat.send_nowait(SuspectToken(token, trio.current_time() + 20))
        await trio.sleep(0.01)
        row = house.memory.job(job.id)
        assert (row.status, row.deaths) == (JobStatus.PENDING, 0)
        nursery.cancel_scope.cancel()


async def test_a_suspect_claim_that_lands_late_is_released_at_a_later_beat(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job, token = house.add(), uuid4()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.heartbeat().run)
        await trio.sleep(25)
        house.to_heartbeat.send_nowait(SuspectToken(token, trio.current_time() + 20))
        await trio.sleep(1)
        await house.memory.claim(ClaimRequest(token, "us", (Want((JobType.PROBE,), 1),)))
        assert house.memory.job(job.id).status is JobStatus.PROCESSING
        await trio.sleep(5)  # past the tick at 30 s
        assert house.memory.job(job.id).status is JobStatus.PENDING
        nursery.cancel_scope.cancel()


async def test_a_suspect_token_without_a_row_is_dropped_after_its_time(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.to_heartbeat.send_nowait(SuspectToken(uuid4(), trio.current_time() + 20))
    with trio.move_on_after(200):
        await house.heartbeat().run()
    assert len(house.queue.times("release_tokens")) == 2  # at once, and at 30 s, after which nothing can land
