"""One job from claim to end: every way it can end, and what the row says afterwards."""

from __future__ import annotations

import errno

import pytest
import structlog
import trio
import trio.lowlevel

from actors.jobs.base import Completion, Work
from actors.runner import RunRule, fence_of
from protocols.failures import BaseDrift, ContentFailure, HandedBack, NotHarvestable, ProviderTrouble, Transient
from protocols.messages import CancelJob, Finalising, Held, Phase, Released
from schema.connection import Connection
from schema.rows import Job, JobStatus, JobType
from tests.kit.actorhouse import TIMEOUT_S, ActorHouse, FunctionHandler
from tests.kit.onejob import raises, run_one


async def test_a_result_completes_the_job_and_settles_in_the_same_transaction(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def settle(connection: Connection, job: Job) -> None:
        await connection.execute("INSERT follow-ups", job.law_id)

    async def body(work: Work) -> Completion:
        return Completion({"law": "done"}, settle)

    house, row, runner = await run_one(body)
    assert (row.status, row.result, row.lease) == (JobStatus.COMPLETED, {"law": "done"}, None)
    assert house.memory.statements == [("INSERT follow-ups", ("BWBR0000001",))]
    assert runner.outcome == "completed"


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Transient("network"), JobStatus.PENDING, "transient"),
        (ContentFailure("no machine readable sections"), JobStatus.FAILED, "content"),
        (BaseDrift("the base changed"), JobStatus.FAILED, "base_drift"),
        (RuntimeError("nobody foresaw this"), JobStatus.PENDING, "crashed"),
        (ExceptionGroup("from a nursery", [Transient("inner")]), JobStatus.PENDING, "transient"),
        (OSError(errno.EAGAIN, "cannot fork"), JobStatus.PENDING, "resource_exhausted"),
    ],
)
async def test_a_failure_is_classified_by_its_type(
    autojump_clock: trio.abc.Clock, error: Exception, status: JobStatus, kind: str
) -> None:
    _, row, runner = await run_one(raises(error))
    assert (row.status, row.result["kind"], runner.outcome) == (status, kind, kind)


async def test_a_failed_attempt_waits_30_s_before_the_next(autojump_clock: trio.abc.Clock) -> None:
    # QH-21
    _, row, _ = await run_one(raises(Transient("network")))
    assert row.scheduled_at is not None
    assert row.started_at is not None
    assert (row.scheduled_at - row.started_at).total_seconds() == pytest.approx(30)


async def test_nothing_to_harvest_completes_the_job_with_the_reason(autojump_clock: trio.abc.Clock) -> None:
    _, row, _ = await run_one(raises(NotHarvestable("withdrawn", reason="withdrawn", date="2020-01-01")))
    assert row.status is JobStatus.COMPLETED
    assert row.result == {"skipped": {"kind": "withdrawn", "date": "2020-01-01"}}


async def test_trouble_with_a_provider_hands_the_job_back(autojump_clock: trio.abc.Clock) -> None:
    # D52
    _, row, _ = await run_one(raises(ProviderTrouble("no credit", reason="billing")))
    assert (row.status, row.deaths, row.scheduled_at) == (JobStatus.PENDING, 0, None)


async def test_only_want_of_resources_strains_the_worker(autojump_clock: trio.abc.Clock) -> None:
    assert (await run_one(raises(MemoryError())))[2].strained
    assert not (await run_one(raises(Transient("network"))))[2].strained


@pytest.mark.claim("S0-015")
async def test_a_job_is_ended_at_its_time_limit_and_retried(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> None:
        await trio.sleep_forever()

    _, row, _ = await run_one(body)
    assert trio.current_time() == pytest.approx(TIMEOUT_S)
    assert (row.status, row.result["kind"]) == (JobStatus.PENDING, "job_timeout")


async def test_a_result_in_the_tick_of_the_time_limit_stands(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> Completion:
        with trio.CancelScope(shield=True):
            await trio.sleep(TIMEOUT_S + 1)
        return Completion()

    _, row, _ = await run_one(body)
    assert row.status is JobStatus.COMPLETED


async def test_a_settle_function_that_raises_fails_the_job_and_keeps_nothing(autojump_clock: trio.abc.Clock) -> None:
    async def settle(connection: Connection, job: Job) -> None:
        await connection.execute("INSERT follow-ups")
        raise ZeroDivisionError

    async def body(work: Work) -> Completion:
        return Completion({"never": "kept"}, settle)

    house, row, _ = await run_one(body)
    assert (row.status, row.result["kind"]) == (JobStatus.PENDING, "crashed")
    assert house.memory.statements == []


@pytest.mark.parametrize("drain_first", [True, False])
async def test_a_job_that_finishes_in_the_very_tick_of_the_drain_is_completed(
    autojump_clock: trio.abc.Clock, drain_first: bool
) -> None:
    # SD-03, both orders
    async def body(work: Work) -> Completion:
        if drain_first:
            house.lifecycle.advance(Phase.CANCELLING)
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
        else:
            house.lifecycle.advance(Phase.CANCELLING)
        return Completion({"kept": True})

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        await house.runner(await house.claim()).run()
    assert house.memory.job(job.id).status is JobStatus.COMPLETED


async def test_a_drain_hands_the_job_back_without_a_trace(autojump_clock: trio.abc.Clock) -> None:
    # SD-01, in the words of D12: attempts stay, what counts is attempts less releases
    async def body(work: Work) -> None:
        await trio.sleep_forever()

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False) as nursery:
        nursery.start_soon(house.runner(await house.claim()).run)
        await trio.sleep(10)
        house.lifecycle.advance(Phase.CANCELLING)
        await trio.sleep(1)
        row = house.memory.job(job.id)
    assert (row.status, row.deaths, row.result, row.scheduled_at) == (JobStatus.PENDING, 0, None, None)
    assert row.max_attempts - row.attempts == 3


async def test_lines_of_a_job_name_the_attempt_that_people_see_elsewhere(autojump_clock: trio.abc.Clock) -> None:
    bound: list[object] = []

    async def body(work: Work) -> Completion:
        bound.append(structlog.contextvars.get_contextvars()["attempt"])
        if len(bound) < 3:
            await trio.sleep_forever()
        return Completion()

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False) as nursery:
        for _ in range(2):
            runner = house.runner(await house.claim())
            nursery.start_soon(runner.run)
            await trio.sleep(10)
            runner._end(HandedBack("for the test"))
            await trio.sleep(1)
        nursery.start_soon(house.runner(await house.claim()).run)
        await trio.sleep(10)
    assert house.memory.job(job.id).attempts == 3
    assert bound == [1, 1, 1]


