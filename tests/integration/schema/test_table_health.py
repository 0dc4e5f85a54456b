"""The queue stays fast: index use, in-page updates, nothing in the way of a claim (D4, CL-01)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from actors.ports.database import DatabaseSettings, open_database
from schema.connection import Connection
from schema.queue import budget as budget_module
from schema.queue import claim as claim_module
from schema.queue import reap as reap_module
from schema.queue import survey as survey_module
from schema.queue import views
from schema.rows import JobType
from tests.kit.jobrows import Rows


class RolledBack(Exception):
    pass


async def fill(rows: Rows, job_type: str, count: int, *, provider: str | None = None, later: bool = False) -> None:
    await rows.sql(
        """
        INSERT INTO jobs (job_type, law_id, payload, priority, scheduled_at)
        SELECT $1::text::job_type, 'BWBR' || lpad(n::text, 7, '0'),
               CASE WHEN $3::text IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('provider', $3::text) END,
               (n % 100)::int, CASE WHEN $4 THEN now() + interval '1 hour' END
        FROM generate_series(1, $2) AS n
        """,
        job_type,
        count,
        provider,
        later,
    )


async def plan(rows: Rows, query: str, *literals: str) -> str:
    """The plan that our sessions run, which is made without a look at the arguments; what it wrote is rolled back."""

    async def explain(connection: Connection) -> None:
        assert await connection.fetchval("SHOW plan_cache_mode") == "force_generic_plan"
        await connection.execute(f"PREPARE it AS {query}")
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE it ({', '.join(literals)})")
        await connection.execute("DEALLOCATE it")
        raise RolledBack(text)

    with pytest.raises(RolledBack) as caught:
        await rows.database.transact(explain)
    return str(caught.value)


def nodes(document: str) -> list[dict[str, Any]]:
    """Every node of a plan."""
    found: list[dict[str, Any]] = []

    def walk(node: dict[str, Any]) -> None:
        found.append(node)
        for child in node.get("Plans", ()):
            walk(child)

    walk(json.loads(document)[0]["Plan"])
    return found


def take_arguments(job_type: JobType) -> tuple[str, ...]:
    """Five slots for one bucket without provider."""
    sources = (f"ARRAY['{job_type}']", "ARRAY['']", "ARRAY[0]", "ARRAY[0]", "ARRAY[5]", "ARRAY[5]", "ARRAY[false]")
    return (*sources, "ARRAY[NULL]::text[]", "0", f"'{uuid4()}'", "'test'", "NULL")


@pytest.mark.claim("S1-059")
@pytest.mark.parametrize("adopted", [False, True])
async def test_a_claim_walks_its_own_index_and_touches_few_rows_whatever_waits_beside_it(
    rows: Rows, adopted: bool
) -> None:
    if adopted:  # the platform's own queue index stays and must not lure the planner
        await rows.sql(
            "CREATE INDEX idx_jobs_queue ON jobs (priority DESC, created_at ASC, scheduled_at) WHERE status = 'pending'"
        )
    await fill(rows, "document_convert", 20_000)
    await fill(rows, "enrich", 3_000, provider="claude", later=True)
    await fill(rows, "harvest", 50)
    for analyzed in (False, True):
        if analyzed:
            await rows.sql("ANALYZE jobs")
        found = nodes(await plan(rows, claim_module._TAKE, *take_arguments(JobType.HARVEST)))
        used = {node["Index Name"] for node in found if "Index Name" in node}
        assert "idx_jobs_claim" in used
        assert "idx_jobs_queue" not in used
        assert not [node for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"]
        assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 400


async def test_the_look_around_before_a_claim_does_not_read_the_queue(rows: Rows) -> None:
    await fill(rows, "document_convert", 20_000)
    await fill(rows, "enrich", 5_000, provider="claude")
    await rows.sql("ANALYZE jobs")
    found = nodes(await plan(rows, survey_module._SURVEY, "ARRAY['document_convert', 'enrich']", "NULL", "200"))
    assert not [node for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"]
    assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 200


async def test_the_search_for_orphans_reads_running_rows_only(rows: Rows) -> None:
    await fill(rows, "document_convert", 20_000)
    await rows.sql("ANALYZE jobs")
    query = f"SELECT id FROM jobs WHERE {reap_module._ORPHANED} ORDER BY started_at NULLS FIRST, id LIMIT $3"
    found = nodes(await plan(rows, query, "300", "1800", "20"))
    assert not [node for node in found if node["Node Type"] == "Seq Scan"]


async def test_the_hourly_count_reads_the_runs_of_this_hour_only(rows: Rows) -> None:
    await fill(rows, "document_convert", 5_000, provider="claude")
    await rows.sql("UPDATE jobs SET status = 'completed', started_at = now() - interval '1 day'")
    await rows.sql("VACUUM ANALYZE jobs")
    found = nodes(await plan(rows, budget_module._COUNT, "ARRAY['opencode']", "true", "NULL"))
    assert not [node for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"]


async def whole_reads(rows: Rows) -> int:
    """How often the queue was read as a whole so far. The figures of a session arrive when it asks for that."""
    await rows.sql("SELECT pg_stat_force_next_flush()")
    return int(await rows.value("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'jobs'"))


@pytest.mark.claim("S0-158")
@pytest.mark.parametrize("beside", ["history", "later", "type", "provider"])
async def test_a_session_plans_once_and_keeps_to_the_index_when_the_queue_has_grown(rows: Rows, beside: str) -> None:
    # the plan is made on an empty table, where reading all of it costs nothing; statistics make it anew
    assert await rows.value("SHOW plan_cache_mode") == "force_generic_plan"
    served = JobType.LAW_CONVERT if beside == "provider" else JobType.TRAJECT_HARVEST
    provider = "opencode" if beside == "provider" else None
    for _ in range(8):
        await fill(rows, served.value, 1, provider=provider)
        await rows.claimed(served)
    match beside:
        case "history":
            await fill(rows, "document_convert", 20_000)
            await rows.sql(
                "UPDATE jobs SET status = 'completed', completed_at = now() WHERE job_type = 'document_convert'"
            )
        case "later":
            await fill(rows, served.value, 20_000, later=True)
        case "type":
            await fill(rows, "document_convert", 20_000)
        case _:
            await fill(rows, served.value, 20_000, provider="claude")
    await fill(rows, served.value, 2_000, provider=provider)
    await rows.sql("ANALYZE jobs")
    before = await whole_reads(rows)
    for _ in range(10):
        await rows.claimed(served)
    assert await whole_reads(rows) == before


async def test_watching_the_queue_costs_what_is_active_and_not_what_has_ended(rows: Rows) -> None:
    await fill(rows, "document_convert", 20_000)
    await rows.sql("UPDATE jobs SET status = 'completed', completed_at = now()")
    await fill(rows, "harvest", 50)
    await fill(rows, "harvest", 0, later=True)
    await rows.claimed()
    await rows.sql("VACUUM ANALYZE jobs")
    before = await whole_reads(rows)
    counts = await rows.database.run(views.count_active)
    assert {(count.status.value, count.count) for count in counts} == {("pending", 49), ("processing", 1)}
    assert len(await rows.database.run(views.held_jobs, 20)) == 1
    assert await rows.database.run(views.recent_failures, 5) == []
    assert await rows.database.run(views.count_pending_runs, "claude", "opencode") == 0
    assert await whole_reads(rows) == before


async def test_a_session_that_asks_once_plans_for_its_question(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, generic_plans=False)
    async with open_database(settings) as database:
        assert await Rows(database).value("SHOW plan_cache_mode") == "auto"


@pytest.mark.claim("S0-009")
async def test_beats_and_progress_stay_in_their_page(rows: Rows) -> None:  # CL-01, D4
    for number in range(20):
        await rows.add(law_id=f"BWBR00000{number:02}")
    leases = [job.lease_held for job in (await rows.claim(slots=20)).jobs]
    await rows.sql("VACUUM jobs")
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"
    await rows.sql("SELECT pg_stat_force_next_flush()")
    [before] = await rows.sql(counts)
    for number in range(40):
        await rows.queue.beat(leases)
        await rows.queue.write_progress({lease: {"step": number} for lease in leases})
    updates = hot = 0
    while updates < 1600:  # the statistics of other connections arrive when those are idle
        await rows.sql("SELECT pg_stat_force_next_flush()")
        await rows.queue.beat(leases[:1])
        [after] = await rows.sql(counts)
        updates = after["n_tup_upd"] - before["n_tup_upd"]
        hot = after["n_tup_hot_upd"] - before["n_tup_hot_upd"]
    assert hot / updates > 0.9


async def test_vacuum_comes_early_to_the_hot_table(rows: Rows) -> None:
    options = await rows.value("SELECT reloptions FROM pg_class WHERE relname = 'jobs'")
    assert {"fillfactor=80", "autovacuum_vacuum_scale_factor=0.01"} <= set(options)
