"""The life of one row: made, claimed in order, completed, failed, listed (S1-026 to S1-031, queue.md 10.1)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import trio

from protocols.backoff import retry_backoff
from protocols.failures import InvalidInput, LeaseLost, Permanent, Transient
from schema.connection import Connection
from schema.errors import JobNotFound, JobNotProcessing
from schema.queue import (
    claim_job,
    complete_job,
    create_enrich_job_if_not_exists,
    create_harvest_job_if_not_exists,
    create_job,
    fail_job,
    fail_job_terminal,
    get_job,
    list_jobs,
)
from schema.queue.views import JobFilter, QueueCount, count_jobs, find_job_ids, find_jobs
from schema.rows import Job, JobRequest, JobStatus, JobType
from tests.kit.jobrows import LAW, OTHER_LAW, Rows


async def due_in(rows: Rows, job: Job) -> float:
    return float(
        await rows.value("SELECT EXTRACT(EPOCH FROM scheduled_at - now())::float8 FROM jobs WHERE id = $1", job.id)
    )


@pytest.mark.claim("S0-008", "S1-026", "S1-030", "S1-042")
async def test_a_new_job_is_pending_with_the_defaults_and_is_found_by_its_id(rows: Rows) -> None:
    job = await rows.database.run(create_job, JobRequest(JobType.HARVEST, LAW))
    assert (job.job_type, job.law_id, job.status) == (JobType.HARVEST, LAW, JobStatus.PENDING)
    assert (job.priority, job.attempts, job.max_attempts, job.scheduled_at) == (50, 0, 3, None)
    assert await rows.database.run(get_job, job.id) == job


async def test_an_unknown_id_is_a_typed_error_that_says_where_to_look(rows: Rows) -> None:
    with pytest.raises(JobNotFound, match="jobs list"):
        await rows.database.run(get_job, uuid4())


@pytest.mark.claim("S1-017")
async def test_a_payload_comes_back_as_it_was(rows: Rows) -> None:
    payload = {"bwb_id": LAW, "url": "https://wetten.overheid.nl/x", "n": [1, 2.5, None, True], "t": "é✓"}
    assert (await rows.add(payload=payload)).payload == payload


@pytest.mark.claim("S1-004", "S1-042")
async def test_limits_are_clamped_and_never_refused(rows: Rows) -> None:
    low = await rows.add(law_id="BWBR0000011", max_attempts=0, priority=-5)
    high = await rows.add(law_id="BWBR0000012", max_attempts=-5, priority=500)
    assert (low.max_attempts, low.priority, high.max_attempts, high.priority) == (1, 0, 1, 100)


@pytest.mark.claim("S0-006", "S1-027", "S1-043")
async def test_the_highest_priority_is_claimed_first_then_the_oldest(rows: Rows) -> None:
    for number, priority in enumerate((50, 10, 90, 50)):
        await rows.add(law_id=f"BWBR000001{number}", priority=priority)
    claimed = [await rows.claimed() for _ in range(4)]
    assert [job.law_id[-1] for job in claimed] == ["2", "0", "3", "1"]
    assert {(job.status, job.attempts) for job in claimed} == {(JobStatus.PROCESSING, 1)}
    assert (await rows.claim()).jobs == ()


@pytest.mark.claim("S1-019")
async def test_only_the_wanted_type_is_claimed(rows: Rows) -> None:
    await rows.enrich()
    assert (await rows.claim(JobType.HARVEST)).jobs == ()
    assert (await rows.claimed(JobType.ENRICH)).job_type is JobType.ENRICH


@pytest.mark.claim("S0-003", "S1-003", "S1-060")
async def test_many_claimers_at_once_get_each_job_once(rows: Rows) -> None:
    made = [await rows.add(law_id=f"BWBR00001{number:02}") for number in range(40)]
    taken: list[Job] = []

    async def claimer() -> None:
        while jobs := (await rows.claim(slots=3)).jobs:
            taken.extend(jobs)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claimer)
    assert sorted(job.id for job in taken) == sorted(job.id for job in made)


@pytest.mark.claim("S0-010")
async def test_the_claim_is_the_first_sign_of_life_and_spends_the_attempt(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    assert job.heartbeat_at == job.started_at
    assert job.heartbeat_at is not None
    assert (job.attempts, job.claimed_by) == (1, "test")


@pytest.mark.claim("S1-028")
async def test_a_completed_job_keeps_its_result_and_its_moment(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    await rows.queue.complete(job.lease_held, {"law_name": "Zorgtoeslag"})
    done = await rows.job(job.id)
    assert (done.status, done.result) == (JobStatus.COMPLETED, {"law_name": "Zorgtoeslag"})
    assert done.completed_at is not None
    assert (done.lease, done.heartbeat_at, done.claimed_by) == (None, None, None)


async def test_only_a_processing_job_can_be_completed_or_failed(rows: Rows) -> None:
    job = await rows.add()
    for end in (complete_job, fail_job, fail_job_terminal):
        with pytest.raises(JobNotProcessing):
            await rows.database.transact(end, job.id)
        with pytest.raises(JobNotProcessing):
            await rows.database.transact(end, uuid4())
    assert (await rows.job(job.id)).status is JobStatus.PENDING


@pytest.mark.claim("S0-007", "S1-029", "S1-022")
async def test_a_failed_job_returns_until_its_attempts_are_used_up(rows: Rows) -> None:
    await rows.add()
    for attempt in (1, 2):
        job = await rows.claimed()
        assert await rows.queue.fail(job.lease_held, Transient("no network")) is JobStatus.PENDING
        waiting = await rows.job(job.id)
        assert waiting.result == {"error": "no network", "kind": "transient"}
        assert (waiting.completed_at, waiting.attempts, waiting.started_at is None) == (None, attempt, False)
        assert (await rows.claim()).jobs == ()  # its pause
        await rows.make_due(job.id)
    job = await rows.claimed()
    assert await rows.queue.fail(job.lease_held, Transient("no network")) is JobStatus.FAILED
    failed = await rows.job(job.id)
    assert (failed.attempts, failed.scheduled_at, failed.completed_at is None) == (3, None, False)
    assert failed.id not in {claimed.id for claimed in (await rows.claim()).jobs}


async def test_a_failure_for_good_does_not_wait_for_the_other_attempts(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    assert await rows.queue.fail(job.lease_held, Permanent("no such law")) is JobStatus.FAILED
    failed = await rows.job(job.id)
    assert (failed.attempts, failed.max_attempts, failed.scheduled_at) == (1, 3, None)
    assert failed.completed_at is not None
    assert (await rows.claim()).jobs == ()


# QH-21
async def test_the_pause_doubles_from_thirty_seconds_and_is_not_claimed_before_its_end(rows: Rows) -> None:
    await rows.add(max_attempts=5)
    for attempt, pause_s in enumerate((30, 60, 120), start=1):
        job = await rows.claimed()
        await rows.queue.fail(job.lease_held, Transient("hangs"))
        left_s = await due_in(rows, job)
        assert retry_backoff(attempt) == pause_s
        assert pause_s - 2 < left_s <= pause_s
        answer = await rows.claim()
        assert answer.jobs == ()
        assert answer.next_due_s == pytest.approx(left_s, abs=2)
        await rows.make_due(job.id)


async def test_the_longest_pause_is_a_quarter_of_an_hour(rows: Rows) -> None:
    await rows.add(max_attempts=100)
    await rows.sql("UPDATE jobs SET attempts = 80")
    job = await rows.claimed()
    await rows.queue.fail(job.lease_held, Transient("hangs"))
    assert 895 < await due_in(rows, job) <= 900


async def test_a_row_whose_time_has_not_come_is_passed_over_until_then(rows: Rows) -> None:
    later = await rows.add(priority=90, delay_s=3600)
    now = await rows.add(law_id=OTHER_LAW, priority=10)
    assert (await rows.claimed()).id == now.id
    answer = await rows.claim()
    assert answer.jobs == ()
    assert answer.next_due_s == pytest.approx(3600, abs=5)
    await rows.make_due(later.id)
    assert (await rows.claimed()).id == later.id


async def test_more_rows_than_one_promotion_takes_become_due_in_one_claim(rows: Rows) -> None:
    await rows.sql(
        """
        INSERT INTO jobs (job_type, law_id, scheduled_at)
        SELECT 'harvest', 'BWBR' || lpad(n::text, 7, '0'), now() - interval '1 second' FROM generate_series(1, 450) AS n
        """
    )
    assert len((await rows.claim(slots=500)).jobs) == 450


@pytest.mark.claim("S1-031")
async def test_jobs_are_listed_by_status_highest_priority_first(rows: Rows) -> None:
    low = await rows.add(priority=10)
    high = await rows.add(law_id=OTHER_LAW, priority=90)
    assert [job.id for job in await rows.database.run(list_jobs)] == [high.id, low.id]
    await rows.claimed()
    assert [job.id for job in await rows.database.run(list_jobs, JobStatus.PENDING)] == [low.id]
    assert [job.id for job in await rows.database.run(list_jobs, JobStatus.PROCESSING)] == [high.id]


# --- One active job of a kind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "created"), [("pending", False), ("processing", False), ("completed", True), ("failed", True)]
)
async def test_only_an_active_harvest_blocks_another(rows: Rows, status: str, created: bool) -> None:  # CL-04
    old = await rows.add()
    await rows.sql("UPDATE jobs SET status = $2::text::job_status WHERE id = $1", old.id, status)
    new = await rows.database.run(create_harvest_job_if_not_exists, JobRequest(JobType.HARVEST, LAW), "2025-01-01")
    assert (new is not None) is created


async def test_an_active_harvest_blocks_whatever_its_date_and_the_other_one_s(rows: Rows) -> None:
    await rows.add(payload={"bwb_id": LAW, "date": "2024-01-01"})
    for date in ("2024-01-01", "2025-01-01", None):
        request = JobRequest(JobType.HARVEST, LAW, payload={"bwb_id": LAW, "date": date})
        assert await rows.database.run(create_harvest_job_if_not_exists, request, date) is None


async def test_a_blocked_insert_does_not_abort_the_transaction_around_it(rows: Rows) -> None:
    await rows.add()

    async def both(connection: Connection) -> object:
        assert await create_harvest_job_if_not_exists(connection, JobRequest(JobType.HARVEST, LAW)) is None
        return await create_harvest_job_if_not_exists(connection, JobRequest(JobType.HARVEST, OTHER_LAW))

    assert await rows.database.transact(both) is not None
    with pytest.raises(asyncpg.UniqueViolationError):
        await rows.add()


async def test_enrich_jobs_are_unique_by_law_provider_and_traject(rows: Rows) -> None:
    def wanted(provider: str, traject: str | None = None) -> JobRequest:
        return JobRequest(JobType.ENRICH, LAW, payload={"provider": provider}, traject_ref=traject)

    made = [wanted("opencode"), wanted("claude"), wanted("claude", "zorg-12345678"), wanted("claude", "werk-12345678")]
    for request in made:
        assert await rows.database.run(create_enrich_job_if_not_exists, request) is not None
    for request in made:
        assert await rows.database.run(create_enrich_job_if_not_exists, request) is None


async def test_an_enrich_request_without_a_provider_is_refused_because_nothing_would_make_it_unique(rows: Rows) -> None:
    with pytest.raises(InvalidInput, match="provider"):
        await rows.database.run(create_enrich_job_if_not_exists, JobRequest(JobType.ENRICH, LAW, payload={}))


# CL-03
@pytest.mark.time_limit(60)
async def test_at_most_one_of_many_equal_requests_makes_a_row_even_when_half_roll_back(rows: Rows) -> None:
    made: list[Job] = []

    async def request(number: int) -> None:
        async def unit(connection: Connection) -> Job | None:
            job = await create_harvest_job_if_not_exists(connection, JobRequest(JobType.HARVEST, LAW))
            if number % 2:
                raise LeaseLost("rolled back")
            return job

        try:
            job = await rows.database.transact(unit)
        except LeaseLost:
            return
        if job is not None:
            made.append(job)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(request, number)
    assert len(made) == 1
    assert await rows.value("SELECT count(*) FROM jobs") == 1


# --- DB-09 -------------------------------------------------------------------------------------------------------------


async def test_a_failure_text_that_postgresql_refuses_still_ends_the_job(rows: Rows) -> None:  # DB-09
    await rows.add(max_attempts=1)
    job = await rows.claimed()
    await rows.queue.write_progress({job.lease_held: {"tool": "rm\x00", "odd": "\ud800", "share": float("nan")}})
    assert (await rows.job(job.id)).progress == {"tool": "rm\ufffd", "odd": "\ufffd", "share": "nan"}
    await rows.queue.fail(job.lease_held, Transient("tool \x00 said \ud800" + "x" * 50_000, lines=["y" * 9_000] * 100))
    failed = await rows.job(job.id)
    assert failed.status is JobStatus.FAILED
    assert failed.result["error"].startswith("tool \ufffd said \ufffdxxx")
    assert len(json.dumps(failed.result)) < 260_000


async def test_a_payload_with_nul_is_stored_cleaned_and_whole(rows: Rows) -> None:
    job = await rows.add(payload={"bwb_id": LAW, "note": "a\x00b" + "x" * 20_000})
    assert job.payload["note"] == "a\ufffdb" + "x" * 20_000


async def test_the_library_and_the_port_see_the_same_rows(rows: Rows) -> None:
    await rows.add()
    job = await rows.database.run(claim_job, JobType.HARVEST)
    assert job is not None
    await rows.queue.complete(job.lease_held, None)
    assert (await rows.job(job.id)).status is JobStatus.COMPLETED


# --- Looking ----------------------------------------------------------------------------------------------------------


async def test_jobs_are_found_by_status_type_and_part_of_their_law(rows: Rows) -> None:
    first = await rows.add(law_id="BWBR0018451")
    second = await rows.enrich(law_id="BWBR0018451")
    third = await rows.add(JobType.DOCUMENT_CONVERT, "doc:100%_x", {})

    async def found(**wanted: Any) -> list[Job]:
        return list(await rows.database.run(find_jobs, JobFilter(**wanted)))

    assert await found() == [third, second, first]
    assert await found(law_id="r00184") == [second, first]
    assert await found(law_id="%") == await found(law_id="0%_") == [third]
    assert await found(job_type=JobType.HARVEST) == [first]
    assert await found(status=JobStatus.FAILED) == []
    assert await found(limit=1, offset=1) == [second]
    assert await rows.database.run(find_job_ids, str(first.id)[:13]) == [first.id]
    assert await rows.database.run(find_job_ids, "%") == []


async def test_the_summary_counts_by_type_and_status_and_tells_who_waits_for_its_time(rows: Rows) -> None:
    await rows.add()
    await rows.add(law_id=OTHER_LAW, delay_s=60)
    await rows.enrich()
    await rows.claimed(JobType.ENRICH)
    assert list(await rows.database.run(count_jobs)) == [
        QueueCount("enrich", JobStatus.PROCESSING, 1, 0),
        QueueCount("harvest", JobStatus.PENDING, 2, 1),
    ]


async def test_rows_of_a_job_type_that_only_a_later_platform_knows_do_not_break_the_list(rows: Rows) -> None:  # D23
    known = await rows.add()
    await rows.sql("ALTER TYPE job_type ADD VALUE 'of_the_future'")
    await rows.sql("INSERT INTO jobs (job_type, law_id) VALUES ('of_the_future', 'x')")
    assert list(await rows.database.run(list_jobs)) == list(await rows.database.run(find_jobs, JobFilter())) == [known]
    assert {count.job_type for count in await rows.database.run(count_jobs)} == {"harvest", "of_the_future"}
