"""A job that loses its lease or its database: it stops in time, writes nothing, and lets no outside effect land late."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from actors.jobs.base import Completion, Work
from actors.runner import RunRule, fence_of
from schema.connection import Connection
from schema.rows import Job, JobStatus
from tests.kit.actorhouse import ActorHouse, FunctionHandler
from tests.kit.onejob import run_one


async def test_a_stolen_row_ends_the_job_within_one_beat_and_nothing_is_written(
    autojump_clock: trio.abc.Clock,
) -> None:
    # QH-15
    ended_at: list[float] = []

    async def body(work: Work) -> None:
        house.memory.steal(work.job.id)
        try:
            await trio.sleep_forever()
        finally:
            ended_at.append(trio.current_time())

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        await trio.sleep(3)
        runner = house.runner(await house.claim())
        await runner.run()
    row = house.memory.job(job.id)
    assert ended_at[0] <= 30 + 5
    assert (row.status, row.claimed_by, row.result) == (JobStatus.PROCESSING, "somebody", None)
    assert runner.outcome == "abandoned"


@pytest.mark.claim("S0-018")
async def test_a_report_that_comes_too_late_is_refused(autojump_clock: trio.abc.Clock) -> None:
    # QH-05
    async def settle(connection: Connection, job: Job) -> None:
        await connection.execute("UPDATE law")

    async def body(work: Work) -> Completion:
        house.memory.steal(work.job.id)
        return Completion({"law": "done"}, settle)

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        await runner.run()
    row = house.memory.job(job.id)
    assert (row.status, row.claimed_by, row.result) == (JobStatus.PROCESSING, "somebody", None)
    assert house.memory.statements == []
    assert runner.outcome == "refused"


@pytest.mark.claim("S0-017")
async def test_without_a_confirmed_beat_the_job_is_given_up_before_anyone_may_take_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    # QH-07, D6: 270 s after the last confirmed beat was sent
    ended_at: list[float] = []

    async def body(work: Work) -> None:
        await trio.sleep(100)  # beats at 30, 60, 90
        house.queue.down = True
        try:
            await trio.sleep_forever()
        finally:
            ended_at.append(trio.current_time())

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        await runner.run()
    assert ended_at == [pytest.approx(90 + 270)]
    assert runner.outcome == "abandoned"
    assert house.memory.job(job.id).result is None


async def test_an_outage_shorter_than_the_fence_costs_nothing(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> Completion:
        house.queue.down = True
        await trio.sleep(200)
        house.queue.down = False
        await trio.sleep(400)
        return Completion()

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        await house.runner(await house.claim()).run()
    assert house.memory.job(job.id).status is JobStatus.COMPLETED


async def test_the_final_write_waits_for_the_database(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> Completion:
        house.queue.down = True
        return Completion({"kept": True})

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False) as nursery:
        nursery.start_soon(house.runner(await house.claim()).run)
        await trio.sleep(120)
        assert house.memory.job(job.id).status is JobStatus.PROCESSING
        house.queue.down = False
        await trio.sleep(3)
        assert house.memory.job(job.id).result == {"kept": True}


async def test_a_job_whose_fence_passed_before_it_began_never_begins(autojump_clock: trio.abc.Clock) -> None:
    # D6: the process was stopped, or another job held the loop, right after the claim
    begun: list[Work] = []

    async def body(work: Work) -> None:
        begun.append(work)

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    claimed = await house.claim()
    await trio.sleep(RunRule().fence_s)
    runner = house.runner(claimed)
    await runner.run()
    assert begun == []
    assert runner.outcome == "abandoned"
    assert house.memory.job(job.id).status is JobStatus.PROCESSING


async def test_the_final_write_gives_up_at_the_fence(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> Completion:
        house.queue.down = True
        return Completion()

    house = ActorHouse(FunctionHandler(body))
    house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        await runner.run()
    assert trio.current_time() == pytest.approx(270)
    assert runner.outcome == "abandoned"


async def test_a_final_write_whose_answer_was_lost_counts_once_it_is_seen_to_have_landed(
    autojump_clock: trio.abc.Clock,
) -> None:
    # D7
    async def body(work: Work) -> Completion:
        house.queue.unclear["complete"] = 1
        return Completion({"once": True})

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        await runner.run()
    assert house.memory.job(job.id).status is JobStatus.COMPLETED
    assert runner.outcome == "completed"


async def test_an_outside_effect_is_preceded_by_a_confirmed_beat(autojump_clock: trio.abc.Clock) -> None:
    # D6, QH-15: no push by a holder that lost its row
    pushed: list[bool] = []

    async def body(work: Work) -> None:
        house.memory.steal(work.job.id)
        async with work.effect("git push", limit_s=300):
            pushed.append(True)

    house = ActorHouse(FunctionHandler(body))
    house.add()
    async with house.running(claimer=False):
        await trio.sleep(1)
        runner = house.runner(await house.claim())
        await runner.run()
    assert pushed == []
    assert runner.outcome == "abandoned"
    assert trio.current_time() < 2


async def test_an_effect_waits_while_the_database_is_away(autojump_clock: trio.abc.Clock) -> None:
    begun = []

    async def body(work: Work) -> None:
        async with work.effect("git push", limit_s=300):
            begun.append(trio.current_time())

    house = ActorHouse(FunctionHandler(body))
    house.add()
    house.queue.down = True
    async with house.running(claimer=False) as nursery:
        nursery.start_soon(house.runner(await house.claim()).run)
        await trio.sleep(60)
        house.queue.down = False
        await trio.sleep(2)
    assert begun == [pytest.approx(60, abs=1)]


async def test_an_effect_is_stopped_at_half_the_fence_without_a_beat(autojump_clock: trio.abc.Clock) -> None:
    stopped_at: list[float] = []

    async def body(work: Work) -> None:
        async with work.effect("git push", limit_s=300):
            house.queue.down = True
            try:
                await trio.sleep_forever()
            finally:
                stopped_at.append(trio.current_time())

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        await runner.run()
    assert stopped_at == [pytest.approx(135)]
    assert house.memory.job(job.id).result is None
    assert runner.outcome == "abandoned"


async def test_an_effect_past_its_own_limit_fails_the_job_retryably(autojump_clock: trio.abc.Clock) -> None:
    # D44: beats go on all the while
    async def body(work: Work) -> None:
        async with work.effect("git push", limit_s=300):
            await trio.sleep_forever()

    _, row, _ = await run_one(body)
    assert trio.current_time() == pytest.approx(300, abs=1)
    assert (row.status, row.result["limit_s"]) == (JobStatus.PENDING, 300)


@pytest.mark.parametrize(("orphan", "fence"), [(300, 270), (600, 540), (90, 60), (3, 1.5)])
def test_the_fence_is_well_before_the_orphan_timeout(orphan: float, fence: float) -> None:
    assert fence_of(orphan) == fence
