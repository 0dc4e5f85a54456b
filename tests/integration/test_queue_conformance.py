"""What every ``QueuePort`` promises, whatever stands behind it: PostgreSQL and the twin in memory (D22).

Law status, tasks and budget belong to PostgreSQL alone and are tested with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.queue import ClaimAnswer, ClaimRequest, ReapRule, Want
from protocols.failures import (
    ContentFailure,
    HandedBack,
    InvalidPayload,
    JobCancelled,
    LeaseLost,
    NotHarvestable,
    ProviderTrouble,
    SupervisorError,
    Transient,
)
from schema.connection import Connection
from schema.rows import Job, JobStatus, JobType, Lease
from tests.kit import probe
from tests.kit.jobrows import Rows
from tests.kit.pgbouncer import Pooled
from tests.kit.queuebench import Bench, MemoryBench, PostgresBench

PROBES = Want((JobType.PROBE,), 1)


@pytest.fixture
async def postgres_bench(database: Database) -> PostgresBench:
    await database.direct(probe.add_label)
    return PostgresBench(Rows(database))


@pytest.fixture
async def pooled_bench(pooled: Pooled) -> AsyncIterator[PostgresBench]:
    """Through a transaction-mode pooler, which gives every transaction another session (CL-06)."""
    settings = DatabaseSettings(url=pooled.url, direct_url=pooled.direct_url, pooler="transaction")
    async with open_database(settings) as database:
        await database.direct(probe.add_label)
        yield PostgresBench(Rows(database))


@pytest.fixture(params=["memory", "postgresql", "pgbouncer"])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        return MemoryBench()
    made: PostgresBench = request.getfixturevalue("postgres_bench" if request.param == "postgresql" else "pooled_bench")
    return made


async def claim(bench: Bench, *wants: Want, token: UUID | None = None) -> ClaimAnswer:
    return await bench.queue.claim(ClaimRequest(token or uuid4(), "holder", wants or (PROBES,)))


async def claimed(bench: Bench, **values: Any) -> Job:
    await bench.add(**values)
    (job,) = (await claim(bench)).jobs
    return job


# --- claim ------------------------------------------------------------------------------------------------------------


async def test_a_claim_marks_the_row_as_held(bench: Bench) -> None:
    added, token = await bench.add(payload={"n": 1}), uuid4()
    (job,) = (await claim(bench, token=token)).jobs
    row = await bench.job(added.id)
    assert job.lease_held == row.lease_held == Lease(added.id, token, 1)
    assert (row.status, row.attempts, row.claimed_by, row.payload) == (JobStatus.PROCESSING, 1, "holder", {"n": 1})
    assert row.started_at == row.heartbeat_at is not None


async def test_nothing_to_claim_is_an_empty_answer(bench: Bench) -> None:
    answer = await claim(bench)
    assert (answer.jobs, answer.next_due_s) == ((), None)


async def test_higher_priority_first_then_age(bench: Bench) -> None:
    order = [await bench.add(f"law {n}", priority=priority) for n, priority in enumerate([50, 80, 50, 100])]
    taken = [(await claim(bench)).jobs[0].id for _ in order]
    assert taken == [order[3].id, order[1].id, order[0].id, order[2].id]


async def test_a_want_takes_at_most_its_slots_and_others_stay(bench: Bench) -> None:
    for n in range(5):
        await bench.add(f"law {n}")
    assert len((await claim(bench, Want((JobType.PROBE,), 3))).jobs) == 3
    assert len((await claim(bench, Want((JobType.PROBE,), 3))).jobs) == 2


async def test_types_are_served_in_the_order_of_the_want(bench: Bench) -> None:
    # priority counts within a type only (queue.md 2.3)
    await bench.add("law", job_type=JobType.HARVEST, priority=100, payload={"bwb_id": "law"})
    first = await bench.add("law", priority=10)
    (job,) = (await claim(bench, Want((JobType.PROBE, JobType.HARVEST), 1))).jobs
    assert job.id == first.id


async def test_unwanted_types_are_left_alone(bench: Bench) -> None:
    harvest = await bench.add("law", job_type=JobType.HARVEST, payload={"bwb_id": "law"})
    assert (await claim(bench)).jobs == ()
    assert (await bench.job(harvest.id)).status is JobStatus.PENDING


async def test_a_waiting_row_is_not_claimed_and_says_when_it_is_due(bench: Bench) -> None:
    # D9
    await bench.add("late", delay_s=90)
    await bench.add("later", delay_s=900, priority=100)
    answer = await claim(bench)
    assert answer.jobs == ()
    assert answer.next_due_s is not None
    assert 85 < answer.next_due_s <= 90


async def test_a_row_whose_time_has_come_is_promoted_and_claimed(bench: Bench) -> None:
    added = await bench.add(delay_s=0)
    (job,) = (await claim(bench)).jobs
    assert (job.id, job.scheduled_at) == (added.id, None)


# --- the fence --------------------------------------------------------------------------------------------------------


async def write_late(bench: Bench, lease: Lease) -> None:
    await bench.queue.write(lease, _nothing)


async def complete_late(bench: Bench, lease: Lease) -> None:
    await bench.queue.complete(lease, {"late": True})


async def fail_late(bench: Bench, lease: Lease) -> None:
    await bench.queue.fail(lease, Transient("late"))


Late = Callable[[Bench, Lease], Awaitable[None]]


async def _nothing(connection: Connection, job: Job) -> None:
    return None


@pytest.mark.parametrize("late", [write_late, complete_late, fail_late])
@pytest.mark.parametrize("taken_again", [False, True])
async def test_a_holder_whose_row_was_reaped_writes_nothing(bench: Bench, late: Late, taken_again: bool) -> None:
    # QH-05
    first = await claimed(bench)
    await bench.age(first.id, 301)
    assert await bench.queue.reap(ReapRule()) is not None
    if taken_again:
        await claim(bench)
    before = await bench.job(first.id)
    with pytest.raises(LeaseLost):
        await late(bench, first.lease_held)
    assert await bench.job(first.id) == before


async def test_an_ended_row_refuses_every_second_end(bench: Bench) -> None:
    job = await claimed(bench)
    await bench.queue.complete(job.lease_held, {"first": True})
    with pytest.raises(LeaseLost):
        await bench.queue.complete(job.lease_held, {"second": True})
    with pytest.raises(LeaseLost):
        await bench.queue.fail(job.lease_held, Transient("second"))
    assert await bench.queue.hand_back(job.lease_held, why="second") is False
    assert (await bench.job(job.id)).result == {"first": True}


async def test_a_lease_of_another_attempt_or_token_is_none(bench: Bench) -> None:
    job = await claimed(bench)
    for wrong in (Lease(job.id, uuid4(), 1), Lease(job.id, job.lease_held.token, 2), Lease(uuid4(), uuid4(), 1)):
        with pytest.raises(LeaseLost):
            await bench.queue.complete(wrong, None)
        assert (await bench.queue.beat([wrong])).lost == {wrong}


# --- beats and progress -----------------------------------------------------------------------------------------------


async def test_a_beat_confirms_what_is_ours_and_names_what_is_lost(bench: Bench) -> None:
    ours, gone = await claimed(bench, law_id="law 1"), await claimed(bench, law_id="law 2")
    await bench.queue.hand_back(gone.lease_held, why="test")
    await bench.age(ours.id, 200)
    answer = await bench.queue.beat([ours.lease_held, gone.lease_held])
    assert answer.confirmed == {ours.lease_held}
    assert answer.lost == {gone.lease_held}
    assert not answer.unbeaten
    await bench.age(ours.id, 200)
    assert await bench.queue.reap(ReapRule()) is None


async def test_progress_is_written_for_many_and_skips_the_lost(bench: Bench) -> None:
    ours, gone = await claimed(bench, law_id="law 1"), await claimed(bench, law_id="law 2")
    await bench.queue.complete(gone.lease_held, None)
    await bench.queue.write_progress({ours.lease_held: {"step": 2}, gone.lease_held: {"step": 9}})
    assert (await bench.job(ours.id)).progress == {"step": 2}
    assert (await bench.job(gone.id)).progress is None


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_complete_closes_the_row(bench: Bench) -> None:
    job = await claimed(bench)
    await bench.queue.complete(job.lease_held, {"law": "done"})
    row = await bench.job(job.id)
    assert (row.status, row.result, row.lease, row.claimed_by) == (JobStatus.COMPLETED, {"law": "done"}, None, None)
    assert row.completed_at is not None
    assert row.heartbeat_at is None


async def test_a_settle_function_that_raises_keeps_the_claim_as_it_was(bench: Bench) -> None:
    async def settle(connection: Connection, job: Job) -> None:
        raise ZeroDivisionError

    job = await claimed(bench)
    with pytest.raises(ZeroDivisionError):
        await bench.queue.complete(job.lease_held, {"never": "kept"}, settle)
    row = await bench.job(job.id)
    assert (row.status, row.result, row.lease) == (JobStatus.PROCESSING, None, job.lease)


@pytest.mark.claim("S0-007")
async def test_a_retryable_failure_waits_30_60_s_and_then_is_final(bench: Bench) -> None:
    # QH-21
    await bench.add(max_attempts=3)
    for expected in (30, 60):
        (job,) = (await claim(bench)).jobs
        assert await bench.queue.fail(job.lease_held, Transient("network")) is JobStatus.PENDING
        row = await bench.job(job.id)
        assert row.scheduled_at is not None
        assert (row.scheduled_at - row.updated_at).total_seconds() == pytest.approx(expected, abs=1)
        assert row.result["kind"] == "transient"
        assert (await claim(bench)).jobs == ()
        await bench.make_due(job.id)
    (job,) = (await claim(bench)).jobs
    assert await bench.queue.fail(job.lease_held, Transient("network")) is JobStatus.FAILED
    row = await bench.job(job.id)
    assert row.completed_at is not None
    assert row.scheduled_at is None


@pytest.mark.parametrize("failure", [ContentFailure("no"), InvalidPayload("no"), JobCancelled("no")])
async def test_a_failure_that_a_retry_cannot_help_is_final_at_once(bench: Bench, failure: SupervisorError) -> None:
    job = await claimed(bench)
    assert await bench.queue.fail(job.lease_held, failure) is JobStatus.FAILED
    row = await bench.job(job.id)
    assert (row.result["kind"], row.attempts) == (failure.kind, 1)


async def test_nothing_to_harvest_is_a_completed_job(bench: Bench) -> None:
    job = await claimed(bench)
    failure = NotHarvestable("withdrawn", reason="withdrawn")
    assert await bench.queue.fail(job.lease_held, failure) is JobStatus.COMPLETED
    assert (await bench.job(job.id)).result == {"skipped": {"kind": "withdrawn"}}


@pytest.mark.parametrize("by_failure", [False, True])
async def test_a_hand_back_leaves_no_trace_but_the_count_of_releases(bench: Bench, by_failure: bool) -> None:
    # D12, SD-01
    job = await claimed(bench, max_attempts=3)
    if by_failure:
        failure = ProviderTrouble("no credit", reason="billing")
        assert await bench.queue.fail(job.lease_held, failure) is JobStatus.PENDING
    else:
        assert await bench.queue.hand_back(job.lease_held, why="drain", refund=True) is True
    row = await bench.job(job.id)
    assert (row.status, row.scheduled_at, row.result, row.lease) == (JobStatus.PENDING, None, None, None)
    assert (row.attempts, row.releases, row.max_attempts, row.deaths) == (1, 1, 4, 0)
    assert [again.id for again in (await claim(bench)).jobs] == [job.id]


async def test_back_off_does_not_count_hand_backs(bench: Bench) -> None:
    job = await claimed(bench)
    await bench.queue.hand_back(job.lease_held, why="drain")
    (job,) = (await claim(bench)).jobs
    await bench.queue.fail(job.lease_held, Transient("network"))
    row = await bench.job(job.id)
    assert row.scheduled_at is not None
    assert (row.scheduled_at - row.updated_at).total_seconds() == pytest.approx(30, abs=1)


async def test_suspect_tokens_are_released_all_and_only_they(bench: Bench) -> None:
    # D7
    token = uuid4()
    for n in range(4):
        await bench.add(f"law {n}")
    suspects = (await claim(bench, Want((JobType.PROBE,), 3), token=token)).jobs
    (safe,) = (await claim(bench)).jobs
    assert await bench.queue.release_tokens([token, uuid4()], why="test") == 3
    assert await bench.queue.release_tokens([token], why="test") == 0
    assert {(await bench.job(job.id)).status for job in suspects} == {JobStatus.PENDING}
    assert (await bench.job(safe.id)).status is JobStatus.PROCESSING


# --- cancel and reap --------------------------------------------------------------------------------------------------


async def test_a_cancel_request_is_seen_by_the_holder_and_ends_every_way_back(bench: Bench) -> None:
    # D26
    job, other = await claimed(bench, law_id="law 1"), await claimed(bench, law_id="law 2")
    await bench.ask_to_cancel(job.id)
    assert await bench.queue.cancel_requests([job.lease_held, other.lease_held]) == {job.lease_held}
    assert await bench.queue.hand_back(job.lease_held, why=HandedBack.kind) is True
    row = await bench.job(job.id)
    assert (row.status, row.result["kind"]) == (JobStatus.FAILED, "cancelled")


async def test_a_cancelled_job_is_not_tried_again_after_a_failure_or_a_death(bench: Bench) -> None:
    job, dead = await claimed(bench, law_id="law 1"), await claimed(bench, law_id="law 2")
    await bench.ask_to_cancel(job.id)
    await bench.ask_to_cancel(dead.id)
    assert await bench.queue.fail(job.lease_held, Transient("network")) is JobStatus.FAILED
    await bench.age(dead.id, 301)
    assert await bench.queue.reap(ReapRule()) is not None
    assert (await bench.job(dead.id)).status is JobStatus.FAILED


@pytest.mark.claim("S0-011")
@pytest.mark.parametrize(("max_attempts", "status"), [(3, JobStatus.PENDING), (1, JobStatus.FAILED)])
async def test_an_orphan_goes_back_or_fails_by_the_attempts_it_has_left(
    bench: Bench, max_attempts: int, status: JobStatus
) -> None:
    # QH-01: 301 s without a beat, and not 299
    job = await claimed(bench, max_attempts=max_attempts)
    await bench.age(job.id, 299)
    assert await bench.queue.reap(ReapRule()) is None
    await bench.age(job.id, 2)
    reaped = await bench.queue.reap(ReapRule())
    assert reaped is not None
    assert (reaped.id, reaped.status, reaped.attempts) == (job.id, status, 1)
    row = await bench.job(job.id)
    assert (row.status, row.lease, row.attempts, row.scheduled_at) == (status, None, 1, None)
    assert "reaped" in row.result["error"]
    assert await bench.queue.reap(ReapRule()) is None


async def test_an_orphan_that_went_back_can_be_claimed_at_once(bench: Bench) -> None:
    job = await claimed(bench)
    await bench.age(job.id, 301)
    await bench.queue.reap(ReapRule())
    (again,) = (await claim(bench)).jobs
    assert (again.id, again.attempts) == (job.id, 2)
