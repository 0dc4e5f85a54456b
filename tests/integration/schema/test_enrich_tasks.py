"""The task flow of enrichment: blobs, review tasks and the next window (``enrich.md`` 5.8)."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from protocols.enrichpayload import read_enrich_payload
from protocols.failures import ContentFailure, InvalidInput, NoOutput, Transient
from schema import enrichtasks, tasks
from schema.enrichtasks import NOTHING_TO_REVIEW, NotComparable, ScopeTaken, TaskOutcome
from schema.queue.create import create_enrich_job_if_not_exists
from schema.rows import Job, JobRequest, JobStatus, JobType
from schema.tasks import Blob, BlobKind, TaskType
from tests.kit.jobrows import LAW, Rows

PATH = "laws/wet_a/law.yaml"
LAW_TEXT = """\
articles:
  - {number: '1', text: een}
  - {number: 2, text: twee}
  - {number: '3', text: drie}
"""


def proposal(*numbers: str) -> str:
    text = LAW_TEXT
    for number in numbers:
        for written in (f"number: '{number}'", f"number: {number}"):
            text = text.replace(f"{{{written}, ", f"{{{written}, machine_readable: {{}}, ")
    return text


@pytest.fixture
async def person(rows: Rows) -> UUID:
    account: UUID = await rows.value(
        "INSERT INTO accounts (person_sub, email, name) VALUES ('p', 'p@example.org', 'p') RETURNING id"
    )
    return account


@pytest.fixture
async def traject(rows: Rows, person: UUID) -> UUID:
    made: UUID = await rows.value("INSERT INTO trajects (name, created_by) VALUES ('proef', $1) RETURNING id", person)
    return made


async def claimed(rows: Rows, person: UUID, traject: UUID, source: str = LAW_TEXT, **more: Any) -> Job:
    payload = {
        "law_id": LAW,
        "yaml_path": PATH,
        "provider": "opencode",
        "deliver": "task",
        "requested_by": str(person),
        "traject_id": str(traject),
        "traject_ref": "proef-0d5b8f8e",
        "source_etag": 'W/"7"',
        **more,
    }
    job = await rows.add(JobType.ENRICH, LAW, payload, traject_ref="proef-0d5b8f8e", priority=80)
    await rows.database.run(tasks.insert_blob, job.id, BlobKind.INPUT, PATH, source)
    return await rows.claimed(JobType.ENRICH, count_budget=False)


async def complete(rows: Rows, job: Job, law: str | None, *, complete: bool = True, first: bool = True) -> None:
    files = [
        *([] if law is None else [Blob(PATH, law)]),
        Blob("laws/wet_a/.enrichment.yaml", "enrich_cursor: 2\n"),
        Blob("laws/wet_a/.enrichment-result.yaml", "law_id: a\n"),
        Blob("features/wet_a.feature", "Feature: a\n"),
    ]
    outcome = TaskOutcome(read_enrich_payload(job.payload), "opencode", tuple(files), complete, first)
    await rows.queue.complete(job.lease_held, {}, partial(enrichtasks.settle, outcome=outcome))


async def open_tasks(rows: Rows, person: UUID) -> list[tuple[str, dict[str, Any]]]:
    found = await rows.database.run(tasks.list_open_tasks_for_account, person)
    assert all(task.task_type is TaskType.JOB_REVIEW for task in found)
    return sorted((task.title, task.payload) for task in found)


@pytest.mark.claim("S0-060", "S0-063")
async def test_a_law_in_one_window_gets_a_task_for_each_entry_that_changed(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject)

    await complete(rows, job, proposal("1", "2"))

    found = await open_tasks(rows, person)
    assert [title for title, _ in found] == [
        f"Verrijking beoordelen: {LAW} artikel 1",
        f"Verrijking beoordelen: {LAW} artikel 2",
    ]
    assert found[0][1] == {
        "law_id": LAW,
        "yaml_path": PATH,
        "traject_ref": "proef-0d5b8f8e",
        "source_etag": 'W/"7"',
        "provider": "opencode",
        "article": "1",
    }
    blobs = await rows.sql("SELECT kind, path FROM job_blobs WHERE job_id = $1 ORDER BY path", job.id)
    assert {row["kind"] for row in blobs} == {"result"}
    assert len(blobs) == 4
    [task, *_] = await rows.database.run(tasks.list_open_tasks_for_account, person)
    assert (task.traject_id, task.job_id) == (traject, job.id)
    assert await rows.value("SELECT count(*) FROM law_entries") == 0


async def test_a_law_that_did_not_change_needs_no_review(rows: Rows, person: UUID, traject: UUID) -> None:
    job = await claimed(rows, person, traject)

    await complete(rows, job, LAW_TEXT)

    assert await open_tasks(rows, person) == []
    assert (await rows.job(job.id)).status is JobStatus.COMPLETED


@pytest.mark.claim("S0-061", "S0-062")
async def test_the_next_window_begins_with_the_proposal_and_the_cursor_of_this_one(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject)
    await complete(rows, job, proposal("1"), complete=False)

    following = await rows.claimed(JobType.ENRICH, count_budget=False)
    assert following.payload == job.payload
    assert (following.priority, following.traject_ref, following.max_attempts) == (80, job.traject_ref, 3)
    given = {blob.path: blob.content for blob in await rows.database.run(enrichtasks.load_input, following)}
    assert given == {
        PATH: proposal("1"),
        "laws/wet_a/.enrichment.yaml": "enrich_cursor: 2\n",
        "laws/wet_a/.enrichment-result.yaml": "law_id: a\n",
    }
    await complete(rows, following, proposal("1", "3"), first=False)

    titles = [title for title, _ in await open_tasks(rows, person)]
    assert titles == [f"Verrijking beoordelen: {LAW} artikel {number}" for number in ("1", "3")]
    assert await rows.value("SELECT count(DISTINCT job_id) FROM job_blobs WHERE kind = 'result'") == 2


@pytest.mark.claim("S0-064")
async def test_the_last_window_may_name_entries_of_earlier_ones(rows: Rows, person: UUID, traject: UUID) -> None:
    job = await claimed(rows, person, traject, source=proposal("1"))
    closing = proposal("1", "3").replace("machine_readable: {}", "machine_readable: {a: 1}", 1)

    await complete(rows, job, closing, first=False)

    assert [document["article"] for _, document in await open_tasks(rows, person)] == ["1", "3"]


@pytest.mark.claim("S0-068", "S0-069")
@pytest.mark.parametrize(("done", "first"), [(False, True), (False, False), (True, False)])
async def test_one_of_several_windows_that_cannot_be_compared_is_tried_again(
    rows: Rows, person: UUID, traject: UUID, done: bool, first: bool
) -> None:
    job = await claimed(rows, person, traject, source="articles: [")

    with pytest.raises(NotComparable) as failure:
        await complete(rows, job, proposal("1"), complete=done, first=first)

    assert isinstance(failure.value, Transient)
    assert await open_tasks(rows, person) == []
    assert await rows.value("SELECT kind FROM job_blobs WHERE job_id = $1", job.id) == "input"


async def test_a_single_window_that_cannot_be_compared_is_reviewed_as_a_whole(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject, source="geen wet")

    await complete(rows, job, proposal("1"))

    [(title, document)] = await open_tasks(rows, person)
    assert title == f"Verrijking beoordelen: {LAW}"
    assert "article" not in document


@pytest.mark.claim("S0-065")
async def test_a_new_law_is_shown_once_and_whole(rows: Rows, person: UUID, traject: UUID) -> None:
    job = await claimed(rows, person, traject, new_law=True)
    await complete(rows, job, proposal("1"), complete=False)
    assert await open_tasks(rows, person) == []

    following = await rows.claimed(JobType.ENRICH, count_budget=False)
    assert following.payload["new_law"] is True
    await complete(rows, following, proposal("1", "2"), first=False)

    [(title, document)] = await open_tasks(rows, person)
    assert (title, document["kind"]) == (f"Nieuwe wet beoordelen: {LAW}", "law_create")


@pytest.mark.claim("S0-066")
async def test_a_new_law_of_which_a_window_fails_for_good_leaves_one_failure_task(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject, new_law=True)
    await complete(rows, job, proposal("1"), complete=False)
    following = await rows.claimed(JobType.ENRICH, count_budget=False)

    await rows.queue.fail(following.lease_held, ContentFailure("niets"))

    [task] = await rows.database.run(tasks.list_open_tasks_for_account, person)
    assert (task.task_type, task.title) == (TaskType.JOB_FAILED, f"Wet aanmaken mislukt: {LAW}")
    assert await rows.value("SELECT count(*) FROM job_blobs WHERE job_id = $1", following.id) == 0


@pytest.mark.parametrize("files", [[], [Blob("features/a.feature", "x")], [Blob("laws/wet_a/.enrichment.yaml", "x")]])
async def test_a_run_without_a_law_to_review_is_tried_again(
    rows: Rows, person: UUID, traject: UUID, files: list[Blob]
) -> None:
    job = await claimed(rows, person, traject)
    outcome = TaskOutcome(read_enrich_payload(job.payload), "opencode", tuple(files), True, True)

    with pytest.raises(NoOutput, match=NOTHING_TO_REVIEW):
        await rows.queue.complete(job.lease_held, {}, partial(enrichtasks.settle, outcome=outcome))


async def test_a_law_under_another_name_is_accepted(rows: Rows, person: UUID, traject: UUID) -> None:
    job = await claimed(rows, person, traject)
    files = (Blob("laws/wet_a/2025.yaml", proposal("1")),)
    outcome = TaskOutcome(read_enrich_payload(job.payload), "opencode", files, True, True)

    await rows.queue.complete(job.lease_held, {}, partial(enrichtasks.settle, outcome=outcome))

    assert [document["article"] for _, document in await open_tasks(rows, person)] == ["1"]


async def test_a_rival_of_the_same_scope_makes_the_window_fail_and_keeps_its_input(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject)
    outcome = TaskOutcome(read_enrich_payload(job.payload), "opencode", (Blob(PATH, LAW_TEXT),), False, True)

    async def with_rival(connection: Any, row: Job) -> None:
        await create_enrich_job_if_not_exists(
            connection,
            JobRequest(JobType.ENRICH, LAW, payload=job.payload, traject_ref=job.traject_ref),
        )
        await enrichtasks.settle(connection, row, outcome)

    with pytest.raises(ScopeTaken):
        await rows.queue.complete(job.lease_held, {}, with_rival)
    assert (await rows.job(job.id)).status is JobStatus.PROCESSING
    assert [blob.path for blob in await rows.database.run(enrichtasks.load_input, job)] == [PATH]


async def test_a_person_who_is_gone_gets_no_task_and_the_job_completes(rows: Rows, person: UUID, traject: UUID) -> None:
    job = await claimed(rows, person, traject)
    await rows.sql("DELETE FROM trajects")
    await rows.sql("DELETE FROM accounts")

    await complete(rows, job, proposal("1"))

    assert (await rows.job(job.id)).status is JobStatus.COMPLETED
    assert await rows.value("SELECT count(*) FROM tasks") == 0


async def test_a_job_without_input_or_with_a_path_that_leaves_its_folder_is_refused(
    rows: Rows, person: UUID, traject: UUID
) -> None:
    job = await claimed(rows, person, traject)
    await rows.sql("UPDATE job_blobs SET path = 'laws/.git/config'")
    with pytest.raises(InvalidInput):
        await rows.database.run(enrichtasks.load_input, job)
    await rows.sql("DELETE FROM job_blobs")
    with pytest.raises(ContentFailure, match="heeft geen input-blob"):
        await rows.database.run(enrichtasks.load_input, job)
