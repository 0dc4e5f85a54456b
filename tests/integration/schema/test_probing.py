"""A provider in trouble: benched with the end of the job that met it, and tried again by one job at a time (D52)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from actors.ports.queue import BudgetRule
from protocols.failures import AgentTimedOut, LeaseLost, ProviderTrouble, RequestRefused
from schema import pauses
from schema.agentcalls import AgentCall, record_call
from schema.connection import Connection
from schema.pauses import ProviderPause, Usable
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, Rows

PLENTY = BudgetRule(hourly_limit=100)
OURS = (("claude", "aa"), ("claude", "bb"))
ALONE = (("claude", "aa"),)


def trouble(reason: str = "auth", credential: str | None = "aa", **details: Any) -> ProviderTrouble:
    named = {} if credential is None else {"credential": credential}
    return ProviderTrouble("claude failed (401)", provider="claude", reason=reason, **named, **details)


async def claim(
    rows: Rows, *credentials: tuple[str, str], slots: int = 4, budget: BudgetRule = PLENTY
) -> Sequence[Job]:
    return (await rows.claim(JobType.ENRICH, slots=slots, budget=budget, credentials=credentials or ALONE)).jobs


async def many(rows: Rows, count: int, provider: str = "claude") -> None:
    start = await rows.value("SELECT count(*) FROM jobs")
    for number in range(count):
        await rows.enrich(provider, law_id=f"BWBR{start + number:07}")


async def benches(rows: Rows) -> Sequence[ProviderPause]:
    return await rows.database.run(pauses.list_provider_pauses)


async def pass_time(rows: Rows, seconds: float) -> None:
    await rows.sql(
        "UPDATE provider_pauses SET until = until - $1 * interval '1 second', probe_at = probe_at - $1 * interval '1 second'",
        seconds,
    )


async def usable(rows: Rows, job: Job) -> Usable:
    return await rows.database.run(pauses.usable_for, "claude", job.id)


def about(moment: dt.datetime | None, seconds: float) -> bool:
    """Whether ``moment`` is so many seconds from now, give or take ten."""
    assert moment is not None
    return abs((moment - dt.datetime.now(dt.UTC)).total_seconds() - seconds) < 10


@pytest.mark.parametrize("reason", ["auth", "billing"])
async def test_a_refused_login_or_bill_hands_the_job_back_and_rests_until_resumed_or_probed(
    rows: Rows, reason: str
) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    job = await rows.enrich("claude")
    [held] = await claim(rows)
    assert await rows.queue.fail(held.lease_held, trouble(reason)) is JobStatus.PENDING
    row = await rows.job(job.id)
    assert (row.deaths, row.scheduled_at, row.result) == (0, None, None)
    assert (await rows.law()).status is LawStatus.HARVESTED
    [bench] = await benches(rows)
    assert (bench.provider, bench.credential_hash, bench.until) == ("claude", "aa", None)
    assert bench.reason == "claude failed (401)"
    assert about(bench.probe_at, 900)
    assert await claim(rows) == ()
    assert await rows.database.transact(pauses.resume_provider, "claude") == 1
    assert [one.id for one in await claim(rows)] == [job.id]


@pytest.mark.parametrize(
    ("named", "until_s", "probe_s"),
    [
        ({"retry_after_s": 600.0}, 600, 3600),
        ({"retry_after_s": 3}, 60, 3600),  # not at once: every claim would ask again
        ({"retry_after_s": 7200.0}, 7200, 3600),  # OC-06: asked again every hour
        ({"retry_after_s": float("inf")}, None, 3600),
        ({"resets_at": "tomorrow"}, None, 3600),
        ({}, None, 3600),
    ],
)
async def test_a_used_up_quota_rests_until_the_named_time_and_is_asked_again_every_hour(
    rows: Rows, named: dict[str, Any], until_s: float | None, probe_s: float
) -> None:
    await many(rows, 1)
    [held] = await claim(rows)
    await rows.queue.fail(held.lease_held, trouble("quota", **named))
    [bench] = await benches(rows)
    assert (bench.until is None) if until_s is None else about(bench.until, until_s)
    assert about(bench.probe_at, probe_s)


async def test_the_time_of_a_quota_may_be_named_in_unix_time(rows: Rows) -> None:
    await many(rows, 1)
    [held] = await claim(rows)
    at = dt.datetime.now(dt.UTC) + dt.timedelta(hours=5)
    await rows.queue.fail(held.lease_held, trouble("quota", resets_at=int(at.timestamp())))
    [bench] = await benches(rows)
    assert about(bench.until, 5 * 3600)
    await pass_time(rows, 5 * 3600 + 20)
    assert len(await claim(rows)) == 1  # it is over, without anybody's doing
    assert await benches(rows) == []


async def test_trouble_without_a_credential_benches_the_provider_for_everybody(rows: Rows) -> None:
    await many(rows, 1)
    [held] = await claim(rows)
    await rows.queue.fail(held.lease_held, trouble(credential=None))
    assert await claim(rows, ("claude", "cc")) == ()
    await many(rows, 1, "opencode")
    assert [job.run_provider for job in await claim(rows)] == ["opencode"]


async def test_a_job_that_is_not_ours_any_more_benches_nobody(rows: Rows) -> None:
    await many(rows, 1)
    [held] = await claim(rows)
    await rows.sql("UPDATE jobs SET lease = gen_random_uuid()")
    with pytest.raises(LeaseLost):
        await rows.queue.fail(held.lease_held, trouble())
    assert await benches(rows) == []


async def test_all_or_nothing_the_bench_and_the_hand_back(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    await many(rows, 1)
    [held] = await claim(rows)

    async def breaks(connection: Connection, *_: object) -> None:
        raise RuntimeError("no aftercare")

    monkeypatch.setattr("schema.outcomes.after_hand_back", breaks)
    with pytest.raises(Exception, match="no aftercare"):
        await rows.queue.fail(held.lease_held, trouble())
    assert await benches(rows) == []
    assert (await rows.job(held.id)).status is not JobStatus.PENDING


# --- probes -----------------------------------------------------------------------------------------------------------


async def bench(rows: Rows, credential: str = "aa", probe_s: float = 900.0) -> None:
    await rows.database.run(pauses.bench_provider, "claude", credential_hash=credential, reason="auth", probe_s=probe_s)


@pytest.mark.time_limit(60)
async def test_after_a_quarter_of_an_hour_one_job_is_let_through_whoever_asks(rows: Rows) -> None:
    await many(rows, 8)
    await bench(rows)
    await pass_time(rows, 899)
    assert await claim(rows) == ()
    await pass_time(rows, 2)
    taken: list[Job] = []

    async def claimer() -> None:
        for _ in range(5):
            taken.extend(await claim(rows))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claimer)
    assert len(taken) == 1
    [bench_] = await benches(rows)
    assert (bench_.probe_job, about(bench_.probe_at, 900)) == (taken[0].id, True)
    assert await usable(rows, taken[0]) == Usable(frozenset(), frozenset({"aa"}))


async def test_claimers_know_when_the_next_probe_is_due(rows: Rows) -> None:
    await many(rows, 1)
    await bench(rows, probe_s=40)
    answer = await rows.claim(JobType.ENRICH, budget=PLENTY, credentials=ALONE)
    assert answer.jobs == ()
    assert answer.next_due_s is not None
    assert 30 < answer.next_due_s <= 40


async def test_a_probe_that_fails_rests_again_and_one_that_died_is_followed_by_another(rows: Rows) -> None:
    await many(rows, 2)
    await bench(rows)
    await pass_time(rows, 901)
    [probe] = await claim(rows)
    await rows.queue.fail(probe.lease_held, trouble())
    [rested] = await benches(rows)
    assert (rested.probe_job, about(rested.probe_at, 900)) == (None, True)
    assert await claim(rows) == ()
    await pass_time(rows, 901)
    [dead] = await claim(rows)
    await pass_time(rows, 901)
    [other] = await claim(rows)
    assert other.id != dead.id


async def test_a_call_that_goes_well_frees_the_provider_while_the_job_still_runs(rows: Rows) -> None:
    await many(rows, 3)
    await bench(rows)
    await pass_time(rows, 901)
    [probe] = await claim(rows)
    now = dt.datetime.now(dt.UTC)

    async def book(connection: Connection, job: Job, verdict: str, seq: int) -> None:
        await record_call(connection, job, AgentCall(seq, "claude", "translate", now, now, verdict))

    await rows.queue.write(probe.lease_held, lambda connection, job: book(connection, job, "api_error", 0))
    assert len(await benches(rows)) == 1
    await rows.queue.write(probe.lease_held, lambda connection, job: book(connection, job, "ok", 1))
    assert await benches(rows) == []
    assert len(await claim(rows)) == 2


async def test_a_job_that_completes_frees_what_it_probed_and_no_other(rows: Rows) -> None:
    await many(rows, 3)
    await rows.sql("UPDATE jobs SET priority = 90 WHERE law_id = 'BWBR0000000'")
    [bystander] = await claim(rows, slots=1)
    await bench(rows)
    await pass_time(rows, 901)
    [probe] = await claim(rows)

    async def settle(connection: Connection, job: Job) -> None:
        return None

    await rows.queue.complete(bystander.lease_held, {}, settle)
    assert len(await benches(rows)) == 1
    await rows.queue.complete(probe.lease_held, {}, settle)
    assert await benches(rows) == []


async def test_with_two_credentials_only_the_one_in_trouble_rests_and_a_job_tries_it_again(rows: Rows) -> None:
    await many(rows, 6)
    await bench(rows)
    first, second = await claim(rows, *OURS, slots=2)
    assert await usable(rows, first) == await usable(rows, second) == Usable(frozenset({"aa"}))
    assert await claim(rows, ("claude", "aa")) == ()  # another supervisor has that one only
    await pass_time(rows, 901)
    third, fourth = await claim(rows, *OURS, slots=2)
    assert await usable(rows, third) == Usable(frozenset(), frozenset({"aa"}))
    assert await usable(rows, fourth) == Usable(frozenset({"aa"}))


async def test_a_probe_is_a_run_and_waits_for_the_next_hour_too(rows: Rows) -> None:
    # D11: every claim is a run
    await many(rows, 3)
    one = BudgetRule(hourly_limit=1)
    assert len(await claim(rows, budget=one)) == 1
    await bench(rows)
    await pass_time(rows, 901)
    assert await claim(rows, budget=one) == ()
    [waiting] = await benches(rows)
    assert waiting.probe_job is None
    assert len(await claim(rows, budget=BudgetRule(hourly_limit=2))) == 1


async def test_jobs_that_name_no_provider_do_not_slip_past_the_probe(rows: Rows) -> None:
    await many(rows, 2)
    await rows.enrich(None, law_id="BWBR0000100")
    await rows.add(JobType.LAW_CONVERT, "law:t", {"provider": "claude"})
    await bench(rows)
    await pass_time(rows, 901)
    answer = await rows.claim(
        JobType.LAW_CONVERT,
        JobType.ENRICH,
        slots=4,
        budget=BudgetRule(100, default_provider="claude"),
        credentials=ALONE,
    )
    assert len(answer.jobs) == 1


async def test_behind_a_provider_and_a_credential_in_trouble_one_job_tries_both(rows: Rows) -> None:
    await many(rows, 3)
    await bench(rows, "")
    await bench(rows, "aa")
    assert await claim(rows) == ()
    await pass_time(rows, 901)
    [probe] = await claim(rows)
    assert {pause.probe_job for pause in await benches(rows)} == {probe.id}


# --- AG-05: the same refusal twice ------------------------------------------------------------------------------------


def refused() -> RequestRefused:
    return RequestRefused("claude failed (bad_request, exit code 1): max_tokens", cause="bad_request")


async def failed(rows: Rows, failure: RequestRefused | AgentTimedOut) -> JobStatus:
    await rows.sql("UPDATE jobs SET scheduled_at = NULL")
    [held] = await claim(rows)
    return await rows.queue.fail(held.lease_held, failure)


async def test_a_request_that_is_refused_twice_in_a_row_is_given_up(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    job = await rows.enrich("claude", max_attempts=9)
    assert await failed(rows, refused()) is JobStatus.PENDING
    assert await failed(rows, refused()) is JobStatus.FAILED
    assert (await rows.job(job.id)).attempts == 2
    assert [one.id for one in await rows.jobs_of(LAW, JobType.ENRICH)] == [job.id]  # and no new one by itself
    assert (await rows.law()).status is LawStatus.ENRICH_FAILED


async def test_two_refusals_with_something_else_between_them_are_not_in_a_row(rows: Rows) -> None:
    await rows.enrich("claude", max_attempts=9)
    for failure in (refused(), AgentTimedOut("timed out"), refused(), AgentTimedOut("timed out")):
        assert await failed(rows, failure) is JobStatus.PENDING


async def test_a_login_that_is_refused_again_and_again_costs_no_law_its_job(rows: Rows) -> None:
    # AG-05 gives up on it; D52 decides: it is the failure of the provider, and no loop either
    job = await rows.enrich("claude", max_attempts=2)
    for _ in range(4):
        [held] = await claim(rows)
        assert await rows.queue.fail(held.lease_held, trouble("auth")) is JobStatus.PENDING
        assert await claim(rows) == ()
        await pass_time(rows, 901)
    assert (await rows.job(job.id)).deaths == 0
