"""The claimer: never more than there are slots, beats from the first breath, patient with a database that is away."""

from __future__ import annotations

import pytest
import trio

from protocols.messages import ClaimedJob, Held, ListenState, Phase, SuspectToken, Wake
from schema.rows import JobStatus, JobType
from tests.kit.actorhouse import ActorHouse, FunctionHandler


def processing(house: ActorHouse) -> int:
    return sum(job.status is JobStatus.PROCESSING for job in house.memory.jobs())


@pytest.mark.claim("C-016")
async def test_it_never_claims_what_it_has_no_slot_for(autojump_clock: trio.abc.Clock) -> None:
    # QH-22: concurrency 1, three jobs of five seconds
    started: dict[object, float] = {}

    async def five_seconds(work: object) -> None:
        started[work.job.id] = trio.current_time()  # type: ignore[attr-defined]
        assert processing(house) == 1
        await trio.sleep(5)

    house = ActorHouse(FunctionHandler(five_seconds))
    jobs = [house.add(f"law {number}") for number in range(3)]
    begin = trio.current_time()
    async with house.running():
        for job in jobs:
            ended = await house.ended(job.id)
            assert ended.started_at is not None
            assert ended.status is JobStatus.COMPLETED
    assert [round(at - begin) for at in started.values()] == [0, 5, 10]


async def test_a_job_starts_within_a_second_of_its_claim(autojump_clock: trio.abc.Clock) -> None:
    waits = []

    async def note(work: object) -> None:
        waits.append(trio.current_time() - work.claimed.claimed_at)  # type: ignore[attr-defined]
        await trio.sleep(5)

    house = ActorHouse(FunctionHandler(note), slots_of_role=2)
    jobs = [house.add(f"law {number}") for number in range(6)]
    async with house.running():
        for job in jobs:
            await house.ended(job.id)
    assert len(waits) == 6
    assert max(waits) < 1


