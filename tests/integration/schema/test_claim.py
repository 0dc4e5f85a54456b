"""Which rows a claim takes: roles, order over types and providers, pauses, wake-ups (D4, D9, D10, queue.md 2.3)."""

from __future__ import annotations

import datetime as dt
from uuid import uuid4

import pytest
import trio

from actors.ports.database import DatabaseSettings, open_database
from actors.ports.queue import BudgetRule, ClaimRequest, Want
from protocols.failures import Transient
from schema import pauses
from schema.pauses import PauseScope
from schema.rows import Job, JobType
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

PLENTY = BudgetRule(hourly_limit=1000)


async def test_providers_of_one_type_are_merged_by_priority_and_age(rows: Rows) -> None:
    wanted: list[Job] = []
    for priority, provider in ((10, "claude"), (90, "opencode"), (50, "claude"), (50, "opencode"), (70, None)):
        wanted.append(await rows.enrich(provider, priority=priority, law_id=f"BWBR00{priority:02}{len(wanted)}00"))
    order = [wanted[1], wanted[4], wanted[2], wanted[3], wanted[0]]
    assert [job.id for job in (await rows.claim(JobType.ENRICH, slots=5, budget=PLENTY)).jobs] == [
        job.id for job in order
    ]


async def test_a_role_serves_its_types_in_order_and_takes_no_more_than_its_slots(rows: Rows) -> None:
    await rows.add(priority=100)
    first = await rows.add(JobType.TRAJECT_HARVEST, LAW, {"bwb_id": LAW, "provider": "claude"}, priority=1)
    answer = await rows.claim(JobType.TRAJECT_HARVEST, JobType.HARVEST, slots=1)
    assert [job.id for job in answer.jobs] == [first.id]


async def test_two_roles_are_served_by_one_claim_each_up_to_its_own_slots(rows: Rows) -> None:
    for number in range(3):
        await rows.add(law_id=f"BWBR000000{number}")
        await rows.enrich(law_id=f"BWBR000000{number}")
    wants = (Want((JobType.HARVEST,), 2), Want((JobType.ENRICH,), 1), Want((JobType.LAW_CONVERT,), 0))
    answer = await rows.queue.claim(ClaimRequest(uuid4(), "test", wants))
    assert [job.job_type for job in answer.jobs] == [JobType.HARVEST, JobType.HARVEST, JobType.ENRICH]
    assert len({job.lease for job in answer.jobs}) == 1


async def test_no_slots_no_question(rows: Rows) -> None:
    await rows.add()
    assert (await rows.claim(slots=0)).jobs == ()
    assert (await rows.queue.claim(ClaimRequest(uuid4(), "test", ()))).jobs == ()


async def test_one_more_look_is_due_soon_when_slots_stayed_free_although_rows_were_there(rows: Rows) -> None:
    await rows.add()
    answer = await rows.claim(slots=2)
    assert len(answer.jobs) == 1
    assert answer.next_due_s is not None
    assert 0.2 <= answer.next_due_s <= 1
    assert (await rows.claim(slots=2)).next_due_s is None


async def test_a_claimer_does_not_wait_for_rows_that_another_is_taking(rows: Rows) -> None:
    first = await rows.add(priority=90)
    await rows.add(law_id=OTHER_LAW)

    async def hold(connection: object) -> None:
        await connection.execute("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", first.id)  # type: ignore[attr-defined]
        await connection.execute("SELECT pg_sleep(1.5)")  # type: ignore[attr-defined]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rows.database.transact, hold)
        while not await rows.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"):
            await trio.lowlevel.checkpoint()
        assert (await rows.claimed()).law_id == OTHER_LAW


# --- Pauses -----------------------------------------------------------------------------------------------------------


async def test_a_paused_job_type_is_not_claimed_until_it_is_resumed(rows: Rows) -> None:
    await rows.add()
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", reason="mirror moves", paused_by="ops")
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", reason="still moving", paused_by="ops")
    assert (await rows.claim()).jobs == ()
    [shown] = await rows.database.run(pauses.list_pauses)
    assert (shown.name, shown.reason, shown.paused_by) == ("harvest", "still moving", "ops")
    assert await rows.database.transact(pauses.resume, PauseScope.JOB_TYPE, "harvest")
    assert not await rows.database.transact(pauses.resume, PauseScope.JOB_TYPE, "harvest")
    assert len((await rows.claim()).jobs) == 1


async def test_a_paused_provider_lets_the_others_run(rows: Rows) -> None:
    await rows.enrich("claude", priority=90)
    await rows.enrich("opencode")
    await rows.add(JobType.TRAJECT_HARVEST, LAW, {"provider": "claude"})
    await rows.database.run(pauses.pause, PauseScope.PROVIDER, "claude")
    answer = await rows.claim(JobType.ENRICH, JobType.TRAJECT_HARVEST, slots=5, budget=PLENTY)
    assert [(job.job_type, job.payload["provider"]) for job in answer.jobs] == [
        (JobType.ENRICH, "opencode"),
        (JobType.TRAJECT_HARVEST, "claude"),  # no agent runs it
    ]


