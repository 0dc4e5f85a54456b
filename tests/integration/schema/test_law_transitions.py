"""Every transition that a job causes in the status of its law (queue.md 2.8, 2.10; D14)."""

from __future__ import annotations

import pytest

from actors.ports.pgqueue import PgQueue
from protocols.failures import (
    BaseDrift,
    ContentFailure,
    HandedBack,
    InvalidInput,
    InvalidPayload,
    JobCancelled,
    NotHarvestable,
    SupervisorError,
    Transient,
)
from schema import harvest, laws
from schema.aftercare import AftercareRules
from schema.connection import Connection
from schema.laws import FailKind
from schema.requests import HarvestRequest, cancel, request_harvest
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

# --- What jobs do to laws ---------------------------------------------------------------------------------------------


async def run_harvest(rows: Rows, end: SupervisorError, *, max_attempts: int = 1) -> JobStatus:
    await rows.add(max_attempts=max_attempts)
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    return await rows.queue.fail(job.lease_held, end)


async def begin_enrich(connection: Connection, job: Job) -> None:
    protected = (LawStatus.ENRICHED, LawStatus.ENRICH_EXHAUSTED)
    await laws.update_status_unless_any(connection, job.law_id, protected, LawStatus.ENRICHING)


async def run_enrich(
    rows: Rows, end: SupervisorError, *, max_attempts: int = 1, provider: str = "opencode"
) -> JobStatus:
    await rows.enrich(provider, max_attempts=max_attempts)
    job = await rows.claimed(JobType.ENRICH, count_budget=False)
    await rows.queue.write(job.lease_held, begin_enrich)
    return await rows.queue.fail(job.lease_held, end)


@pytest.mark.claim("S1-010", "S1-020", "S0-023")
@pytest.mark.parametrize("before", [None, *LawStatus])
async def test_a_request_queues_a_law_and_its_claimed_job_makes_it_harvesting(
    rows: Rows, before: LawStatus | None
) -> None:
    if before is not None:
        await rows.set_law(before)
    await rows.database.transact(request_harvest, HarvestRequest(LAW))
    keeps = {LawStatus.HARVESTING, LawStatus.ENRICHING, LawStatus.HARVEST_EXHAUSTED}
    assert (await rows.law()).status is (before if before in keeps else LawStatus.QUEUED)
    if before is LawStatus.HARVEST_EXHAUSTED:
        assert await rows.jobs_of(LAW) == []
        return
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    law = await rows.law()
    assert (law.status, law.harvest_job_id) == (LawStatus.HARVESTING, job.id)


@pytest.mark.claim("S1-011", "S1-023")
async def test_a_failed_harvest_attempt_queues_the_law_and_only_the_last_one_fails_it(rows: Rows) -> None:
    assert await run_harvest(rows, Transient("no network"), max_attempts=2) is JobStatus.PENDING
    assert (await rows.law()).status is LawStatus.QUEUED
    await rows.sql("UPDATE jobs SET scheduled_at = NULL")
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    assert await rows.queue.fail(job.lease_held, Transient("no network")) is JobStatus.FAILED
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVEST_FAILED, 1)
    [_, again] = await rows.jobs_of(LAW)
    assert (again.status, again.payload, again.priority, again.max_attempts) == (
        JobStatus.PENDING,
        {"bwb_id": LAW},
        50,
        3,
    )
    assert again.scheduled_at is not None


async def test_at_the_threshold_a_law_is_exhausted_and_gets_no_new_job(rows: Rows) -> None:
    rows.queue = PgQueue(rows.database, AftercareRules(exhausted_threshold=3))
    for round_number in (1, 2, 3):
        await rows.sql("DELETE FROM jobs WHERE status = 'pending'")
        await run_harvest(rows, Transient("no network"))
        assert (await rows.law()).harvest_fail_count == round_number
    assert (await rows.law()).status is LawStatus.HARVEST_EXHAUSTED
    assert await rows.value("SELECT count(*) FROM jobs WHERE status = 'pending'") == 0
    assert await rows.database.run(laws.reset_exhausted, LAW, FailKind.HARVEST) is not None
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVEST_FAILED, 0)
    assert await rows.database.run(laws.reset_exhausted, LAW, FailKind.HARVEST) is None


