"""Asking for an enrichment (``queue.md`` 7.1, D55)."""

from __future__ import annotations

import pytest

from protocols.failures import InvalidInput
from schema.enrichrequests import EnrichAnswer, EnrichExhausted, EnrichRequest, NotHarvested, request_enrich
from schema.errors import LawNotFound
from schema.rows import JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, Rows

PATH = "regulation/nl/wet/a/2025-01-01.yaml"


async def ask(rows: Rows, law: str = LAW, provider: str = "claude", **more: object) -> EnrichAnswer:
    return await rows.database.transact(request_enrich, EnrichRequest(law, provider, **more))  # type: ignore[arg-type]


async def harvested(rows: Rows, path: str = PATH) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    await rows.sql("UPDATE law_entries SET slug = 'wet_a'")
    await rows.sql(
        "INSERT INTO harvest_versions (law_id, file_path, source_sha256, content_sha256) VALUES ($1, $2, '', '')",
        LAW,
        path,
    )


async def test_a_request_names_the_file_of_the_last_harvest_and_finds_a_law_by_slug(rows: Rows) -> None:
    await harvested(rows, "regulation/nl/wet/a/2024-01-01.yaml")
    await rows.sql("UPDATE harvest_versions SET harvested_at = now() - interval '1 day'")
    await harvested(rows)

    answer = await ask(rows, "wet_a", priority=60)

    assert answer.created
    assert answer.job.payload == {"law_id": LAW, "yaml_path": PATH, "provider": "claude"}
    assert answer.job.priority == 60
    law = await rows.law()
    assert (law.enrich_job_id, law.status) == (answer.job.id, LawStatus.HARVESTED)


async def test_the_file_of_an_existing_workers_harvest_is_found_in_its_result(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    job = await rows.add()
    await rows.sql(
        "UPDATE jobs SET status = 'completed', completed_at = now(), result = jsonb_build_object('file_path', $2::text) "
        "WHERE id = $1",
        job.id,
        PATH,
    )

    assert (await ask(rows)).job.payload["yaml_path"] == PATH


async def test_a_second_request_meets_the_first_and_hands_it_the_restart(rows: Rows) -> None:
    await harvested(rows)
    first = await ask(rows, priority=30)
    await rows.sql("UPDATE jobs SET scheduled_at = now() + interval '1 hour'")

    second = await ask(rows, priority=70, restart=True)

    assert (second.created, second.answers, second.job.id) == (False, True, first.job.id)
    assert second.job.payload == {"law_id": LAW, "yaml_path": PATH, "provider": "claude", "restart": True}
    assert (second.job.priority, second.job.scheduled_at) == (70, None)
    other = await ask(rows, provider="opencode")
    assert other.created


async def test_a_running_window_is_left_alone(rows: Rows) -> None:
    await harvested(rows)
    await ask(rows)
    running = await rows.claimed(JobType.ENRICH, count_budget=False)

    answer = await ask(rows, restart=True)

    assert (answer.created, answer.answers, answer.job.id) == (False, False, running.id)
    assert (await rows.job(running.id)).status is JobStatus.PROCESSING
    assert "restart" not in (await rows.job(running.id)).payload


async def test_what_cannot_be_enriched_says_what_to_do(rows: Rows) -> None:
    with pytest.raises(LawNotFound):
        await ask(rows)
    await rows.set_law(LawStatus.HARVESTED)
    with pytest.raises(NotHarvested, match="harvest"):
        await ask(rows)
    await harvested(rows)
    await rows.set_law(LawStatus.ENRICH_EXHAUSTED)
    with pytest.raises(EnrichExhausted, match="laws reset"):
        await ask(rows)
    with pytest.raises(InvalidInput):
        EnrichRequest(LAW, "claude", yaml_path="../x")
