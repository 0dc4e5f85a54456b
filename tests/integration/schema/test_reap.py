"""Orphans: who counts as dead, and what happens to the job, its law and the person who asked (D3, D13)."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from actors.ports.queue import ReapRule
from schema import harvest
from schema.aftercare import AFTERCARE, Ending, TypeAftercare
from schema.connection import Connection
from schema.rows import JobStatus, JobType, LawStatus, ReapedJob
from schema.tasks import BlobKind, insert_blob
from tests.kit.jobrows import LAW, OTHER_LAW, Rows


@pytest.mark.claim("S0-011", "S0-012", "S0-013")
@pytest.mark.parametrize(("silent_s", "taken"), [(299, False), (301, True)])
async def test_a_job_is_taken_after_five_minutes_without_a_beat_and_not_before(  # QH-01
    rows: Rows, silent_s: int, taken: bool
) -> None:
    await rows.add()
    job = await rows.claimed()
    await rows.age(job.id, silent_s)
    reaped = await rows.reap_all()
    row = await rows.job(job.id)
    if not taken:
        assert (reaped, row.status) == ([], JobStatus.PROCESSING)
        return
    assert [(one.id, one.status, one.attempts) for one in reaped] == [(job.id, JobStatus.PENDING, 1)]
    assert (row.lease, row.claimed_by, row.heartbeat_at, row.scheduled_at) == (None, None, None, None)
    assert (row.result["kind"], row.completed_at) == ("reaped", None)
    assert (await rows.claimed()).attempts == 2  # claimable at once


@pytest.mark.claim("S0-014")
async def test_a_beating_job_may_run_for_hours(rows: Rows) -> None:  # QH-04
    await rows.add()
    job = await rows.claimed()
    await rows.sql("UPDATE jobs SET started_at = now() - interval '3 hours', heartbeat_at = now() - interval '10 s'")
    assert await rows.reap_all() == []
    assert (await rows.job(job.id)).status is JobStatus.PROCESSING


async def test_a_row_that_was_never_beaten_is_judged_by_its_claim(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    await rows.sql("UPDATE jobs SET heartbeat_at = NULL, started_at = now() - interval '301 s'")
    assert [one.id for one in await rows.reap_all()] == [job.id]


async def test_a_row_that_somebody_set_to_processing_by_hand_is_not_stuck_for_ever(rows: Rows) -> None:
    job = await rows.add()
    await rows.sql("ALTER TABLE jobs DISABLE TRIGGER trg_jobs_updated_at")
    await rows.sql("UPDATE jobs SET status = 'processing', updated_at = now() - interval '1 day'")
    assert [one.id for one in await rows.reap_all()] == [job.id]


@pytest.mark.claim("S0-012")
@pytest.mark.parametrize(
    ("beats", "silent_s", "taken"), [(False, 1799, False), (False, 1801, True), (True, 299, False), (True, 301, True)]
)
async def test_an_existing_worker_that_never_beats_gets_half_an_hour(
    rows: Rows, beats: bool, silent_s: int, taken: bool
) -> None:  # D3
    await rows.add()
    job = await rows.foreign_claim()
    assert job is not None
    if beats:
        await rows.sql("UPDATE jobs SET heartbeat_at = started_at + interval '30 seconds'")
        silent_s += 30
    await rows.sql(
        """
        UPDATE jobs SET started_at = started_at - $1 * interval '1 second',
                        heartbeat_at = heartbeat_at - $1 * interval '1 second'
        """,
        float(silent_s),
    )
    assert [one.id for one in await rows.reap_all()] == ([job] if taken else [])


async def test_a_job_that_kills_its_worker_every_time_ends_failed_after_its_attempts(rows: Rows) -> None:  # QH-16
    await rows.add()
    ends = []
    for _ in range(3):
        await rows.age((await rows.claimed()).id, 301)
        ends += await rows.reap_all()
    assert len(ends) == 3
    reaped = ends[-1]
    assert (reaped.status, reaped.attempts) == (JobStatus.FAILED, 3)
    row = await rows.job(reaped.id)
    assert "died 3 times" in row.result["error"]
    assert row.completed_at is not None
    [next_one] = [job for job in await rows.jobs_of(LAW) if job.id != reaped.id]
    assert next_one.scheduled_at is not None  # the ladder of the law, not the row again
    assert (await rows.claim()).jobs == ()


async def test_an_empty_queue_has_no_orphans(rows: Rows) -> None:
    assert await rows.reap_all() == []


async def test_two_reapers_share_the_orphans(rows: Rows) -> None:
    for number in range(30):
        await rows.add(law_id=f"BWBR00001{number:02}")
    for job in (await rows.claim(slots=30)).jobs:
        await rows.age(job.id, 301)
    found: list[ReapedJob] = []

    async def reaper() -> None:
        found.extend(await rows.reap_all())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(reaper)
    assert len(found) == len({one.id for one in found}) == 30


async def test_a_reaper_does_not_wait_for_a_locked_orphan(rows: Rows) -> None:
    await rows.add()
    await rows.add(law_id=OTHER_LAW)
    locked, free = (await rows.claim(slots=2)).jobs
    for job in (locked, free):
        await rows.age(job.id, 301)

    async def hold(connection: Connection) -> None:
        await connection.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", locked.id)
        await connection.execute("SELECT pg_sleep(1.5)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rows.database.transact, hold)
        while not await rows.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"):
            await trio.lowlevel.checkpoint()
        assert [one.id for one in await rows.reap_all()] == [free.id]
    assert [one.id for one in await rows.reap_all()] == [locked.id]


# --- Aftercare --------------------------------------------------------------------------------------------------------


async def test_a_reaped_harvest_does_not_strand_its_law(rows: Rows) -> None:  # queue.md Q4
    await rows.add(max_attempts=2)
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.age(job.id, 301)
    await rows.reap_all()
    assert (await rows.law()).status is LawStatus.QUEUED
    again = await rows.claimed()
    await rows.queue.write(again.lease_held, harvest.begin)
    await rows.age(again.id, 301)
    await rows.reap_all()
    law = await rows.law()
    assert (law.status, law.harvest_fail_count) == (LawStatus.HARVEST_FAILED, 1)


async def test_a_reaped_enrich_job_does_not_strand_its_law(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    await rows.enrich(max_attempts=1, priority=70)
    job = await rows.claimed(JobType.ENRICH)
    await rows.set_law(LawStatus.ENRICHING)
    await rows.age(job.id, 301)
    await rows.reap_all()
    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (LawStatus.ENRICH_FAILED, 1)
    [_, again] = await rows.jobs_of(LAW, JobType.ENRICH)
    assert (again.priority, again.payload["provider"], again.max_attempts) == (70, "opencode", 3)


async def add_requester(rows: Rows) -> UUID:
    account: UUID = await rows.value(
        "INSERT INTO accounts (person_sub, email, name) VALUES ('sub', 'a@example.org', 'A') RETURNING id"
    )
    return account


async def test_exactly_one_failure_task_tells_the_person_who_asked(rows: Rows) -> None:  # QH-12
    account = await add_requester(rows)
    flow = {"deliver": "task", "requested_by": str(account), "provider": "claude", "traject_ref": "t-12345678"}
    last = await rows.add(JobType.ENRICH, "wet_a", flow, max_attempts=1)
    retried = await rows.add(JobType.ENRICH, "wet_b", flow, max_attempts=3)
    nobody = await rows.add(JobType.ENRICH, "wet_c", {"provider": "claude"}, max_attempts=1)
    for job in (last, retried):
        await rows.database.run(insert_blob, job.id, BlobKind.INPUT, "laws/x/law.yaml", "a: 1")
    for job in (await rows.claim(JobType.ENRICH, slots=3, count_budget=False)).jobs:
        await rows.age(job.id, 301)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(rows.reap_all)
    [task] = await rows.sql("SELECT job_id, title, task_type, payload::text AS payload FROM tasks")
    assert (task["job_id"], task["title"], task["task_type"]) == (last.id, "Verrijking mislukt: wet_a", "job_failed")
    assert "afgebroken" in task["payload"]
    assert await rows.sql("SELECT job_id FROM job_blobs") == await rows.sql("SELECT $1::uuid AS job_id", retried.id)
    assert (await rows.job(nobody.id)).status is JobStatus.FAILED
    assert await rows.sql("SELECT * FROM law_entries") == []


async def test_a_row_whose_aftercare_breaks_leaves_processing_without_it_and_stops_nobody(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(connection: Connection, ending: Ending) -> None:
        await connection.execute("SELECT 1/0")

    monkeypatch.setitem(AFTERCARE, JobType.ENRICH, TypeAftercare(breaks, breaks, breaks))
    await rows.enrich(max_attempts=1)
    await rows.add(max_attempts=1)
    bad = await rows.claimed(JobType.ENRICH)
    good = await rows.claimed()
    for job in (bad, good):
        await rows.age(job.id, 301)
    reaped = {one.id: one for one in await rows.reap_all()}
    assert (reaped[bad.id].status, reaped[bad.id].aftercare_failed) == (JobStatus.FAILED, True)
    assert (reaped[good.id].status, reaped[good.id].aftercare_failed) == (JobStatus.FAILED, False)
    assert (await rows.law()).status is LawStatus.HARVEST_FAILED
    assert await rows.reap_all(ReapRule()) == []
