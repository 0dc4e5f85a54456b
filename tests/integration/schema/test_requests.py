"""What people ask of the queue: harvest, cancel, retry (queue.md 7.1, 10.3; D26)."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import uuid4

import pytest
import trio
from attrs import evolve

from protocols.failures import InvalidInput, Permanent
from schema import laws
from schema.connection import Connection
from schema.errors import JobNotFound, JobNotWaiting
from schema.queue import create_harvest_job_if_not_exists
from schema.requests import (
    AlreadyQueued,
    Created,
    Exhausted,
    HarvestAnswer,
    HarvestRequest,
    cancel,
    request_harvest,
    retry,
)
from schema.rows import JobRequest, JobStatus, JobType, LawStatus
from schema.tasks import BlobKind, insert_blob
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

TODAY = dt.date(2026, 3, 10)


async def ask(rows: Rows, **more: Any) -> HarvestAnswer:
    request = evolve(HarvestRequest(LAW, today=TODAY), **more)
    return await rows.database.transact(request_harvest, request)


async def test_a_request_makes_a_job_and_books_it_with_the_law(rows: Rows) -> None:
    answer = await ask(rows)
    assert isinstance(answer, Created)
    assert (answer.job.priority, answer.job.payload, answer.job.status) == (50, {"bwb_id": LAW}, JobStatus.PENDING)
    law = await rows.law()
    assert (law.status, law.harvest_job_id) == (LawStatus.QUEUED, answer.job.id)


async def test_priority_date_limits_name_and_slug_are_stored(rows: Rows) -> None:
    answer = await ask(
        rows, priority=80, date="2025-01-01", max_size_mb=200, max_depth=3, no_follow=True, law_name="Naam", slug="naam"
    )
    assert isinstance(answer, Created)
    assert (answer.job.priority, answer.job.payload) == (
        80,
        {"bwb_id": LAW, "date": "2025-01-01", "max_size_mb": 200, "max_depth": 3, "no_follow": True},
    )
    law = await rows.law()
    assert (law.law_name, law.slug) == ("Naam", "naam")


async def test_a_decentral_regulation_gets_a_decentral_payload(rows: Rows) -> None:
    answer = await ask(rows, law_id="CVDR100394_2")
    assert isinstance(answer, Created)
    assert answer.job.payload == {"cvdr_id": "CVDR100394_2"}


async def test_a_second_request_is_told_of_the_first(rows: Rows) -> None:
    first = await ask(rows)
    assert isinstance(first, Created)
    again = await ask(rows)
    assert isinstance(again, AlreadyQueued)
    assert (again.job.id, again.other_date) == (first.job.id, False)
    dated = await ask(rows, date="2025-01-01")
    assert isinstance(dated, AlreadyQueued)
    assert (dated.job.id, dated.other_date) == (first.job.id, True)
    assert len(await rows.jobs_of(LAW)) == 1


async def test_a_request_makes_a_waiting_job_due_and_lifts_its_priority_but_never_lowers_it(rows: Rows) -> None:  # D26
    waiting = await rows.add(priority=30, delay_s=3600)
    answer = await ask(rows, priority=80)
    assert isinstance(answer, AlreadyQueued)
    assert (answer.job.id, answer.job.priority, answer.job.scheduled_at) == (waiting.id, 80, None)
    answer = await ask(rows, priority=10)
    assert isinstance(answer, AlreadyQueued)
    assert answer.job.priority == 80
    running = await rows.claimed()
    answer = await ask(rows, priority=100)
    assert isinstance(answer, AlreadyQueued)
    assert (answer.job.id, answer.job.priority, answer.job.status) == (running.id, 80, JobStatus.PROCESSING)


async def test_after_its_job_ended_a_law_can_be_asked_for_again(rows: Rows) -> None:
    await ask(rows)
    job = await rows.claimed()
    await rows.queue.complete(job.lease_held, None)
    assert isinstance(await ask(rows), Created)


async def test_an_exhausted_law_is_refused_and_stays_as_it_is(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVEST_EXHAUSTED)
    assert await ask(rows) == Exhausted(LAW)
    assert await rows.jobs_of(LAW) == []
    assert (await rows.law()).status is LawStatus.HARVEST_EXHAUSTED


@pytest.mark.parametrize(
    "wrong",
    [
        {"date": "not-a-date"},
        {"date": "2025-13-01"},
        {"date": "2025-02-30"},
        {"date": "9999-01-01"},
        {"date": "2026-03-11"},
        {"date": "20250101"},
        {"law_id": "BWBRxyz"},
        {"law_id": ""},
        {"law_id": "BWBR0018451\x00"},
        {"max_depth": -1},
    ],
)
async def test_a_bad_request_is_refused_before_anything_is_written(rows: Rows, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await ask(rows, **wrong)
    assert await rows.sql("SELECT id FROM jobs") == await rows.sql("SELECT law_id FROM law_entries") == []


async def test_today_is_not_in_the_future(rows: Rows) -> None:
    assert isinstance(await ask(rows, date="2026-03-10"), Created)


@pytest.mark.parametrize("status", [LawStatus.HARVESTING, LawStatus.ENRICHING])
async def test_a_request_does_not_hide_that_work_is_under_way(rows: Rows, status: LawStatus) -> None:
    await rows.set_law(status)
    assert isinstance(await ask(rows), Created)
    assert (await rows.law()).status is status


# CL-03
async def test_of_many_equal_requests_one_makes_the_job_and_the_others_learn_its_id(rows: Rows) -> None:
    answers: list[HarvestAnswer] = []

    async def one() -> None:
        answers.append(await ask(rows))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
    [made] = [answer for answer in answers if isinstance(answer, Created)]
    others = [answer for answer in answers if isinstance(answer, AlreadyQueued)]
    assert {answer.job.id for answer in others} == {made.job.id}
    assert len(others) == 9


async def test_a_follow_up_that_takes_no_lock_and_wins_the_race_is_the_answer(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look finds nothing, the insert meets the row of a writer that came in between."""
    name, real = "schema.requests.create_harvest_job_if_not_exists", create_harvest_job_if_not_exists

    async def late(connection: Connection, request: JobRequest) -> object:
        monkeypatch.setattr(name, real)
        await connection.execute("INSERT INTO jobs (job_type, law_id, priority) VALUES ('harvest', $1, 30)", LAW)
        return await real(connection, request)

    monkeypatch.setattr(name, late)
    answer = await ask(rows, priority=80)
    assert isinstance(answer, AlreadyQueued)
    assert answer.job.priority == 80


