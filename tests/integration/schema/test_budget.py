"""The hourly claude budget, counted and enforced by the claim itself (D11, queue.md 5)."""

from __future__ import annotations

import datetime as dt
from uuid import UUID

import pytest
import trio

from actors.ports.queue import BudgetRule
from protocols.failures import HandedBack
from schema.connection import Connection
from schema.queue import budget as budget_queries
from schema.queue import claim as claim_module
from schema.queue import count_enrich_jobs_started_this_hour
from schema.queue.views import budget_now
from schema.rows import Job, JobStatus, JobType
from supervisor.settings import load_area
from supervisor.settings.areas import Enrich
from tests.kit.jobrows import Rows

THREE = BudgetRule(hourly_limit=3)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


async def many(rows: Rows, provider: str | None, count: int, **more: int) -> list[Job]:
    start = await rows.value("SELECT count(*) FROM jobs")
    return [await rows.enrich(provider, law_id=f"BWBR{start + number:07}", **more) for number in range(count)]


async def count(rows: Rows, at: str) -> int:
    used, _, _ = await rows.database.run(budget_queries.count_runs, includes_convert=True, at=moment(at))
    return used


async def add_run(rows: Rows, at: str, provider: str = "claude") -> UUID:
    """A run of ``provider`` that was claimed at ``at`` and ended."""
    [job] = await many(rows, provider, 1)
    await rows.claim(JobType.ENRICH, at=moment(at), count_budget=False)
    await rows.sql("UPDATE jobs SET status = 'completed' WHERE id = $1", job.id)
    return job.id


@pytest.mark.claim("S0-049", "S0-052", "S0-053")
async def test_at_the_cap_claude_waits_and_opencode_runs(rows: Rows) -> None:
    await many(rows, "claude", 5, priority=90)
    await many(rows, "opencode", 4, priority=10)
    answer = await rows.claim(JobType.ENRICH, slots=8, budget=THREE)
    assert sorted(job.run_provider or "" for job in answer.jobs) == ["claude"] * 3 + ["opencode"] * 4
    assert answer.budget is not None
    assert (answer.budget.used, answer.budget.cap, answer.budget.blocked) == (0, 3, False)
    later = await rows.claim(JobType.ENRICH, slots=8, budget=THREE)
    assert later.jobs == ()
    assert later.budget is not None
    assert (later.budget.used, later.budget.blocked) == (3, True)
    assert later.next_due_s is None  # nothing to hurry for before the next hour


@pytest.mark.claim("S0-054")
async def test_without_a_limit_no_claude_job_runs_and_the_others_do(rows: Rows) -> None:
    await rows.enrich("claude", priority=90)
    await rows.enrich("opencode")
    answer = await rows.claim(JobType.ENRICH, slots=5, budget=BudgetRule())
    assert [job.run_provider for job in answer.jobs] == ["opencode"]
    assert answer.budget is not None
    assert (answer.budget.cap, answer.budget.blocked) == (0, True)