async def test_a_reset_by_a_person_is_not_overwritten_by_an_exhaustion(rows: Rows) -> None:
    await rows.set_law(LawStatus.QUEUED)
    assert await rows.database.run(laws.exhaust_law, LAW, FailKind.HARVEST) is None
    assert (await rows.law()).status is LawStatus.QUEUED


@pytest.mark.claim("S0-020", "S0-021", "S0-022", "S0-023")
@pytest.mark.parametrize(
    ("reason", "date"), [("withdrawn", "2020-01-01"), ("not_yet_in_force", "2030-01-01"), ("announced", None)]
)
async def test_a_law_without_text_ends_its_job_well_and_is_asked_for_again_only_by_a_person(
    rows: Rows, reason: str, date: str | None
) -> None:
    assert await run_harvest(rows, NotHarvestable("no text", reason=reason, date=date), max_attempts=3) is (
        JobStatus.COMPLETED
    )
    [job] = await rows.jobs_of(LAW)
    assert job.result == {"skipped": {"kind": reason, **({} if date is None else {"date": date})}}
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.NOT_HARVESTABLE, 0)
    await rows.database.transact(request_harvest, HarvestRequest(LAW))
    assert (await rows.law()).status is LawStatus.QUEUED


async def test_a_payload_that_nobody_can_read_fails_for_good_and_leaves_the_law_alone(rows: Rows) -> None:  # D13
    await rows.set_law(LawStatus.HARVESTED)
    await rows.add(payload={"bwb_id": 5})
    job = await rows.claimed()
    assert await rows.queue.fail(job.lease_held, InvalidPayload("bwb_id must be a text")) is JobStatus.FAILED
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVESTED, 0)


async def test_a_harvest_that_only_a_person_can_help_fails_the_law_without_the_ladder(rows: Rows) -> None:  # D35
    assert await run_harvest(rows, InvalidInput("no such law"), max_attempts=3) is JobStatus.FAILED
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVEST_FAILED, 0)
    assert len(await rows.jobs_of(LAW)) == 1


