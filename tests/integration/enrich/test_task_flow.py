"""A law in blobs walks through the same windows and goes to the person who asked (``enrich.md`` 5.8)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from protocols.lawyaml import load_law
from schema import tasks
from schema.rows import Job, JobStatus, JobType
from schema.tasks import BlobKind, TaskType
from tests.kit.enrichbench import PATH, EnrichBench, Scene, law, obedient
from tests.kit.jobrows import LAW


@pytest.fixture
async def person(bench: EnrichBench) -> UUID:
    account: UUID = await bench.rows.value(
        "INSERT INTO accounts (person_sub, email, name) VALUES ('p', 'p@example.org', 'p') RETURNING id"
    )
    return account


async def add(bench: EnrichBench, person: UUID, source: str | None, **more: Any) -> Job:
    traject = await bench.rows.value("INSERT INTO trajects (name, created_by) VALUES ('t', $1) RETURNING id", person)
    payload = {
        "law_id": LAW,
        "yaml_path": PATH,
        "provider": "claude",
        "deliver": "task",
        "requested_by": str(person),
        "traject_id": str(traject),
        "traject_ref": "t-12345678",
        **more,
    }
    job = await bench.rows.add(JobType.ENRICH, LAW, payload, traject_ref="t-12345678")
    if source is not None:
        await bench.rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, PATH, source)
    return job


async def open_tasks(bench: EnrichBench, person: UUID) -> list[tuple[TaskType, str]]:
    found = await bench.rows.database.run(tasks.list_open_tasks_for_account, person)
    return sorted((task.task_type, task.title) for task in found)


@pytest.mark.claim("S0-060", "S0-061", "S0-062", "S0-063", "S0-160")
async def test_each_window_is_a_job_with_its_own_review_tasks_and_nothing_is_pushed(
    bench: EnrichBench, person: UUID
) -> None:
    bench.more["window_limit"] = 2
    before = bench.remote.tip()
    await add(bench, person, law(3))

    first = await bench.work_off()
    assert first.status is JobStatus.COMPLETED, first.result
    assert [title for _, title in await open_tasks(bench, person)] == [
        f"Verrijking beoordelen: {LAW} artikel {number}" for number in ("1", "2")
    ]
    last = await bench.work_off()
    assert (last.status, last.result["enrich_cursor"], last.result["law_complete"]) == (JobStatus.COMPLETED, 3, True)
    titles = [title for _, title in await open_tasks(bench, person)]
    assert titles == [f"Verrijking beoordelen: {LAW} artikel {number}" for number in ("1", "2", "3")]
    blobs = await bench.rows.database.run(tasks.load_blobs, last.id, BlobKind.RESULT)
    proposal = next(blob for blob in blobs if blob.path == PATH)
    assert all("machine_readable" in entry for entry in load_law(proposal.content)["articles"])
    assert (bench.remote.tip(), bench.remote.tip("enrich/claude")) == (before, None)
    assert await bench.rows.value("SELECT count(*) FROM law_entries") == 0
    assert bench.works[-1].reports[-1]["worker"]["window"] == {"from": 2, "to": 3}


async def test_without_input_the_person_is_told_at_once(bench: EnrichBench, person: UUID) -> None:
    await add(bench, person, None)

    job = await bench.work_off()

    assert job.status is JobStatus.FAILED
    assert "heeft geen input-blob" in job.result["error"]
    assert await open_tasks(bench, person) == [(TaskType.JOB_FAILED, f"Verrijking mislukt: {LAW}")]


@pytest.mark.claim("S0-065")
async def test_a_new_law_is_reviewed_once_it_is_whole(bench: EnrichBench, person: UUID) -> None:
    bench.more["window_limit"] = 2
    await add(bench, person, law(3), new_law=True)

    await bench.work_off()
    assert await open_tasks(bench, person) == []
    await bench.work_off()

    assert await open_tasks(bench, person) == [(TaskType.JOB_REVIEW, f"Nieuwe wet beoordelen: {LAW}")]


async def test_a_job_that_runs_out_of_time_tells_the_person_in_their_language(bench: EnrichBench, person: UUID) -> None:
    bench.more["job_timeout_s"] = 40.0
    bench.more["llm_timeout_s"] = 1.0

    def hangs(scene: Scene) -> None:
        obedient(scene)
        scene.hang = True

    bench.agent = hangs
    await add(bench, person, law(3))

    job = await bench.work_off()

    assert (job.status, job.result["kind"]) == (JobStatus.PENDING, "timeout")
    assert await open_tasks(bench, person) == []
    bench.agent = obedient
    await bench.rows.make_due(job.id)
    again = await bench.work_off()
    assert again.status is JobStatus.COMPLETED, again.result
    assert len(await open_tasks(bench, person)) == 3


async def test_a_job_for_a_traject_that_would_be_pushed_is_refused(bench: EnrichBench) -> None:
    job = await bench.enrich(traject_ref="t-12345678")

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "foreign_target")
    assert "review-taak" in job.result["error"]
    assert bench.runner.scenes == []
