"""The lease: whoever lost it writes nothing (D1, D5, D7, D12)."""

from __future__ import annotations

from uuid import uuid4

import pytest
import trio
from attrs import evolve

from actors.ports.queue import BeatAnswer, ReapRule
from protocols.failures import HandedBack, LeaseLost, ProviderTrouble, Transient
from schema import harvest
from schema.connection import Connection
from schema.queue import endings
from schema.queue.endings import Standing
from schema.requests import cancel
from schema.rows import Job, JobStatus, JobType, LawStatus, Lease
from tests.kit.jobrows import LAW, OTHER_LAW, Rows


async def test_a_claim_carries_the_token_of_its_claimer_and_nothing_else_shows_one(rows: Rows) -> None:
    pending = await rows.add()
    assert pending.lease is None
    with pytest.raises(ValueError, match="no lease"):
        _ = pending.lease_held
    job = await rows.claimed()
    assert job.lease_held == Lease(job.id, await rows.value("SELECT lease FROM jobs"), 1)
    assert str(job.lease) not in repr(job)


@pytest.mark.claim("S0-018")
async def test_a_late_report_is_refused_before_and_after_the_job_was_claimed_again(rows: Rows) -> None:  # QH-05
    await rows.add()
    first = await rows.claimed()
    await rows.queue.write(first.lease_held, harvest.begin)
    await rows.age(first.id, 301)
    await rows.reap_all()
    with pytest.raises(LeaseLost):
        await rows.queue.complete(first.lease_held, {"by": "first"})
    second = await rows.claimed()
    await rows.queue.write(second.lease_held, harvest.begin)

    async def never(connection: Connection, job: Job) -> None:
        raise AssertionError("a refused report settles nothing")

    with pytest.raises(LeaseLost):
        await rows.queue.complete(first.lease_held, {"by": "first"}, never)
    with pytest.raises(LeaseLost):
        await rows.queue.fail(first.lease_held, Transient("late"))
    with pytest.raises(LeaseLost):
        await rows.queue.write(first.lease_held, never)
    assert await rows.queue.hand_back(first.lease_held, why="late") is False
    assert (await rows.queue.beat([first.lease_held])).lost == {first.lease_held}
    await rows.queue.write_progress({first.lease_held: {"by": "first"}})
    row = await rows.job(second.id)
    assert (row.status, row.lease, row.attempts, row.progress) == (JobStatus.PROCESSING, second.lease, 2, None)
    assert (await rows.law()).status is LawStatus.HARVESTING
    await rows.queue.complete(second.lease_held, {"by": "second"})
    assert (await rows.job(second.id)).result == {"by": "second"}