async def test_a_job_without_provider_belongs_to_the_default_provider_of_the_claimer(rows: Rows) -> None:
    await rows.enrich(None)
    await rows.database.run(pauses.pause, PauseScope.PROVIDER, "claude")
    assert (await rows.claim(JobType.ENRICH, budget=BudgetRule(1, default_provider="claude"))).jobs == ()
    job = await rows.claimed(JobType.ENRICH, budget=BudgetRule(1, default_provider="opencode"))
    assert job.run_provider == "opencode"


async def test_a_provider_in_trouble_waits_for_its_time_and_one_bad_credential_does_not_stop_the_others(
    rows: Rows,
) -> None:  # D52
    await rows.enrich("claude")
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    await rows.database.run(pauses.bench_provider, "claude", credential_hash="aa", until=soon, reason="quota")

    async def claim(*hashes: str) -> int:
        credentials = tuple(("claude", digest) for digest in hashes)
        return len((await rows.claim(JobType.ENRICH, budget=PLENTY, credentials=credentials)).jobs)

    assert await claim("aa") == 0
    assert await claim("aa", "bb") == 1
    await rows.sql("UPDATE jobs SET status = 'pending'")
    await rows.database.run(pauses.bench_provider, "claude", until=None, reason="billing")
    await rows.database.run(pauses.bench_provider, "claude", until=soon, reason="billing")
    assert [p.until for p in await rows.database.run(pauses.list_provider_pauses)] == [None, soon]
    assert await claim("bb") == 0
    assert await rows.database.transact(pauses.resume, PauseScope.PROVIDER, "claude")
    await rows.database.run(
        pauses.bench_provider, "claude", until=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1), reason="over"
    )
    assert await claim("bb") == 1


# --- Wake-up (D10) ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def woken(rows: Rows) -> trio.MemoryReceiveChannel[None]:
    """Wake-ups, through the listening port; the one that says that listening has begun is taken already."""
    subscription = rows.database.listen(["regelrecht_jobs"])
    await subscription.wakeups.receive()
    return subscription.wakeups


async def is_woken(woken: trio.MemoryReceiveChannel[None], limit_s: float) -> bool:
    with trio.move_on_after(limit_s):
        await woken.receive()
        return True
    return False


async def test_a_new_due_row_wakes_a_claimer_and_a_delayed_one_does_not(
    rows: Rows, woken: trio.MemoryReceiveChannel[None]
) -> None:
    await rows.add(delay_s=60)
    assert not await is_woken(woken, 0.5)
    await rows.add(law_id=OTHER_LAW)
    assert await is_woken(woken, 5)


async def test_a_handed_back_a_reaped_and_a_promoted_row_wake_too(
    rows: Rows, woken: trio.MemoryReceiveChannel[None]
) -> None:
    for number in range(3):
        await rows.add(law_id=f"BWBR000000{number}")
    assert await is_woken(woken, 5)
    back, orphan, promoted = (await rows.claim(slots=3)).jobs
    while await is_woken(woken, 0.3):
        pass
    await rows.queue.hand_back(back.lease_held, why="drain")
    assert await is_woken(woken, 5)
    await rows.age(orphan.id, 301)
    await rows.reap_all()
    assert await is_woken(woken, 5)
    await rows.sql("UPDATE jobs SET status = 'pending', scheduled_at = now() WHERE id = $1", promoted.id)
    await rows.sql("UPDATE jobs SET scheduled_at = now() WHERE id = $1", orphan.id)
    await rows.claim(slots=1)
    assert await is_woken(woken, 5)


async def test_the_existing_services_wake_us_by_a_plain_insert(
    rows: Rows, woken: trio.MemoryReceiveChannel[None]
) -> None:
    await rows.sql("INSERT INTO jobs (job_type, law_id) VALUES ('harvest', 'BWBR0000001')")
    assert await is_woken(woken, 5)


# --- Behind a transaction pooler (D16, CL-06) ---------------------------------------------------------------------------


async def test_without_session_state_the_whole_life_of_a_job_works_and_the_cap_holds(
    database_url: str,
) -> None:  # DB-03
    async with open_database(DatabaseSettings(url=database_url, pooler="transaction")) as database:
        rows = Rows(database)
        for number in range(6):
            await rows.enrich("claude" if number % 2 else "opencode", law_id=f"BWBR000000{number}")
        taken: list[Job] = []

        async def claimer() -> None:
            for _ in range(5):
                taken.extend((await rows.claim(JobType.ENRICH, budget=BudgetRule(hourly_limit=2))).jobs)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(claimer)
        assert sorted(job.run_provider or "" for job in taken) == ["claude"] * 2 + ["opencode"] * 3
        first, second, third, *_ = (job.lease_held for job in taken)
        assert (await rows.queue.beat([first])).confirmed == {first}
        await rows.queue.complete(first, {"n": 1})
        await rows.queue.fail(second, Transient("x"))
        assert await rows.queue.hand_back(third, why="drain")
        await rows.age(taken[3].id, 301)
        assert [one.id for one in await rows.reap_all()] == [taken[3].id]
