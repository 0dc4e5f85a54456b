"""Runs whose worker died, was drained, was cancelled, or met a run that was over: charged once at most, and never stuck."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from protocols.failures import InvalidInput, JobCancelled, JobTimedOut, LeaseLost, Transient
from protocols.runs import RunStatus, claim_holder
from schema.pipelines import asking, leases, runs
from schema.pipelines.aftercare import fail_orphans
from schema.pipelines.asking import RunState
from schema.pipelines.leases import Resource
from schema.pipelines.rows import Run
from schema.pipelines.tombstones import removable
from schema.queue import create_job
from schema.requests import cancel
from schema.rows import JobRequest, JobStatus, JobType
from tests.kit.pipelines import ON, PRICE, HandWork, Shop


async def left_at(shop: Shop, page: int, *, urls: int = 4, save: bool = True) -> tuple[Run, HandWork]:
    """A run that was claimed and worked on until page number ``page``, where its process is gone without a word."""
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(urls), save_to_kb=save))
    work = await shop.claimed()
    with trio.CancelScope() as process:

        async def die(url: str) -> None:
            if url == shop.urls(urls)[page]:
                await trio.testing.wait_all_tasks_blocked(0.1)  # what is under way meanwhile comes to its end
                process.cancel()
                await trio.sleep_forever()

        shop.crawler.before = die
        await shop.handler().run(work)
    assert process.cancelled_caught
    shop.crawler.before = None
    return run, work


# --- enqueued again -----------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-013", "S3-064", "S3-118")
async def test_a_run_that_is_over_is_not_done_again_however_often_it_is_enqueued(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(2)))
    done = await shop.drive(run)
    assert done.job_id is not None
    payload = (await shop.rows.job(done.job_id)).payload
    again = JobRequest(JobType.PIPELINE_RUN, f"pipeline:{done.pipeline_id}", payload=payload)
    for _ in range(2):
        job = await shop.database.run(create_job, again)
        await shop.work_off(await shop.claimed())
        row = await shop.rows.job(job.id)
        assert (row.status, row.result) == (JobStatus.COMPLETED, {"noop": "succeeded"})
    assert await shop.run(run.id) == done
    assert len(shop.crawler.asked) == 2
    assert len(await shop.usage()) == 1
    assert (await shop.wallet()).balance_micros == 8 * PRICE


async def test_a_run_that_is_at_work_is_not_begun_a_second_time(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(2)))
    first = await shop.claimed()
    payload = first.job.payload
    job = await shop.database.run(create_job, JobRequest(JobType.PIPELINE_RUN, "pipeline:1", payload=payload))

    async def meanwhile(url: str) -> None:
        if url == shop.urls(2)[0]:
            await shop.work_off(await shop.claimed())
            assert (await shop.rows.job(job.id)).result == {"noop": "running"}

    shop.crawler.before = meanwhile
    await shop.work_off(first)
    assert (await shop.run(run.id)).status is RunStatus.SUCCEEDED
    assert (await shop.run(run.id)).job_id == first.job.id


@pytest.mark.claim("S3-041")
async def test_a_run_that_nobody_knows_is_refused_by_name(shop: Shop) -> None:
    with pytest.raises(runs.RunNotFound, match="no run 4711"):
        await shop.database.run(runs.load, 4711)


@pytest.mark.parametrize(
    "payload", [None, {}, {"run_id": "1"}, {"run_id": 1, "pipeline_id": 1, "workspace_id": 1}, [1]]
)
async def test_a_job_that_names_no_run_fails_for_good(shop: Shop, payload: object) -> None:
    job = await shop.database.run(create_job, JobRequest(JobType.PIPELINE_RUN, "pipeline:1", payload=payload))
    await shop.work_off(await shop.claimed())
    assert (await shop.rows.job(job.id)).status is JobStatus.FAILED


# --- the worker is lost -------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-042", "S3-065", "S3-127")
@pytest.mark.parametrize("page", [0, 2, 3])
async def test_a_run_whose_worker_died_is_taken_up_where_it_stopped_and_charged_once(shop: Shop, page: int) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run, work = await left_at(shop, page)
    assert (await shop.run(run.id)).status is RunStatus.RUNNING
    assert (await shop.wallet()).reserved_micros == 4 * PRICE
    before = await shop.run(run.id)
    await shop.lose_worker(work)
    waiting = await shop.run(run.id)
    assert (waiting.status, waiting.reserved_micros, waiting.started_at) == (RunStatus.PENDING, 0, before.started_at)
    assert waiting.summary == {"redriven": 1}
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.leases() == 0
    assert await shop.imbalances() == []
    finished = {item.target for item in await shop.items(run.id) if item.outcome is not None}
    asked_before = len(shop.crawler.asked)
    done = await shop.drive(run)
    assert done.status is RunStatus.SUCCEEDED
    assert (done.crawls_attempted, done.crawls_succeeded, done.documents_indexed) == (4, 4, 4)
    assert done.charged_micros == 4 * PRICE
    assert set(shop.crawler.asked[asked_before:]) == set(shop.urls(4)) - finished
    assert done.summary is not None
    assert done.summary["redriven"] == 1
    assert len(await shop.usage()) == 1
    assert {row["state"] for row in await shop.documents()} == {"ready"}
    assert await shop.imbalances() == []


async def test_a_run_without_documents_starts_over_and_its_half_result_is_left_to_the_janitor(shop: Shop) -> None:
    run, work = await left_at(shop, 2, save=False)
    await shop.lose_worker(work)
    done = await shop.drive(run)
    assert done.result_blob_key == f"pipeline_runs/{shop.workspace}/{run.id}/result-2.json"
    assert [entry["status"] for entry in json.loads(shop.blobs.blobs[done.result_blob_key])["runs"]] == ["success"] * 4
    [stone] = await shop.database.run(removable, backend="local")
    assert stone.key == f"pipeline_runs/{shop.workspace}/{run.id}/result-1.json"
    assert {item.claim_seq for item in await shop.items(run.id)} == {2}


async def test_a_result_under_way_is_not_removed_before_its_worker_is_lost(shop: Shop) -> None:
    _, work = await left_at(shop, 2, save=False)
    assert await shop.database.run(removable, backend="local") == []
    await shop.lose_worker(work)
    assert len(await shop.database.run(removable, backend="local")) == 1


async def test_a_run_that_loses_its_worker_twice_fails_and_the_schedule_goes_on(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run, work = await left_at(shop, 1)
    await shop.lose_worker(work)
    second = await shop.claimed()
    await runs_until_first_page(shop, second)
    await shop.lose_worker(second)
    done = await shop.run(run.id)
    assert done.status is RunStatus.FAILED
    assert done.error == {"code": "worker_lost", "message": "worker stopped responding"}
    assert (done.reserved_micros, done.charged_micros) == (0, None)
    assert done.crawls_attempted is not None
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.leases() == 0
    assert not await shop.database.run(asking.has_active_run, done.pipeline_id)
    assert await shop.imbalances() == []


async def runs_until_first_page(shop: Shop, work: HandWork) -> None:
    with trio.CancelScope() as process:

        async def die(_: str) -> None:
            process.cancel()
            await trio.sleep_forever()

        shop.crawler.before = die
        await shop.handler().run(work)
    shop.crawler.before = None


async def test_documents_that_were_under_way_are_reclaimable_and_keep_what_they_had(shop: Shop) -> None:
    pipeline = await shop.pipeline(urls=shop.urls(2), save_to_kb=True)
    await shop.perform(pipeline)
    await shop.rows.sql("UPDATE documents SET content = '' WHERE url LIKE '%/1'")
    await shop.run_of(pipeline)
    work = await shop.claimed()
    with trio.CancelScope() as process:

        async def die(url: str) -> None:
            if url.endswith("/1"):
                await trio.testing.wait_all_tasks_blocked(0.1)
                process.cancel()
            await trio.sleep_forever()

        shop.crawler.before = die
        await shop.handler().run(work)
    shop.crawler.before = None
    assert {row["state"] for row in await shop.documents()} == {"processing"}
    await shop.lose_worker(work)
    states = {row["url"][-1]: (row["state"], row["state_reason"], row["claimed_by"]) for row in await shop.documents()}
    assert states == {"0": ("ready", "interrupted", None), "1": ("failed", "interrupted", None)}
    await shop.work_off(await shop.claimed())
    assert {row["state"] for row in await shop.documents()} == {"ready"}


# --- a zombie -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [True, False])
async def test_a_worker_that_was_given_up_changes_nothing_any_more(shop: Shop, save: bool) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(3), save_to_kb=save))
    zombie = await shop.claimed()
    ended = await shop.handler().run(zombie)
    await shop.lose_worker(zombie)
    done = await shop.drive(run)
    rows, wallet = await shop.documents(), await shop.wallet()
    with pytest.raises(LeaseLost):
        await shop.rows.queue.complete(zombie.lease, ended.result, ended.settle)
    with pytest.raises(LeaseLost):
        await shop.rows.queue.fail(zombie.lease, Transient("late"))
    assert await shop.run(run.id) == done
    assert await shop.documents() == rows
    assert await shop.wallet() == wallet
    assert len(await shop.usage()) == 1


async def test_a_worker_that_is_given_up_in_the_middle_stops_at_its_next_write(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(3), save_to_kb=True))
    zombie = await shop.claimed()

    async def lose(url: str) -> None:
        if url == shop.urls(3)[1]:
            shop.crawler.before = None
            await shop.lose_worker(zombie)
            await shop.drive(run)

    shop.crawler.before = lose
    failure = await shop.work_off(zombie)
    assert isinstance(failure, LeaseLost)
    done = await shop.run(run.id)
    assert (done.status, done.claim_seq, done.crawls_succeeded) == (RunStatus.SUCCEEDED, 2, 3)


# --- drain, cancel, time ------------------------------------------------------------------------------------------------


async def test_a_drained_run_goes_back_with_all_its_chances_and_what_it_did(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run, work = await left_at(shop, 2)
    assert await shop.rows.queue.hand_back(work.lease, why="drain")
    waiting = await shop.run(run.id)
    assert (waiting.status, waiting.reserved_micros, waiting.summary) == (RunStatus.PENDING, 0, None)
    assert {row["claimed_by"] for row in await shop.documents()} == {None}
    assert "interrupted" not in {row["state_reason"] for row in await shop.documents()}
    job = await shop.rows.job(work.job.id)
    assert (job.attempts, job.max_attempts, job.releases) == (1, 3, 1)
    assert await shop.leases() == 0
    done = await shop.drive(run)
    assert (done.status, done.charged_micros, done.crawls_succeeded) == (RunStatus.SUCCEEDED, 4 * PRICE, 4)
    assert (await shop.wallet()).balance_micros == 96 * PRICE


async def test_a_run_that_waits_is_cancelled_at_once(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline())
    done = await shop.database.transact(asking.cancel_run, run.id)
    assert (done.status, done.error) == (RunStatus.CANCELLED, None)
    assert done.finished_at is not None
    with pytest.raises(RunState, match="cancelled already"):
        await shop.database.transact(asking.cancel_run, run.id)
    with pytest.raises(runs.RunNotFound):
        await shop.database.transact(asking.cancel_run, 4711)
    assert not (await shop.rows.claim(JobType.PIPELINE_RUN)).jobs


async def test_a_running_run_is_asked_to_end_and_costs_nothing_whatever_it_fetched(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run, work = await left_at(shop, 2)
    asked = await shop.database.transact(asking.cancel_run, run.id)
    assert asked.status is RunStatus.RUNNING
    assert asked.cancel_requested_at is not None
    assert await shop.rows.queue.cancel_requests([work.lease]) == {work.lease}
    await shop.rows.queue.fail(work.lease, JobCancelled("cancelled on request"))
    done = await shop.run(run.id)
    assert (done.status, done.error, done.charged_micros) == (RunStatus.CANCELLED, None, None)
    assert done.crawls_succeeded is not None
    assert done.crawls_succeeded >= 1
    assert (await shop.wallet()).balance_micros == 100 * PRICE
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.leases() == 0


async def test_a_cancelled_job_is_a_cancelled_run_whoever_cancels_it(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline())
    assert run.job_id is not None
    await shop.database.transact(cancel, run.job_id)
    assert (await shop.run(run.id)).status is RunStatus.CANCELLED


async def test_a_cancelled_run_whose_worker_died_is_cancelled_by_the_reaper(shop: Shop) -> None:
    run, work = await left_at(shop, 1)
    await shop.database.transact(asking.cancel_run, run.id)
    await shop.lose_worker(work)
    assert (await shop.run(run.id)).status is RunStatus.CANCELLED


async def test_a_run_that_is_over_cannot_be_cancelled(shop: Shop) -> None:
    done = await shop.perform(await shop.pipeline())
    with pytest.raises(RunState, match="succeeded already"):
        await shop.database.transact(asking.cancel_run, done.id)


async def test_a_second_run_is_refused_only_to_who_asked_for_that(shop: Shop) -> None:
    pipeline = await shop.pipeline(enabled=False)
    await shop.run_of(pipeline)
    with pytest.raises(RunState, match="pending or running"):
        await shop.run_of(pipeline, if_idle=True)
    await shop.run_of(pipeline)
    assert len(await shop.history(pipeline)) == 2
    with pytest.raises(InvalidInput, match="no pipeline 4711"):
        await shop.database.transact(asking.request_run, 4711)


@pytest.mark.parametrize(
    ("failure", "code"), [(JobTimedOut("too long"), "timeout"), (Transient("something"), "exception")]
)
async def test_a_job_that_fails_outside_the_engine_says_so_in_its_run(
    shop: Shop, failure: Transient, code: str
) -> None:
    run, work = await left_at(shop, 1)
    await shop.rows.sql("UPDATE jobs SET max_attempts = 1")
    await shop.rows.queue.fail(work.lease, failure)
    done = await shop.run(run.id)
    assert done.error is not None
    assert (done.status, done.error["code"]) == (RunStatus.FAILED, code)


# --- the second net -----------------------------------------------------------------------------------------------------


async def _orphan_by(shop: Shop, how: str) -> tuple[Run, HandWork]:
    run, work = await left_at(shop, 1)
    if how == "deleted":
        await shop.rows.sql("DELETE FROM jobs WHERE id = $1", work.job.id)
        await shop.rows.sql(
            "UPDATE pipeline_runs SET created_at = now() - interval '1 hour', started_at = now() - interval '1 hour'"
        )
    else:
        await shop.rows.sql(
            "UPDATE jobs SET status = 'failed', completed_at = now() - interval '6 minutes' WHERE id = $1", work.job.id
        )
    return run, work


@pytest.mark.parametrize("how", ["deleted", "failed"])
async def test_a_run_whose_job_ended_without_it_is_found_and_failed(shop: Shop, how: str) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    run, _ = await _orphan_by(shop, how)
    assert dict(await shop.rows.queue.sweep())["pipeline_runs"] == 1
    done = await shop.run(run.id)
    assert done.error is not None
    assert (done.status, done.error["code"]) == (RunStatus.FAILED, "orphaned")
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.database.transact(fail_orphans) == [("pipeline_runs", 0)]
    assert await shop.imbalances() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs SET status = 'failed', completed_at = now() - interval '4 minutes'",
        "UPDATE jobs SET status = 'pending', lease = NULL, created_at = now() - interval '2 days'",
        "UPDATE pipeline_runs SET created_at = now() - interval '2 days', started_at = now() - interval '2 days'",
    ],
)
async def test_a_run_whose_job_waits_works_or_ended_just_now_is_left_alone(shop: Shop, change: str) -> None:
    run, _ = await left_at(shop, 1)
    await shop.rows.sql(change)
    await shop.rows.queue.sweep()
    assert (await shop.run(run.id)).status is RunStatus.RUNNING


async def test_a_run_in_the_net_does_not_take_leases_of_others_with_it(shop: Shop) -> None:
    await _orphan_by(shop, "failed")
    other = claim_holder("00000000-0000-0000-0000-00000000000a", 1)
    await shop.database.run(leases.acquire, Resource.PIPELINE, 999, other, ttl_s=60)
    await shop.rows.queue.sweep()
    assert await shop.leases() == 1