async def test_what_a_handler_makes_of_being_ended_does_not_count(autojump_clock: trio.abc.Clock) -> None:
    # SD-01: the cancelled agent reports a failure of its own; it is a hand-back all the same
    async def body(work: Work) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Transient("the agent died of a signal")

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False) as nursery:
        nursery.start_soon(house.runner(await house.claim()).run)
        await trio.sleep(10)
        house.lifecycle.advance(Phase.CANCELLING)
        await trio.sleep(1)
    assert house.memory.job(job.id).deaths == 0


async def test_a_job_claimed_in_the_moment_of_the_drain_is_not_started(autojump_clock: trio.abc.Clock) -> None:
    started = []

    async def body(work: Work) -> None:
        started.append(work)

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    house.lifecycle.advance(Phase.DRAINING)
    async with house.running(claimer=False):
        await house.runner(await house.claim()).run()
    assert house.memory.job(job.id).deaths == 0
    assert started == []


async def test_a_runner_that_is_cancelled_itself_hands_the_job_back(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> None:
        await trio.sleep_forever()

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=False):
        runner = house.runner(await house.claim())
        with trio.move_on_after(10):
            await runner.run()
    assert house.memory.job(job.id).status is JobStatus.PENDING
    assert house.memory.job(job.id).deaths == 0


async def test_a_job_that_does_not_end_when_cancelled_is_left_to_the_reaper(autojump_clock: trio.abc.Clock) -> None:
    # D17: 600 s past its limit the supervisor is asked to go, and the attempt counts
    async def body(work: Work) -> Completion:
        with trio.CancelScope(shield=True):
            await trio.sleep(TIMEOUT_S + 700)
        return Completion({"too": "late"})

    house, row, runner = await run_one(body)
    alarm = house.alarms.receive_nowait()
    assert "hangs 600 s past its limit" in alarm.why
    assert str(row.id) in alarm.why
    assert (row.status, row.releases, runner.outcome) == (JobStatus.PROCESSING, 0, "abandoned")


async def test_the_last_progress_is_written_before_the_row_is_closed(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> None:
        work.report({"phase": "downloading"})
        await trio.sleep(1)
        work.report({"phase": "done"})

    house, row, _ = await run_one(body)
    assert row.progress == {"phase": "done"}
    assert [name for _, name in house.queue.calls] == ["write_progress", "complete"]


async def test_the_heartbeat_hears_of_the_final_write_before_it_is_sent(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        await house.runner(claimed).run()
        nursery.cancel_scope.cancel()
    heard = [type(house.heartbeat_inbox.receive_nowait()) for _ in range(3)]
    assert heard == [Held, Finalising, Released]


async def test_a_cancel_ends_the_job_for_good(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> None:
        await trio.sleep_forever()

    house = ActorHouse(FunctionHandler(body))
    job = house.add()
    async with house.running(claimer=True):
        await trio.sleep(10)
        house.to_jobs.send_nowait(CancelJob(job.id))
        await trio.sleep(1)
        row = house.memory.job(job.id)
    assert (row.status, row.result["kind"]) == (JobStatus.FAILED, "cancelled")


async def test_one_crashing_job_leaves_the_others_alone(autojump_clock: trio.abc.Clock) -> None:
    async def body(work: Work) -> Completion:
        await trio.sleep(5)
        if work.job.law_id == "bad":
            raise ZeroDivisionError
        await trio.sleep(5)
        return Completion()

    house = ActorHouse(FunctionHandler(body), slots_of_role=2)
    bad, good = house.add("bad", max_attempts=1), house.add("good")
    async with house.running():
        assert (await house.ended(bad.id)).status is JobStatus.FAILED
        assert (await house.ended(good.id)).status is JobStatus.COMPLETED


async def test_the_breaker_asks_for_the_end_after_five_strained_jobs_in_a_row(autojump_clock: trio.abc.Clock) -> None:
    # D13
    async def body(work: Work) -> Completion:
        if work.job.law_id.startswith("heavy"):
            raise OSError(errno.ENOMEM, "cannot allocate")
        return Completion()

    house = ActorHouse(FunctionHandler(body))
    names = ["heavy"] * 4 + ["light"] + ["heavy"] * 4
    for number, name in enumerate(names):
        house.add(f"{name} {number}", max_attempts=1, priority=90 - number)
    async with house.running():
        await trio.sleep(3)
        with pytest.raises(trio.WouldBlock):
            house.alarms.receive_nowait()
        for number in range(5):
            house.add(f"heavy again {number}", max_attempts=1)
        await trio.sleep(10)
        assert "5 jobs in a row" in house.alarms.receive_nowait().why


def test_the_probe_type_is_what_these_tests_run() -> None:
    assert FunctionHandler(raises(RuntimeError())).job_type is JobType.PROBE
    assert RunRule().fence_s == fence_of(300)