async def test_a_failing_settle_keeps_nothing_of_the_completion(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()

    async def breaks(connection: Connection, job: Job) -> None:
        await harvest.begin(connection, job)
        raise Transient("no more")

    with pytest.raises(Transient):
        await rows.queue.complete(job.lease_held, {}, breaks)
    assert (await rows.job(job.id)).status is JobStatus.PROCESSING
    assert await rows.sql("SELECT * FROM law_entries") == []


# --- Writers that know no leases ---------------------------------------------------------------------------------------


async def test_an_existing_reaper_and_worker_cannot_keep_an_old_lease_alive(rows: Rows) -> None:
    await rows.add()
    ours = await rows.claimed()
    await rows.foreign_reap(ours.id)
    assert (await rows.job(ours.id)).lease is None
    assert await rows.foreign_claim() == ours.id
    with pytest.raises(LeaseLost):
        await rows.queue.complete(ours.lease_held, {})
    assert await rows.foreign_complete(ours.id)
    assert (await rows.job(ours.id)).result == {"by": "foreign"}


async def test_a_claim_over_the_head_of_the_holder_ends_its_lease(rows: Rows) -> None:
    await rows.add()
    ours = await rows.claimed()
    await rows.sql("UPDATE jobs SET attempts = attempts + 1, started_at = now() WHERE id = $1", ours.id)
    assert (await rows.job(ours.id)).lease is None
    assert (await rows.queue.beat([ours.lease_held])).lost == {ours.lease_held}


async def test_an_existing_worker_and_ours_share_the_queue(rows: Rows) -> None:
    await rows.add()
    await rows.add(law_id=OTHER_LAW)
    theirs = await rows.foreign_claim()
    ours = await rows.claimed()
    assert theirs != ours.id
    assert theirs is not None
    assert await rows.foreign_complete(theirs)
    await rows.queue.complete(ours.lease_held, None)
    assert await rows.value("SELECT count(*) FROM jobs WHERE status = 'completed'") == 2


# --- Beats ------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-009")
async def test_one_beat_serves_all_held_jobs_and_moves_only_their_sign_of_life(rows: Rows) -> None:
    held = [await rows.add(law_id=f"BWBR000000{number}") for number in range(3)]
    jobs = (await rows.claim(slots=3)).jobs
    for job in jobs:
        await rows.age(job.id, 100)
    leases = frozenset(job.lease_held for job in jobs)
    assert await rows.queue.beat(leases) == BeatAnswer(confirmed=leases)
    assert await rows.value("SELECT count(*) FROM jobs WHERE heartbeat_at > now() - interval '5 seconds'") == 3
    assert await rows.value("SELECT count(*) FROM jobs WHERE started_at < now() - interval '95 seconds'") == len(held)


async def test_a_beat_tells_a_stolen_row_from_a_row_that_is_locked_just_now(rows: Rows) -> None:
    for number in range(3):
        await rows.add(law_id=f"BWBR000000{number}")
    fine, locked, stolen = (await rows.claim(slots=3)).jobs
    await rows.sql("UPDATE jobs SET lease = $2, attempts = attempts + 1 WHERE id = $1", stolen.id, uuid4())
    entered, leave = trio.Event(), trio.Event()

    async def hold() -> None:
        async def unit(connection: Connection) -> None:
            await connection.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", locked.id)
            await connection.execute("SELECT pg_sleep(1.5)")

        entered.set()
        await rows.database.transact(unit)
        leave.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        await entered.wait()
        while not await rows.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"):
            await trio.lowlevel.checkpoint()
        answer = await rows.queue.beat([fine.lease_held, locked.lease_held, stolen.lease_held])
        assert not leave.is_set()
    assert answer.confirmed == {fine.lease_held}
    assert answer.unbeaten == {locked.lease_held}
    assert answer.lost == {stolen.lease_held}


async def test_nothing_held_beats_nothing(rows: Rows) -> None:
    assert await rows.queue.beat([]) == BeatAnswer()


@pytest.mark.claim("S0-045")
async def test_progress_of_several_jobs_is_one_write_and_stays_after_the_end(rows: Rows) -> None:
    await rows.add()
    await rows.add(law_id=OTHER_LAW)
    one, two = (await rows.claim(slots=2)).jobs
    await rows.queue.write_progress({one.lease_held: {"phase": "download"}, two.lease_held: {"phase": "push"}})
    await rows.queue.complete(one.lease_held, None)
    assert (await rows.job(one.id)).progress == {"phase": "download"}
    assert (await rows.job(two.id)).progress == {"phase": "push"}


# --- Hand-back --------------------------------------------------------------------------------------------------------


async def test_a_handed_back_job_is_claimable_at_once_and_the_attempt_did_not_count(rows: Rows) -> None:  # D12
    await rows.add(max_attempts=1)
    for round_number in (1, 2, 3):
        job = await rows.claimed()
        assert await rows.queue.hand_back(job.lease_held, why="drain")
        row = await rows.job(job.id)
        assert (row.status, row.lease, row.scheduled_at, row.result) == (JobStatus.PENDING, None, None, None)
        assert (row.attempts, row.max_attempts, row.releases) == (round_number, 1 + round_number, round_number)
        assert row.deaths == 0
    job = await rows.claimed()
    assert await rows.queue.fail(job.lease_held, Transient("now for real")) is JobStatus.FAILED


async def test_the_pause_after_a_failure_does_not_count_hand_backs(rows: Rows) -> None:  # D12
    await rows.add()
    for _ in range(3):
        await rows.queue.hand_back((await rows.claimed()).lease_held, why="drain")
    job = await rows.claimed()
    await rows.queue.fail(job.lease_held, Transient("first real failure"))
    left_s = await rows.value("SELECT EXTRACT(EPOCH FROM scheduled_at - now())::float8 FROM jobs")
    assert 28 < left_s <= 30


@pytest.mark.parametrize("failure", [HandedBack("drain"), ProviderTrouble("no credit", reason="billing")])
async def test_a_failure_that_is_not_the_job_s_fault_hands_it_back(rows: Rows, failure: HandedBack) -> None:
    await rows.add()
    job = await rows.claimed()
    assert await rows.queue.fail(job.lease_held, failure) is JobStatus.PENDING
    assert (await rows.job(job.id)).releases == 1


async def test_a_failure_that_says_write_nothing_is_a_mistake_of_the_caller(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    with pytest.raises(ValueError, match="write nothing"):
        await rows.queue.fail(job.lease_held, LeaseLost("gone"))
    assert (await rows.job(job.id)).status is JobStatus.PROCESSING


# --- Unclear answers (D7) ---------------------------------------------------------------------------------------------


async def test_rows_of_an_unclear_claim_are_handed_back_by_their_token(rows: Rows) -> None:
    for number in range(3):
        await rows.add(law_id=f"BWBR000000{number}")
    ours = await rows.claim(slots=2)
    other = await rows.claimed()
    tokens = [job.lease for job in ours.jobs if job.lease is not None]
    assert await rows.queue.release_tokens(tokens, why="unclear claim") == 2
    assert await rows.queue.release_tokens(tokens, why="unclear claim") == 0
    assert await rows.queue.release_tokens([], why="none") == 0
    assert (await rows.job(other.id)).status is JobStatus.PROCESSING
    assert {(await rows.job(job.id)).releases for job in ours.jobs} == {1}


async def test_after_an_unclear_commit_the_row_tells_whether_it_landed(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    lease = job.lease_held
    assert await rows.database.run(endings.standing, lease) is Standing.OURS
    await rows.queue.complete(lease, None)
    assert await rows.database.run(endings.standing, lease) is Standing.LANDED
    assert await rows.database.run(endings.standing, evolve(lease, token=uuid4())) is Standing.LOST
    assert await rows.database.run(endings.standing, evolve(lease, job_id=uuid4())) is Standing.LOST


async def test_the_reaper_s_write_is_never_taken_for_the_holder_s_own(rows: Rows) -> None:
    await rows.add(max_attempts=1)
    job = await rows.claimed()
    await rows.age(job.id, 301)
    [reaped] = await rows.reap_all()
    assert reaped.status is JobStatus.FAILED
    assert await rows.database.run(endings.standing, job.lease_held) is Standing.LOST


@pytest.mark.parametrize("end", ["complete", "fail", "hand_back"])
async def test_every_write_that_ends_a_claim_leaves_the_trace_of_its_lease(rows: Rows, end: str) -> None:
    await rows.add()
    lease = (await rows.claimed()).lease_held
    if end == "complete":
        await rows.queue.complete(lease, None)
    elif end == "fail":
        await rows.queue.fail(lease, Transient("x"))
    else:
        await rows.queue.hand_back(lease, why="drain")
    assert await rows.database.run(endings.standing, lease) is Standing.LANDED


async def test_many_jobs_without_anything_to_settle_end_in_one_statement(rows: Rows) -> None:
    for number in range(3):
        await rows.add(law_id=f"BWBR000000{number}")
    one, two, lost = (await rows.claim(slots=3)).jobs
    await rows.sql("UPDATE jobs SET status = 'pending' WHERE id = $1", lost.id)
    results = {one.lease_held: {"n": 1}, two.lease_held: None, lost.lease_held: None}
    assert await rows.database.run(endings.complete_many, results) == {one.lease_held, two.lease_held}
    assert (await rows.job(one.id)).result == {"n": 1}
    assert await rows.database.run(endings.standing, one.lease_held) is Standing.LANDED


# --- Cancel (D26) -----------------------------------------------------------------------------------------------------


async def test_a_running_job_hears_of_its_cancel_and_does_not_run_again(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    asked = await rows.database.transact(cancel, job.id)
    assert (asked.status, asked.cancel_requested_at is None) == (JobStatus.PROCESSING, False)
    assert await rows.queue.cancel_requests([job.lease_held]) == {job.lease_held}
    assert await rows.queue.hand_back(job.lease_held, why="drain")
    row = await rows.job(job.id)
    assert (row.status, row.result["kind"]) == (JobStatus.FAILED, "cancelled")


async def test_a_cancelled_job_whose_worker_died_is_not_put_back(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    await rows.database.transact(cancel, job.id)
    await rows.age(job.id, 301)
    [reaped] = await rows.reap_all(ReapRule())
    assert reaped.status is JobStatus.FAILED
    assert (await rows.job(job.id)).result["kind"] == "cancelled"
    assert await rows.jobs_of(LAW, JobType.HARVEST) == [await rows.job(job.id)]
