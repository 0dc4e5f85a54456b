"""The queue as a library: the two examples of the package README, and what a bare id may do (D24)."""

from __future__ import annotations

import datetime as dt

import pytest

from protocols.failures import InvalidInput
from schema import laws
from schema.connection import Connection
from schema.errors import JobNotProcessing, LeaseNotOurs
from schema.queue import (
    JobRequest,
    beat,
    claim_job,
    complete_job,
    create_job,
    fail_job,
    fail_job_terminal,
    get_job,
    list_jobs,
    reap_orphaned_jobs,
    retry_backoff,
    update_progress,
)
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, OTHER_LAW, Rows


@pytest.mark.claim("S1-016", "S1-017", "S1-018")
async def test_the_first_example_makes_a_job_and_follows_its_law(rows: Rows) -> None:
    run = rows.database.run
    request = JobRequest(
        JobType.HARVEST,
        "wet_op_de_zorgtoeslag",
        priority=80,
        payload={"bwb_id": "BWBR0018451", "url": "https://wetten.overheid.nl/BWBR0018451"},
    )
    job = await run(create_job, request)
    await run(laws.upsert_law, job.law_id, "Zorgtoeslagwet")
    await run(laws.update_status, job.law_id, LawStatus.QUEUED)
    await run(laws.set_harvest_job, job.law_id, job.id)
    law = await rows.law(job.law_id)
    assert (law.law_name, law.status, law.harvest_job_id) == ("Zorgtoeslagwet", LawStatus.QUEUED, job.id)


@pytest.mark.claim("S1-019", "S1-020", "S1-021", "S1-022", "S1-023", "S1-024", "S1-028", "S1-029")
@pytest.mark.parametrize("goes_well", [True, False])
async def test_the_worker_example_runs_a_job_with_beats_and_reports_by_its_id(rows: Rows, goes_well: bool) -> None:
    run, transact = rows.database.run, rows.database.transact
    await rows.set_law(LawStatus.QUEUED)
    await rows.add(max_attempts=1)
    job = await run(claim_job, JobType.HARVEST)
    assert job is not None
    await run(laws.update_status, job.law_id, LawStatus.HARVESTING)
    assert await run(beat, job)
    await run(update_progress, job.id, {"phase": "download"})
    if goes_well:
        await transact(complete_job, job.id, {"slug": "x"})
        await run(laws.update_status, job.law_id, LawStatus.HARVESTED)
    else:
        failed = await transact(fail_job, job.id, {"error": "no network"})
        assert failed.status is JobStatus.FAILED
        await run(laws.update_status, job.law_id, LawStatus.HARVEST_FAILED)
    row = await run(get_job, job.id)
    assert (row.status, row.result) == (
        (JobStatus.COMPLETED, {"slug": "x"}) if goes_well else (JobStatus.FAILED, {"error": "no network"})
    )
    assert row.progress == {"phase": "download"}
    assert await run(claim_job, JobType.HARVEST) is None


@pytest.mark.claim("S1-025")
async def test_the_transaction_example_is_all_or_nothing(rows: Rows) -> None:
    async def unit(connection: Connection) -> Job:
        job = await create_job(connection, JobRequest(JobType.HARVEST, "my_law"))
        await laws.upsert_law(connection, "my_law", "My Law")
        await laws.set_harvest_job(connection, "my_law", job.id)
        await laws.update_status(connection, "my_law", LawStatus.QUEUED)
        return job

    job = await rows.database.transact(unit)
    assert (await rows.law("my_law")).harvest_job_id == job.id
    assert [one.id for one in await rows.database.run(list_jobs)] == [job.id]


@pytest.mark.claim("S1-027")
async def test_a_claim_without_a_type_takes_the_best_job_of_any_type(rows: Rows) -> None:
    await rows.add(priority=50)
    await rows.enrich("claude", priority=90)
    await rows.add(JobType.LAW_CONVERT, "lawdoc:t/x.pdf", {}, priority=70)
    await rows.add(JobType.DOCUMENT_CONVERT, "doc:t/x.md", {}, priority=99, delay_s=3600)
    taken = []
    while (job := await rows.database.run(claim_job)) is not None:
        taken.append(job.job_type)
    assert taken == [JobType.ENRICH, JobType.LAW_CONVERT, JobType.HARVEST]


async def test_a_claim_can_leave_claude_alone(rows: Rows) -> None:
    async def claim(connection: Connection) -> Job | None:
        return await claim_job(connection, JobType.ENRICH, claude_blocked=True)

    await rows.enrich("claude", priority=90)
    await rows.enrich("opencode")
    job = await rows.database.run(claim)
    assert job is not None
    assert job.payload["provider"] == "opencode"
    assert await rows.database.run(claim) is None


async def test_a_report_with_the_claimed_job_is_fenced(rows: Rows) -> None:
    await rows.add()
    first = await rows.database.run(claim_job)
    assert first is not None
    await rows.age(first.id, 301)
    [reaped] = await rows.database.run(reap_orphaned_jobs, dt.timedelta(seconds=300))
    assert (reaped.id, reaped.status) == (first.id, JobStatus.PENDING)
    second = await rows.database.run(claim_job)
    assert second is not None
    for end in (complete_job, fail_job, fail_job_terminal):
        with pytest.raises(JobNotProcessing):
            await rows.database.transact(end, first)
    assert not await rows.database.run(beat, first)
    assert await rows.database.run(beat, second)
    await rows.database.transact(complete_job, second)


async def test_a_bare_id_is_refused_for_a_claim_of_a_supervisor(rows: Rows) -> None:  # D24
    await rows.add()
    job = await rows.claimed()
    for end in (complete_job, fail_job, fail_job_terminal):
        with pytest.raises(LeaseNotOurs, match="pass the claimed Job"):
            await rows.database.transact(end, job.id)
    assert (await rows.job(job.id)).status is JobStatus.PROCESSING
    await rows.database.transact(complete_job, job)


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_row_claimed_without_a_lease_is_reported_on_as_before(rows: Rows, by_id: bool) -> None:
    for law_id, end in ((LAW, complete_job), (OTHER_LAW, fail_job)):
        await rows.add(law_id=law_id)
        job_id = await rows.foreign_claim()
        assert job_id is not None
        ended = await rows.database.transact(end, job_id if by_id else await rows.job(job_id))
        assert ended.status is (JobStatus.COMPLETED if end is complete_job else JobStatus.PENDING)


async def test_a_stale_job_without_a_lease_is_fenced_on_its_attempt(rows: Rows) -> None:
    await rows.add()
    job_id = await rows.foreign_claim()
    assert job_id is not None
    stale = await rows.job(job_id)
    await rows.foreign_reap(job_id)
    await rows.foreign_claim()
    with pytest.raises(JobNotProcessing):
        await rows.database.transact(complete_job, stale)
    with pytest.raises(JobNotProcessing):
        await rows.database.transact(fail_job, stale)


async def test_a_request_without_a_law_is_refused(rows: Rows) -> None:
    with pytest.raises(InvalidInput, match="law_id"):
        await rows.database.run(create_job, JobRequest(JobType.HARVEST, ""))


def test_the_pause_is_part_of_the_library() -> None:
    assert [retry_backoff(n) for n in (1, 2, 3)] == [30, 60, 120]