@pytest.mark.claim("S1-012", "S1-013", "S1-052")
async def test_a_failed_enrichment_goes_back_to_harvested_until_its_attempts_are_used_up(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    await run_enrich(rows, Transient("exit code 1"), max_attempts=2)
    assert (await rows.law()).status is LawStatus.HARVESTED
    await rows.sql("UPDATE jobs SET scheduled_at = NULL, priority = 77")
    job = await rows.claimed(JobType.ENRICH)
    await rows.queue.write(job.lease_held, begin_enrich)
    await rows.queue.fail(job.lease_held, Transient("exit code 1"))
    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (LawStatus.ENRICH_FAILED, 1)
    [_, again] = await rows.jobs_of(LAW, JobType.ENRICH)
    assert (again.priority, again.payload) == (77, {"law_id": LAW, "provider": "opencode"})


@pytest.mark.parametrize(
    ("failure", "status", "jobs"),
    [
        (ContentFailure("no machine_readable sections"), LawStatus.ENRICH_EXHAUSTED, 1),
        (BaseDrift("the base changed"), LawStatus.ENRICH_FAILED, 1),
        (Transient("timeout"), LawStatus.ENRICH_FAILED, 2),
    ],
)
async def test_each_failure_class_has_its_own_end_for_the_law(
    rows: Rows, failure: SupervisorError, status: LawStatus, jobs: int
) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    await run_enrich(rows, failure)
    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (status, jobs - 1)
    assert (law.enrich_exhausted_at is not None) is (status is LawStatus.ENRICH_EXHAUSTED)
    assert len(await rows.jobs_of(LAW, JobType.ENRICH)) == jobs


async def test_a_failed_second_provider_does_not_take_the_first_one_s_success(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICHED)
    await run_enrich(rows, ContentFailure("nothing"), provider="claude")
    law = await rows.law()
    assert (law.status, law.enrich_exhausted_at) == (LawStatus.ENRICHED, None)


async def test_an_enrich_job_of_a_law_nobody_knows_fails_without_inventing_it(rows: Rows) -> None:
    assert await run_enrich(rows, Transient("exit code 1")) is JobStatus.FAILED
    assert await rows.sql("SELECT * FROM law_entries") == []


# --- Restoring (D14) --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [s for s in LawStatus if s.value not in {"queued", "harvesting", "enriching"}])
@pytest.mark.parametrize("end", [HandedBack("drain"), JobCancelled("cancelled on request")])
async def test_a_handed_back_or_cancelled_harvest_leaves_the_law_as_it_was(
    rows: Rows, settled: LawStatus, end: SupervisorError
) -> None:
    await rows.set_law(settled)
    await rows.add()
    job = await rows.claimed()
    await rows.set_law(LawStatus.QUEUED)
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.queue.fail(job.lease_held, end)
    assert (await rows.law()).status is settled


async def test_a_law_that_was_harvested_once_is_harvested_again_when_nothing_else_is_remembered(rows: Rows) -> None:
    await rows.sql(
        "INSERT INTO jobs (job_type, law_id, status, result) VALUES ('harvest', $1, 'completed', '{\"slug\": \"x\"}')",
        LAW,
    )
    await run_harvest(rows, HandedBack("drain"))
    assert (await rows.law()).status is LawStatus.HARVESTED
    await rows.sql(
        "INSERT INTO jobs (job_type, law_id, status, result) VALUES ('harvest', $1, 'completed', '{\"skipped\": {}}')",
        OTHER_LAW,
    )
    await rows.set_law(LawStatus.HARVESTING, OTHER_LAW)
    restored = await rows.database.run(laws.restore_status, OTHER_LAW, (LawStatus.HARVESTING,))
    assert restored is not None
    assert restored.status is LawStatus.UNKNOWN


async def test_a_status_that_somebody_else_wrote_meanwhile_stands(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICHED)
    await rows.add()
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.set_law(LawStatus.ENRICH_FAILED)
    await rows.queue.hand_back(job.lease_held, why="drain")
    assert (await rows.law()).status is LawStatus.ENRICH_FAILED


async def test_a_law_that_is_being_enriched_is_shown_so_again_after_a_handed_back_harvest(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    await rows.enrich()
    enrich = await rows.claimed(JobType.ENRICH)
    await rows.queue.write(enrich.lease_held, begin_enrich)
    await rows.add()
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.queue.hand_back(job.lease_held, why="drain")
    assert (await rows.law()).status is LawStatus.ENRICHING
    await rows.queue.hand_back(enrich.lease_held, why="drain")
    assert (await rows.law()).status is LawStatus.HARVESTED


async def test_a_cancelled_pending_harvest_gives_the_law_its_old_status_and_counts_no_failure(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICHED)
    await rows.database.transact(request_harvest, HarvestRequest(LAW))
    [job] = await rows.jobs_of(LAW)
    ended = await rows.database.transact(cancel, job.id)
    assert (ended.status, ended.result["kind"]) == (JobStatus.FAILED, "cancelled")
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.ENRICHED, 0)


async def test_exhaustion_is_remembered_through_a_harvest_whoever_writes_the_status(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICH_FAILED)
    await rows.sql("UPDATE law_entries SET status = 'enrich_exhausted'")  # an existing worker
    since = (await rows.law()).enrich_exhausted_at
    assert since is not None
    for status in (LawStatus.QUEUED, LawStatus.HARVESTING, LawStatus.HARVESTED):
        await rows.set_law(status)
        assert (await rows.law()).enrich_exhausted_at == since
    assert await rows.database.run(laws.reset_exhausted, LAW, FailKind.ENRICH) is not None
    assert (await rows.law()).enrich_exhausted_at is None
    await rows.set_law(LawStatus.ENRICH_EXHAUSTED)
    await rows.sql("UPDATE law_entries SET status = 'enrich_failed'")  # the admin's reset
    assert (await rows.law()).enrich_exhausted_at is None
    await rows.set_law(LawStatus.ENRICH_EXHAUSTED)
    await rows.set_law(LawStatus.ENRICHED)
    assert (await rows.law()).enrich_exhausted_at is None