# --- Cancel and retry -------------------------------------------------------------------------------------------------


async def test_an_ended_or_unknown_job_cannot_be_cancelled(rows: Rows) -> None:
    with pytest.raises(JobNotFound):
        await rows.database.transact(cancel, uuid4())
    await rows.add()
    job = await rows.claimed()
    await rows.queue.complete(job.lease_held, None)
    with pytest.raises(JobNotWaiting, match="completed"):
        await rows.database.transact(cancel, job.id)


async def test_the_holder_of_a_cancelled_job_is_told_on_the_control_channel(rows: Rows) -> None:
    subscription = rows.database.listen(["regelrecht_jobs"])
    await subscription.wakeups.receive()
    await rows.add()
    job = await rows.claimed()
    await rows.database.transact(cancel, job.id)
    with trio.fail_after(5):
        assert await subscription.control.receive() == f'{{"cancel":"{job.id}"}}'


async def test_a_cancelled_pending_conversion_leaves_neither_blobs_nor_the_upload(rows: Rows) -> None:
    upload = await rows.value(
        """
        INSERT INTO document_uploads (traject_ref, filename, content_type, bytes)
        VALUES ('t-12345678', 'a.docx', 'application/msword', 'x') RETURNING id
        """
    )
    job = await rows.add(
        JobType.DOCUMENT_CONVERT,
        "doc:t/a.md",
        {"deliver": "task", "requested_by": str(uuid4()), "upload_id": str(upload)},
    )
    await rows.database.run(insert_blob, job.id, BlobKind.INPUT, "a.md", "x")
    await rows.database.transact(cancel, job.id)
    assert await rows.value("SELECT count(*) FROM job_blobs") == 0
    assert await rows.value("SELECT count(*) FROM document_uploads") == 0
    assert await rows.value("SELECT count(*) FROM tasks") == 0  # nobody there to show it to


async def test_a_failed_job_is_tried_again_as_a_new_row(rows: Rows) -> None:
    await rows.add(priority=70, payload={"bwb_id": LAW, "date": "2025-01-01"})
    await rows.queue.hand_back((await rows.claimed()).lease_held, why="drain")
    job = await rows.claimed()
    await rows.queue.fail(job.lease_held, Permanent("no such law"))
    new = await rows.database.transact(retry, job.id)
    assert new.id != job.id
    assert (new.priority, new.payload, new.max_attempts, new.attempts) == (
        70,
        {"bwb_id": LAW, "date": "2025-01-01"},
        3,
        0,
    )
    assert (await rows.job(job.id)).status is JobStatus.FAILED
    law = await rows.law()
    assert (law.status, law.harvest_job_id) == (LawStatus.QUEUED, new.id)
    with pytest.raises(JobNotWaiting, match="queued or running"):
        await rows.database.transact(retry, job.id)


async def test_a_waiting_job_is_made_due_and_a_running_one_is_left_alone(rows: Rows) -> None:
    waiting = await rows.add(delay_s=3600)
    assert (await rows.database.transact(retry, waiting.id)).scheduled_at is None
    job = await rows.claimed()
    assert job.id == waiting.id
    for status in ("processing", "completed"):
        await rows.sql("UPDATE jobs SET status = $1::text::job_status", status)
        with pytest.raises(JobNotWaiting, match=status):
            await rows.database.transact(retry, job.id)


async def test_a_failed_enrich_job_and_a_failed_conversion_are_tried_again(rows: Rows) -> None:
    enrich = await rows.enrich("claude")
    bare = await rows.enrich(None, law_id=OTHER_LAW)
    document = await rows.add(JobType.DOCUMENT_CONVERT, "doc:t/a.md", {})
    await rows.sql("UPDATE jobs SET status = 'failed'")
    for job in (enrich, bare, document):
        new = await rows.database.transact(retry, job.id)
        assert (new.job_type, new.law_id, new.payload) == (job.job_type, job.law_id, job.payload)
    assert await rows.database.run(laws.list_laws) == []
