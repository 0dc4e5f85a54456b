"""A law that is harvested while the follow-ups of another are being made gets no second job (D15)."""

from __future__ import annotations

import asyncio
from typing import Any

import trio

from schema.connection import Connection
from schema.queue.create import create_harvest_jobs
from schema.rows import Job, JobRequest, JobType
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

_SOMEBODY_WAITS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
"""
_HARVESTED = "SELECT EXISTS (SELECT FROM jobs WHERE law_id = $1 AND status = 'completed')"


def follow_up(law_id: str) -> JobRequest:
    return JobRequest(JobType.HARVEST, law_id, payload={"bwb_id": law_id})


async def until(connection: Connection, query: str, *args: Any) -> None:
    """Until ``query`` says yes; in READ COMMITTED each look is a new one."""
    while not await connection.fetchval(query, *args):  # noqa: ASYNC110 - the database tells nobody
        await asyncio.sleep(0.01)


async def test_a_law_that_was_harvested_while_the_insert_waited_is_left_alone(rows: Rows) -> None:
    made: list[Job] = []

    async def follow() -> None:
        made.extend(await rows.database.transact(create_harvest_jobs, [follow_up(LAW), follow_up(OTHER_LAW)]))

    async def harvest_the_other_law() -> None:
        await rows.database.run(until, _SOMEBODY_WAITS)
        job = await rows.add(law_id=OTHER_LAW)
        await rows.sql("UPDATE jobs SET status = 'completed', completed_at = now() WHERE id = $1", job.id)

    async with trio.open_nursery() as nursery:
        begun = trio.Event()
        token = trio.lowlevel.current_trio_token()

        async def keep_the_first_law(connection: Connection) -> None:
            """The follow-ups wait for this row at the unique index; meanwhile the other law comes and is harvested."""
            await connection.execute("INSERT INTO jobs (job_type, law_id) VALUES ('harvest', $1)", LAW)
            token.run_sync_soon(begun.set)
            await until(connection, _HARVESTED, OTHER_LAW)

        nursery.start_soon(rows.database.transact, keep_the_first_law)
        await begun.wait()
        nursery.start_soon(follow)
        await harvest_the_other_law()
    assert made == []
    assert [job.status.value for job in await rows.jobs_of(OTHER_LAW)] == ["completed"]
    assert len(await rows.jobs_of(LAW)) == 1


async def test_what_was_not_harvested_is_queued_all_the_same(rows: Rows) -> None:
    made = await rows.database.transact(create_harvest_jobs, [follow_up(LAW), follow_up(OTHER_LAW)])
    assert [job.law_id for job in made] == [LAW, OTHER_LAW]
