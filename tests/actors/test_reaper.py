"""The reaper: on its own tick, all orphans, patient after an outage."""

from __future__ import annotations

from uuid import uuid4

import pytest
import trio

from actors.ports.queue import ClaimRequest, ReapRule, Want
from actors.reaper import Reaper, ReaperRule
from schema.rows import JobStatus, JobType
from tests.kit.actorhouse import ActorHouse, FunctionHandler

RULE = ReaperRule(interval_s=60, reconnect_wait_s=60, reap=ReapRule(orphan_timeout_s=300))


@pytest.mark.claim("C-018")
async def test_it_reaps_at_the_start_and_then_every_60_s(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    with trio.move_on_after(185):
        await Reaper(house.queue, RULE).run()
    assert [round(at) for at in house.queue.times("reap")] == [0, 60, 120, 180]


async def test_all_orphans_of_now_are_taken_in_one_pass(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    jobs = [house.add(f"law {number}", max_attempts=1 + number % 2) for number in range(5)]
    for _ in jobs:
        await house.claim()
    await trio.sleep(301)
    assert await Reaper(house.queue, RULE).run_once() == 5
    statuses = [house.memory.job(job.id).status for job in jobs]
    assert statuses == [JobStatus.FAILED, JobStatus.PENDING] * 2 + [JobStatus.FAILED]


@pytest.mark.claim("S0-014")
async def test_a_beaten_job_is_left_alone_however_long_it_runs(autojump_clock: trio.abc.Clock) -> None:
    # QH-04, and QH-08: beats come from an actor of their own
    async def three_hours(work: object) -> None:
        await trio.sleep(3 * 3600)

    house = ActorHouse(FunctionHandler(three_hours), timeouts={JobType.PROBE: 4 * 3600})
    job = house.add()
    async with house.running() as nursery:
        nursery.start_soon(Reaper(house.queue, RULE).run)
        assert (await house.ended(job.id)).status is JobStatus.COMPLETED
        assert house.memory.job(job.id).attempts == 1


async def test_a_hung_job_does_not_keep_it_from_its_tick(autojump_clock: trio.abc.Clock) -> None:
    # QH-21: the hung one goes on; the orphan beside it is taken on time
    async def hang(work: object) -> None:
        await trio.sleep(10_000)

    house = ActorHouse(FunctionHandler(hang))
    orphan = house.add("law of a dead holder", priority=90)
    await house.memory.claim(ClaimRequest(uuid4(), "a dead holder", (Want((JobType.PROBE,), 1),)))
    house.add("law that hangs")
    async with house.running() as nursery:
        nursery.start_soon(Reaper(house.queue, RULE).run)
        await trio.sleep(299)
        assert house.memory.job(orphan.id).status is JobStatus.PROCESSING
        await trio.sleep(62)
        assert house.memory.job(orphan.id).status is JobStatus.PENDING


async def test_after_an_outage_it_waits_two_beats_before_it_takes_anything(autojump_clock: trio.abc.Clock) -> None:
    # D3: the living get their chance to beat first
    house = ActorHouse()
    job = house.add()
    await house.claim()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Reaper(house.queue, RULE).run)
        await trio.sleep(30)
        house.queue.down = True
        await trio.sleep(360)  # 390
        house.queue.down = False
        await trio.sleep(80)  # the tick at 420 found the database back; 470 is before 480
        assert house.memory.job(job.id).status is JobStatus.PROCESSING
        await trio.sleep(15)
        assert house.memory.job(job.id).status is JobStatus.PENDING
        nursery.cancel_scope.cancel()


async def test_at_process_start_it_does_not_wait(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    await house.claim()
    await trio.sleep(301)
    with trio.move_on_after(1):
        await Reaper(house.queue, RULE).run()
    assert house.memory.job(job.id).status is JobStatus.PENDING


async def test_an_outage_is_no_crash(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.queue.down = True
    assert await Reaper(house.queue, RULE).run_once() == 0
