"""What needs locks, notices of others or more than one statement, through a real transaction-mode pooler (D16, CL-06).

Four ports share three sessions, so that whatever was left in a session would be met by somebody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio

from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.queue import BudgetRule
from actors.scheduler import ScheduleTick
from protocols.failures import SupervisorError
from schema import enrich, laws, pauses, retention
from schema.connection import Connection
from schema.enrich import DirectoryBusy
from schema.pauses import PauseScope
from schema.requests import AlreadyQueued, Created, HarvestRequest, request_harvest
from schema.rows import Job, JobStatus, JobType
from tests.kit.jobrows import LAW, Rows
from tests.kit.pgbouncer import Pooled
from tests.kit.pipelines import Shop

PORTS = 4


@pytest.fixture
async def ports(pooled: Pooled) -> AsyncIterator[list[Database]]:
    settings = DatabaseSettings(url=pooled.url, direct_url=pooled.direct_url, pooler="transaction")
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_database(settings)) for _ in range(PORTS)]


@pytest.fixture
def many(ports: list[Database]) -> list[Rows]:
    """A queue on each port."""
    return [Rows(port) for port in ports]


async def at_once(*calls: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(call)


async def test_claimers_together_never_pass_the_hourly_cap(many: list[Rows]) -> None:
    for number in range(30):
        await many[0].enrich("opencode" if number % 3 == 0 else "claude", law_id=f"BWBR00000{number:02}")
    taken: Counter[str | None] = Counter()
    executions: Counter[object] = Counter()

    async def claimer(rows: Rows) -> None:
        for _ in range(12):
            answer = await rows.claim(JobType.ENRICH, slots=3, budget=BudgetRule(hourly_limit=5))
            taken.update(job.run_provider for job in answer.jobs)
            executions.update(job.id for job in answer.jobs)

    await at_once(*(partial(claimer, rows) for rows in many))
    assert taken["opencode"] == 10
    assert taken["claude"] in {5, 10}  # 10 when the test met the end of a clock hour
    assert set(executions.values()) == {1}


async def test_a_pause_holds_for_every_claimer_and_ends_for_all(many: list[Rows]) -> None:
    one, other, *_ = many
    await one.add()
    await one.enrich("claude", law_id="BWBR0000002")
    await one.enrich("opencode", law_id="BWBR0000003")
    await one.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest")
    await other.database.run(pauses.pause, PauseScope.PROVIDER, "claude")
    rule = BudgetRule(hourly_limit=10)
    for rows in many:
        assert (await rows.claim()).jobs == ()
    found = [job for rows in many for job in (await rows.claim(JobType.ENRICH, slots=5, budget=rule)).jobs]
    assert [job.run_provider for job in found] == ["opencode"]
    assert len(await other.database.run(pauses.paused_names)) == 2
    await other.database.transact(pauses.resume, PauseScope.JOB_TYPE, "harvest")
    await one.database.transact(pauses.resume, PauseScope.PROVIDER, "claude")
    assert len((await one.claim()).jobs) == 1
    assert len((await other.claim(JobType.ENRICH, budget=rule)).jobs) == 1


async def test_completions_alone_and_together_with_and_without_effects_happen_once(many: list[Rows]) -> None:
    one, other, *_ = many
    for number in range(40):
        await one.add(law_id=f"BWBR00000{number:02}")
    jobs = [*(await one.claim(slots=20)).jobs, *(await other.claim(slots=20)).jobs]

    async def settle(connection: Connection, job: Job) -> None:
        await laws.upsert_law(connection, job.law_id)

    calls = [
        partial(
            rows.queue.complete, job.lease_held, {"of": job.law_id}, settle if int(job.law_id[-1]) % 2 else None
        )
        for job in jobs
        for rows in [many[int(job.law_id[-2:]) % PORTS]]
    ]  # fmt: skip
    await at_once(*calls)
    found = [await one.job(job.id) for job in jobs]
    assert [(row.status, row.result) for row in found] == [(JobStatus.COMPLETED, {"of": row.law_id}) for row in found]
    assert await one.value("SELECT count(*) FROM law_entries") == 20
    for job in jobs:
        with pytest.raises(SupervisorError):
            await other.queue.complete(job.lease_held, {"twice": True}, None)


async def test_of_many_equal_requests_one_makes_the_job(ports: list[Database]) -> None:
    answers: list[object] = []

    async def ask(port: Database) -> None:
        answers.extend([await port.transact(request_harvest, HarvestRequest(LAW)) for _ in range(5)])

    await at_once(*(partial(ask, port) for port in ports))
    assert Counter(type(answer) for answer in answers) == {Created: 1, AlreadyQueued: 5 * PORTS - 1}


async def test_of_two_enrich_jobs_for_one_folder_the_later_one_waits(many: list[Rows]) -> None:
    # D53
    one, other, *_ = many
    held = []
    for number in range(2):
        path = f"regulation/nl/wet/lantaarns/2024-0{number + 1}-01.yaml"
        await one.add(JobType.ENRICH, f"BWBR000000{number}", {"law_id": "x", "provider": "opencode", "yaml_path": path})
        held.append(await one.claimed(JobType.ENRICH))
    outcomes: list[str] = []

    async def reserve(rows: Rows, job: Job) -> None:
        try:
            await rows.database.transact(enrich.reserve_directory, job, "opencode", "regulation/nl/wet/lantaarns")
        except DirectoryBusy:
            outcomes.append(f"{job.law_id} waits")

    await at_once(*(partial(reserve, *pair) for pair in zip((one, other), held, strict=True)))
    assert outcomes == ["BWBR0000001 waits"]


async def test_janitors_take_turns_and_delete_what_ended_long_ago_once(many: list[Rows]) -> None:
    await many[0].sql(
        "INSERT INTO jobs (job_type, law_id, status, completed_at) "
        "SELECT 'document_convert', 'doc:' || n, 'completed', now() - interval '40 days' FROM generate_series(1, 300) AS n"
    )
    deleted = 0

    async def pass_over(rows: Rows) -> None:
        nonlocal deleted
        after = None
        while True:
            batch = await rows.database.transact(retention.prune_jobs, days=30, after=after, look_at=50)
            deleted += batch.deleted
            if batch.last is None and not batch.busy:
                return
            after = batch.last if batch.last is not None else after

    await at_once(*(partial(pass_over, rows) for rows in many))
    assert deleted == 300
    assert await many[0].value("SELECT count(*) FROM jobs") == 0


async def test_schedulers_together_fire_each_due_pipeline_once(ports: list[Database]) -> None:
    shop = await Shop.open(ports[0])
    pipelines = [await shop.pipeline(schedule_cron="0 * * * *") for _ in range(12)]
    await shop.rows.sql("UPDATE pipelines SET next_scheduled_at = now() - interval '1 minute'")
    await at_once(*(ScheduleTick(port) for port in ports))
    assert [len(await shop.history(pipeline)) for pipeline in pipelines] == [1] * 12
    assert await shop.rows.value("SELECT count(*) FROM jobs WHERE job_type = 'pipeline_run'") == 12
    assert await shop.rows.value("SELECT bool_and(next_scheduled_at > now()) FROM pipelines")