async def test_all_free_slots_are_filled_by_one_claim(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse(slots_of_role=4)
    for number in range(6):
        house.add(f"law {number}")
    async with house.running():
        await trio.sleep(0.5)
        assert processing(house) == 4
        assert len(house.queue.times("claim")) == 1


async def test_no_slot_no_question(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    house.ledger.take("probe")
    assert await house.claimer().run_once() is None
    assert house.queue.calls == []


@pytest.mark.claim("S0-010")
async def test_a_claim_is_in_the_beat_set_before_anything_is_awaited(autojump_clock: trio.abc.Clock) -> None:
    # D17: nobody takes the job over, so the hand-over blocks; the lease is with the heartbeat all the same
    house = ActorHouse()
    house.add()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run_once)
        await trio.testing.wait_all_tasks_blocked()
        held = house.heartbeat_inbox.receive_nowait()
        assert isinstance(held, Held)
        assert held.lease == house.memory.jobs()[0].lease_held
        nursery.cancel_scope.cancel()


async def test_a_claim_that_nobody_took_over_goes_back_when_the_claimer_is_stopped(
    autojump_clock: trio.abc.Clock,
) -> None:
    house = ActorHouse()
    job = house.add()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        await trio.testing.wait_all_tasks_blocked()
        assert house.memory.job(job.id).status is JobStatus.PROCESSING
        house.lifecycle.advance(Phase.DRAINING)
    row = house.memory.job(job.id)
    assert (row.status, row.deaths, row.lease) == (JobStatus.PENDING, 0, None)
    assert house.ledger.busy == {"probe": 0}


async def test_the_drain_ends_it_even_while_a_claim_is_under_way(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    house.queue.slow_s["claim"] = 4
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        await trio.sleep(2)
        house.lifecycle.advance(Phase.DRAINING)
    assert trio.current_time() == pytest.approx(4)
    assert house.memory.job(job.id).status is JobStatus.PENDING
    assert house.memory.job(job.id).releases == 1


async def test_an_idle_claimer_polls_every_5_s_while_listening_is_not_proven(autojump_clock: trio.abc.Clock) -> None:
    # D10
    house = ActorHouse()
    with trio.move_on_after(31):
        await house.claimer().run()
    assert [round(at) for at in house.queue.times("claim")] == [0, 5, 10, 15, 20, 25, 30]


async def test_an_idle_claimer_backs_off_to_60_s_while_listening_is_proven(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.to_claimer.send_nowait(ListenState(proven=True))
    with trio.move_on_after(200):
        await house.claimer().run()
    assert [round(at) for at in house.queue.times("claim")] == [0, 5, 15, 35, 75, 135, 195]


async def test_losing_the_proof_brings_the_short_interval_back(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.to_claimer.send_nowait(ListenState(proven=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        await trio.sleep(80)  # the next poll would be at 135
        house.to_claimer.send_nowait(ListenState(proven=False))
        await trio.sleep(21)
        nursery.cancel_scope.cancel()
    late = [round(at) for at in house.queue.times("claim") if at > 76]
    assert late == [80, 85, 90, 95, 100]


async def test_a_notification_wakes_it_at_once_and_a_burst_makes_one_claim(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.to_claimer.send_nowait(ListenState(proven=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        await trio.sleep(100)
        before = len(house.queue.times("claim"))
        for _ in range(50):
            house.to_claimer.send_nowait(Wake("notification"))
        await trio.sleep(0.1)
        assert len(house.queue.times("claim")) == before + 1
        nursery.cancel_scope.cancel()


async def test_it_wakes_for_the_next_due_row(autojump_clock: trio.abc.Clock) -> None:
    # D9, QH-21: not claimed at 29 s, claimed at 31 s, although polling has backed off
    house = ActorHouse()
    house.to_claimer.send_nowait(ListenState(proven=True))
    job = house.add(delay_s=30)
    async with house.running():
        await trio.sleep(29)
        assert house.memory.job(job.id).status is JobStatus.PENDING
        await trio.sleep(1.5)
        assert house.memory.job(job.id).started_at is not None
        assert (await house.ended(job.id)).status is JobStatus.COMPLETED


async def test_an_outage_of_the_database_is_waited_out(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    house.queue.down = True
    async with house.running():
        await trio.sleep(101)
        assert len(house.queue.times("claim")) == 21
        house.queue.down = False
        await trio.sleep(6)
        assert house.memory.job(job.id).status is JobStatus.COMPLETED


async def test_an_unclear_claim_becomes_a_suspect_and_the_job_runs_soon_after(autojump_clock: trio.abc.Clock) -> None:
    # D7
    house = ActorHouse()
    job = house.add()
    house.queue.unclear["claim"] = 1
    async with house.running():
        await trio.sleep(0.5)
        assert house.memory.job(job.id).status is JobStatus.PENDING
        await trio.sleep(6)
        row = house.memory.job(job.id)
        assert (row.status, row.attempts, row.releases) == (JobStatus.COMPLETED, 2, 1)


async def test_a_claim_without_an_answer_in_time_becomes_a_suspect(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.queue.slow_s["claim"] = 1000
    assert await house.claimer(answer_limit_s=15).run_once() is None
    suspect = house.heartbeat_inbox.receive_nowait()
    assert isinstance(suspect, SuspectToken)
    assert suspect.until > trio.current_time() + 20


async def test_an_unreachable_database_makes_no_suspect(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.queue.down = True
    assert await house.claimer().run_once() is None
    with pytest.raises(trio.WouldBlock):
        house.heartbeat_inbox.receive_nowait()


async def test_each_claim_has_a_token_of_its_own(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse(slots_of_role=2)
    house.add("law 1")
    house.add("law 2")
    taken: list[ClaimedJob] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.claimer().run)
        taken += [await house.claims.receive(), await house.claims.receive()]
        house.ledger.release("probe")
        house.add("law 3")
        house.to_claimer.send_nowait(Wake("a slot is free"))
        taken.append(await house.claims.receive())
        nursery.cancel_scope.cancel()
    first, second, third = (item.lease.token for item in taken)
    assert first == second != third
    assert {item.job.job_type for item in taken} == {JobType.PROBE}
