"""Deleting old jobs: what goes, and above all what stays because somebody still points at it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from schema.retention import LOCK_KEY, Batch, prune_jobs
from schema.rows import Job, JobType, LawStatus
from schema.tasks import NewTask, TaskStatus, TaskType, create_task
from tests.kit.jobrows import LAW, OTHER_LAW, Rows


async def prune(rows: Rows, *, days: int = 30, **more: Any) -> Batch:
    return await rows.database.transact(prune_jobs, days=days, **more)


async def ended(rows: Rows, status: str = "completed", *, days: float = 60, **more: Any) -> Job:
    """A job that ended so long ago."""
    job = await rows.add(more.pop("job_type", JobType.DOCUMENT_CONVERT), **more)
    await rows.sql(
        """
        UPDATE jobs SET status = $2::text::job_status, attempts = 1, completed_at = now() - $3 * interval '1 day',
            started_at = now() - $3 * interval '1 day' - interval '1 minute' WHERE id = $1
        """,
        job.id,
        status,
        float(days),
    )
    return job


async def left(rows: Rows) -> set[UUID]:
    return {UUID(int=row["id"].int) for row in await rows.sql("SELECT id FROM jobs")}


async def test_ended_jobs_go_after_their_time_and_younger_ones_stay(rows: Rows) -> None:
    await ended(rows)
    await ended(rows, "failed")
    young = await ended(rows, days=29)
    assert await prune(rows) == Batch(deleted=2)
    assert await left(rows) == {young.id}


@pytest.mark.parametrize("status", ["pending", "processing"])
async def test_active_jobs_stay_however_old_they_are(rows: Rows, status: str) -> None:
    await ended(rows, status)
    assert (await prune(rows)).deleted == 0


async def test_jobs_that_a_law_links_to_stay(rows: Rows) -> None:
    harvest, enrich = await ended(rows, "failed", job_type=JobType.HARVEST), await ended(rows, job_type=JobType.ENRICH)
    await rows.set_law(LawStatus.ENRICHED)
    await rows.sql("UPDATE law_entries SET harvest_job_id = $1, enrich_job_id = $2", harvest.id, enrich.id)
    assert (await prune(rows)).deleted == 0
    await rows.sql("UPDATE law_entries SET enrich_job_id = NULL")
    assert (await prune(rows)).deleted == 1
    assert await left(rows) == {harvest.id}


async def test_jobs_with_an_open_task_stay_with_their_blobs_until_it_is_resolved(rows: Rows) -> None:
    job = await ended(rows)
    task = await rows.database.run(create_task, NewTask(TaskType.JOB_REVIEW, "Beoordelen", job_id=job.id))
    assert (await prune(rows)).deleted == 0
    await rows.sql("UPDATE tasks SET status = $1::text::task_status WHERE id = $2", TaskStatus.APPROVED.value, task.id)
    assert (await prune(rows)).deleted == 1
    assert await rows.value("SELECT job_id FROM tasks") is None  # the task itself is an audit trail and stays


@pytest.mark.parametrize("table", ["untranslatables", "markings"])
async def test_what_enrichment_reported_is_never_deleted_along_with_its_job(rows: Rows, table: str) -> None:
    job = await ended(rows, job_type=JobType.ENRICH, payload={"provider": "claude"})
    columns = "construct, reason" if table == "untranslatables" else "kind, reason"
    await rows.sql(
        f"INSERT INTO {table} (law_id, enrich_job_id, provider, article, {columns}) VALUES ('x', $1, 'claude', '1', 'a', 'b')",
        job.id,
    )
    assert (await prune(rows)).deleted == 0
    assert await rows.value(f"SELECT count(*) FROM {table}") == 1


async def test_a_table_of_a_later_platform_release_that_would_lose_rows_keeps_its_jobs(rows: Rows) -> None:
    kept, gone = await ended(rows), await ended(rows)
    await rows.sql('CREATE TABLE "Later one" ("Job" uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE)')
    await rows.sql("CREATE TABLE later_two (job_id uuid REFERENCES jobs (id))")
    await rows.sql('INSERT INTO "Later one" VALUES ($1)', kept.id)
    assert (await prune(rows)).deleted == 1
    assert await left(rows) == {kept.id}
    await rows.sql("INSERT INTO later_two VALUES ($1)", kept.id)
    await rows.sql('DELETE FROM "Later one"')
    assert (await prune(rows)).deleted == 0
    assert gone.id not in await left(rows)


async def test_references_that_may_be_forgotten_are_and_their_rows_stay(rows: Rows) -> None:
    old = await ended(rows)
    await rows.sql(
        "INSERT INTO harvest_versions (law_id, file_path, source_sha256, content_sha256, job_id) VALUES ('x', 'y', 'a', 'b', $1)",
        old.id,
    )
    await rows.sql(
        """
        INSERT INTO agent_calls (job_id, attempt, seq, law_id, provider, step, started_at, ended_at, verdict)
        VALUES ($1, 1, 1, 'x', 'claude', 'translate', now(), now(), 'ok')
        """,
        old.id,
    )
    assert (await prune(rows)).deleted == 1
    for table in ("harvest_versions", "agent_calls"):
        assert await rows.value(f"SELECT job_id FROM {table}") is None


async def test_the_last_harvest_of_a_law_stays_since_its_chain_ends_by_it(rows: Rows) -> None:  # D14, D15
    older = await ended(rows, job_type=JobType.HARVEST, days=90)
    newest = await ended(rows, job_type=JobType.HARVEST, days=60)
    failed = await ended(rows, "failed", job_type=JobType.HARVEST, days=40)
    other = await ended(rows, job_type=JobType.HARVEST, law_id=OTHER_LAW, days=90)
    assert (await prune(rows)).deleted == 2
    assert await left(rows) == {newest.id, other.id}
    assert {older.id, failed.id} & await left(rows) == set()


async def test_runs_that_the_hourly_budget_counts_stay(rows: Rows) -> None:  # D11
    counted = await ended(rows, job_type=JobType.ENRICH, payload={"provider": "claude"}, law_id="a")
    stamped = await ended(rows, job_type=JobType.ENRICH, payload={"provider": "claude"}, law_id="b")
    await rows.sql("UPDATE jobs SET started_at = now() - interval '5 minutes' WHERE id = $1", counted.id)
    await rows.sql("UPDATE jobs SET run_starts = ARRAY[now() - interval '50 minutes'] WHERE id = $1", stamped.id)
    assert (await prune(rows)).deleted == 0
    await rows.sql("UPDATE jobs SET run_starts = '{}', started_at = now() - interval '1 day'")
    assert (await prune(rows)).deleted == 2


async def test_a_pass_goes_through_the_whole_table_in_small_steps(rows: Rows) -> None:
    for number in range(23):
        await ended(rows, law_id=LAW if number % 3 else OTHER_LAW, status="pending" if number % 4 == 0 else "completed")
    batches = [await prune(rows, look_at=5)]
    while (last := batches[-1].last) is not None:
        batches.append(await prune(rows, look_at=5, after=last))
    assert len(batches) == 5
    assert sum(batch.deleted for batch in batches) == 17
    assert len(await left(rows)) == 6


async def test_two_janitors_take_turns(rows: Rows, database_url: str) -> None:
    await ended(rows)
    spot = UUID(int=7)

    async def other_janitor() -> Batch:
        connection: Any = await asyncpg.connect(database_url)
        try:
            async with connection.transaction():
                return await prune_jobs(connection, days=30, after=spot)
        finally:
            await connection.close()

    async def meanwhile(connection: Any) -> Batch:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
        return await other_janitor()

    assert await rows.database.transact(meanwhile) == Batch(last=spot, busy=True)
    assert (await prune(rows)).deleted == 1


@pytest.mark.claim("S1-062")
async def test_deleting_a_batch_reads_no_table_as_a_whole(rows: Rows) -> None:
    await rows.sql("INSERT INTO law_entries (law_id) SELECT 'L' || n FROM generate_series(1, 3000) AS n")
    await rows.sql("INSERT INTO tasks (task_type, title) SELECT 'job_failed', 'x' FROM generate_series(1, 3000)")
    await rows.sql(
        """
        INSERT INTO jobs (job_type, law_id, status, completed_at)
        SELECT 'document_convert', 'x', 'completed', now() - interval '90 days' FROM generate_series(1, 500)
        """
    )
    for table in ("law_entries", "tasks", "jobs"):
        await rows.sql(f"ANALYZE {table}")
    await rows.sql("SELECT pg_stat_force_next_flush()")
    scans = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname IN ('law_entries', 'tasks')"
    before = {row["relname"]: row["seq_scan"] for row in await rows.sql(scans)}
    assert (await prune(rows)).deleted == 500
    await rows.sql("SELECT pg_stat_force_next_flush()")
    after = {row["relname"]: row["seq_scan"] for row in await rows.sql(scans)}
    assert all(after[table] - before[table] < 10 for table in before), (before, after)