@pytest.mark.claim("S0-054")
async def test_a_count_that_fails_stops_claude_and_nobody_else(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(connection: Connection, **_: object) -> None:
        await connection.execute("SELECT 1/0")

    monkeypatch.setattr(claim_module, "count_runs", breaks)
    await rows.enrich("claude", priority=90)
    await rows.enrich("opencode")
    answer = await rows.claim(JobType.ENRICH, slots=5, budget=THREE)
    assert [job.run_provider for job in answer.jobs] == ["opencode"]
    assert answer.budget is None
    assert await rows.value("SELECT count(*) FROM jobs WHERE status = 'pending'") == 1


async def test_while_another_claim_counts_claude_waits_a_moment(rows: Rows) -> None:
    await rows.enrich("claude", priority=90)
    await rows.enrich("opencode")

    async def hold(connection: Connection) -> None:
        assert await budget_queries.try_budget_lock(connection)
        await connection.execute("SELECT pg_sleep(1.5)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rows.database.transact, hold)
        while not await rows.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"):
            await trio.lowlevel.checkpoint()
        answer = await rows.claim(JobType.ENRICH, slots=5, budget=THREE)
        assert [job.run_provider for job in answer.jobs] == ["opencode"]
        assert answer.next_due_s is not None
        assert answer.next_due_s <= 1
    assert (await rows.claimed(JobType.ENRICH, budget=THREE)).run_provider == "claude"


@pytest.mark.claim("S0-043")
@pytest.mark.time_limit(60)
async def test_many_claimers_together_never_pass_the_cap(rows: Rows) -> None:
    await many(rows, "claude", 30)
    limit = BudgetRule(hourly_limit=10, night_multiplier=1)
    taken: list[Job] = []

    async def claimer() -> None:
        for _ in range(15):
            taken.extend((await rows.claim(JobType.ENRICH, slots=2, budget=limit)).jobs)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(claimer)
    assert len(taken) == 10


@pytest.mark.claim("S0-051")
async def test_every_claim_is_a_run_whatever_became_of_it(rows: Rows) -> None:
    await rows.enrich("claude")
    for at in ("2026-03-10T10:05", "2026-03-10T10:20", "2026-03-10T10:40"):
        await rows.claim(JobType.ENRICH, at=moment(at), budget=BudgetRule(hourly_limit=10))
        await rows.sql("UPDATE jobs SET status = 'pending', scheduled_at = NULL")
    assert await count(rows, "2026-03-10T10:59") == 3
    await rows.sql("UPDATE jobs SET status = 'failed'")
    assert await count(rows, "2026-03-10T10:59") == 3
    assert await count(rows, "2026-03-10T11:00") == 0


async def test_what_counts_is_who_would_run_the_job(rows: Rows) -> None:
    for provider, default in ((None, "claude"), ("gpt", "claude"), (None, "opencode"), ("gpt", "opencode")):
        await many(rows, provider, 1)
        await rows.claim(
            JobType.ENRICH,
            at=moment("2026-03-10T10:05"),
            budget=BudgetRule(hourly_limit=100, default_provider=default),
        )
    assert await count(rows, "2026-03-10T10:30") == 2


async def test_a_run_of_an_existing_worker_counts_once_and_an_unknown_provider_counts_as_claude(rows: Rows) -> None:
    await many(rows, "claude", 1)
    await many(rows, "gpt", 1)
    await many(rows, "opencode", 1)
    for _ in range(3):
        await rows.foreign_claim(JobType.ENRICH)
    await rows.sql("UPDATE jobs SET started_at = '2026-03-10T10:05Z'")
    assert await count(rows, "2026-03-10T10:30") == 2
    # ours, then claimed again by an existing worker: both starts count
    [job] = await many(rows, "claude", 1)
    await rows.claim(JobType.ENRICH, at=moment("2026-03-10T10:10"), budget=BudgetRule(hourly_limit=100))
    await rows.sql("UPDATE jobs SET started_at = '2026-03-10T10:20Z', attempts = 2 WHERE id = $1", job.id)
    assert await count(rows, "2026-03-10T10:30") == 4


async def test_harvests_and_unclaimed_jobs_do_not_count_and_conversions_do_unless_switched_off(rows: Rows) -> None:
    await many(rows, "claude", 1)
    await rows.add(payload={"bwb_id": "BWBR0000001", "provider": "claude"})
    await rows.claimed()
    document = await rows.add(JobType.DOCUMENT_CONVERT, "doc:t/a.md", {"provider": "claude"})
    answer = await rows.claim(JobType.DOCUMENT_CONVERT, budget=BudgetRule())
    assert answer.jobs == ()
    answer = await rows.claim(JobType.DOCUMENT_CONVERT, budget=BudgetRule(includes_convert=False))
    assert [job.id for job in answer.jobs] == [document.id]
    with_convert, _, _ = await rows.database.run(budget_queries.count_runs, includes_convert=True)
    without, _, _ = await rows.database.run(budget_queries.count_runs, includes_convert=False)
    assert (with_convert, without) == (1, 0)


async def test_a_claim_that_never_started_its_child_gives_its_run_back(rows: Rows) -> None:
    await rows.enrich("claude")
    first = await rows.claimed(JobType.ENRICH, budget=THREE)
    await rows.queue.hand_back(first.lease_held, why="drain", refund=True)
    assert (await rows.job(first.id)).started_at is None
    assert await rows.database.run(count_enrich_jobs_started_this_hour) == (0, await local_hour(rows))
    second = await rows.claimed(JobType.ENRICH, budget=THREE)
    assert await rows.queue.fail(second.lease_held, HandedBack("drain"), refund=False) is JobStatus.PENDING
    third = await rows.claimed(JobType.ENRICH, budget=THREE)
    await rows.queue.hand_back(third.lease_held, why="drain", refund=True)
    assert (await rows.job(third.id)).started_at == second.started_at
    assert (await rows.database.run(count_enrich_jobs_started_this_hour))[0] == 1


async def local_hour(rows: Rows) -> int:
    return int(await rows.value("SELECT EXTRACT(HOUR FROM now() AT TIME ZONE 'Europe/Amsterdam')::int"))


@pytest.mark.claim("S0-050")
async def test_the_library_counts_claimed_runs_of_one_provider_in_this_hour(rows: Rows) -> None:
    await many(rows, "claude", 3)
    await many(rows, "opencode", 1)
    await rows.claim(JobType.ENRICH, slots=4, count_budget=False)
    await rows.sql(
        """
        UPDATE jobs SET started_at = started_at - interval '2 hours', run_starts = ARRAY[started_at - interval '2 hours']
        WHERE id = (SELECT id FROM jobs WHERE run_provider = 'claude' LIMIT 1)
        """
    )
    await many(rows, "claude", 1)
    await rows.add()
    await rows.claimed()
    used, hour = await rows.database.run(count_enrich_jobs_started_this_hour, "claude")
    assert used == 2
    assert 0 <= hour <= 23


# --- Clock hours of Amsterdam (queue.md 5.3) --------------------------------------------------------------------------


@pytest.mark.claim("S0-050")
@pytest.mark.parametrize(
    ("run_at", "now", "counts"),
    [
        ("2026-03-10T00:59:59", "2026-03-10T01:00:00", False),
        ("2026-03-10T01:00:00", "2026-03-10T01:59:59", True),
        # spring: 01:30 and 03:30 local, an hour apart
        ("2026-03-29T00:30:00", "2026-03-29T00:59:59", True),
        ("2026-03-29T00:59:59", "2026-03-29T01:30:00", False),
        # autumn: 02:30 local twice, two buckets
        ("2026-10-25T00:00:00", "2026-10-25T00:30:00", True),
        ("2026-10-25T00:30:00", "2026-10-25T01:30:00", False),
        ("2026-10-25T01:00:00", "2026-10-25T01:30:00", True),
    ],
)
async def test_a_run_counts_in_its_own_clock_hour_only(rows: Rows, run_at: str, now: str, counts: bool) -> None:
    await add_run(rows, run_at)
    assert await count(rows, now) == int(counts)


@pytest.mark.parametrize("first_instant", ["2026-10-25T00:00:00", "2026-10-25T01:00:00"])
async def test_the_doubled_autumn_hour_is_two_hours_with_a_cap_each(rows: Rows, first_instant: str) -> None:
    await many(rows, "claude", 10)
    start = moment(first_instant)
    limit = BudgetRule(hourly_limit=2)
    taken = [
        len((await rows.claim(JobType.ENRICH, slots=9, budget=limit, at=start + dt.timedelta(minutes=minute))).jobs)
        for minute in (5, 30, 59, 60)
    ]
    assert taken == [2, 0, 0, 2]


@pytest.mark.parametrize(
    ("at", "hour", "cap"),
    [
        ("2026-01-10T22:59:59", 23, 2),
        ("2026-01-10T23:00:00", 0, 6),
        ("2026-01-11T06:59:59", 7, 6),
        ("2026-01-11T07:00:00", 8, 2),
        ("2026-03-29T00:30:00", 1, 6),
        ("2026-03-29T01:30:00", 3, 6),
        ("2026-10-25T00:30:00", 2, 6),
        ("2026-10-25T01:30:00", 2, 6),
    ],
)
async def test_the_night_of_amsterdam_has_its_own_cap(rows: Rows, at: str, hour: int, cap: int) -> None:
    await many(rows, "claude", 7)
    limit = BudgetRule(hourly_limit=2, night_multiplier=3)
    answer = await rows.claim(JobType.ENRICH, slots=7, budget=limit, at=moment(at))
    assert answer.budget is not None
    assert (answer.budget.local_hour, answer.budget.cap, len(answer.jobs)) == (hour, cap, cap)


@pytest.mark.claim("S0-050")
@pytest.mark.parametrize(
    ("at", "hour", "next_hour", "left_s", "cap"),
    [
        ("2026-03-10T10:15:00", 11, 12, 2700, 2),
        ("2026-03-10T06:59:59", 7, 8, 1, 6),
        ("2026-03-10T22:30:00", 23, 0, 1800, 2),
        ("2026-03-29T00:30:00", 1, 3, 1800, 6),  # spring: there is no 02:00
        ("2026-03-29T01:00:00", 3, 4, 3600, 6),
        ("2026-10-25T00:30:00", 2, 2, 1800, 6),  # autumn: 02:00 comes twice
        ("2026-10-25T01:30:00", 2, 3, 1800, 6),
    ],
)
async def test_people_see_the_hour_and_when_the_next_one_begins_also_when_clocks_change(
    rows: Rows, at: str, hour: int, next_hour: int, left_s: float, cap: int
) -> None:
    await many(rows, "claude", 4)
    rule = BudgetRule(hourly_limit=2, night_multiplier=3)
    await rows.claim(JobType.ENRICH, slots=2, budget=rule, at=moment(at))
    seen = await rows.database.run(budget_now, rule, at=moment(at))
    assert (seen.local_hour, seen.next_local_hour, seen.left_s, seen.cap) == (hour, next_hour, left_s, cap)
    assert (seen.used, seen.blocked, seen.waiting) == (2, cap == 2, 2)
    later = await rows.database.run(budget_now, rule, at=seen.next_hour_at)
    assert (later.used, later.blocked, later.waiting) == (0, False, 2)


async def test_a_claim_says_how_much_of_its_hour_is_left(rows: Rows) -> None:
    await many(rows, "claude", 1)
    answer = await rows.claim(JobType.ENRICH, budget=THREE, at=moment("2026-10-25T00:59:30"))
    assert answer.budget is not None
    assert answer.budget.left_s == 30


@pytest.mark.claim("S0-054")
@pytest.mark.parametrize("value", [None, "", "0", "-1", "abc", "1.5", " 3"])
async def test_a_limit_that_is_unset_or_cannot_be_read_means_no_claude_run(rows: Rows, value: str | None) -> None:
    # CR-08
    environ = {} if value is None else {"ENRICH_HOURLY_LIMIT": value}
    rule = BudgetRule(hourly_limit=load_area(Enrich, environ).hourly_limit)
    await many(rows, "claude", 2, priority=90)
    await many(rows, "opencode", 2)
    answer = await rows.claim(JobType.ENRICH, slots=9, budget=rule)
    assert [job.run_provider for job in answer.jobs] == ["opencode"] * 2
    seen = await rows.database.run(budget_now, rule)
    assert (seen.cap, seen.blocked, seen.waiting) == (0, True, 2)


@pytest.mark.claim("S0-052")
async def test_two_of_three_claude_jobs_run_and_the_third_in_the_next_hour(rows: Rows) -> None:
    # CR-08
    await many(rows, "claude", 3)
    await many(rows, "opencode", 1)
    two = BudgetRule(hourly_limit=2)
    first = await rows.claim(JobType.ENRICH, slots=9, budget=two, at=moment("2026-03-10T10:59:59"))
    assert sorted(job.run_provider or "" for job in first.jobs) == ["claude", "claude", "opencode"]
    assert (await rows.claim(JobType.ENRICH, slots=9, budget=two, at=moment("2026-03-10T10:59:59"))).jobs == ()
    later = await rows.claim(JobType.ENRICH, slots=9, budget=two, at=moment("2026-03-10T11:00:00"))
    assert [job.run_provider for job in later.jobs] == ["claude"]


async def test_old_starts_are_forgotten_after_two_days(rows: Rows) -> None:
    await rows.enrich("claude")
    for at in ("2026-03-08T10:00", "2026-03-10T09:00", "2026-03-10T10:30"):
        await rows.claim(JobType.ENRICH, at=moment(at), budget=BudgetRule(hourly_limit=10))
        await rows.sql("UPDATE jobs SET status = 'pending'")
    assert await rows.value("SELECT run_starts FROM jobs") == [moment("2026-03-10T09:00"), moment("2026-03-10T10:30")]
