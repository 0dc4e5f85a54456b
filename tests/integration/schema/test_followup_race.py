"""A law that is harvested while the follow-ups of another are being made gets no second job (D15)."""

from __future__ import annotations

import asyncio
from typing import Any

import trio

from schema.connection import Connection
from schema.queue.create import create_harvest_jobs
from schema.rows import Job, JobRequest, JobType
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def follow_up(law_id: str) -> JobRequest:
    return JobRequest(JobType.HARVEST, law_id, payload={"bwb_id": law_id})


async def _until_somebody_waits(connection: Connection) -> None:
    while not await connection.fetchval(WAITING):
        await asyncio.sleep(0.01)


async def test_a_law_that_was_harvested_while_the_insert_waited_is_left_alone(rows: Rows) -> None:
    made: list[Job] = []

    async def hold_the_first_law(connection: Connection) -> None:
        """Keeps the other waiting at the unique index, and meanwhile the second law is queued, claimed and harvested."""
        await connection.execute("INSERT INTO jobs (job_type, law_id) VALUES ('harvest', $1)", LAW)
        await _until_somebody_waits(connection)

    async def harvest_the_second_law() -> None:
        await rows.database.run(_until_somebody_waits)
        job = await rows.add(law_id=OTHER_LAW)
        await rows.sql("UPDATE jobs SET status = 'completed', completed_at = now() WHERE id = $1", job.id)

    async def follow() -> None:
        made.extend(await rows.database.transact(create_harvest_jobs, [follow_up(LAW), follow_up(OTHER_LAW)]))

    async def slowly(connection: Connection) -> None:
        await hold_the_first_law(connection)
        while not await connection.fetchval(_HARVESTED, OTHER_LAW):  # READ COMMITTED: each look is a new one
            await asyncio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rows.database.transact, slowly)
        nursery.start_soon(harvest_the_second_law)
        while not await rows.value("SELECT count(*) FROM pg_locks WHERE mode = 'RowExclusiveLock'"):
            await trio.sleep(0.01)
        nursery.start_soon(follow)
    assert made == []
    assert [job.status.value for job in await rows.jobs_of(OTHER_LAW)] == ["completed"]
    assert len(await rows.jobs_of(LAW)) == 1


_HARVESTED = "SELECT EXISTS (SELECT FROM jobs WHERE law_id = $1 AND status = 'completed')"


async def test_what_is_not_harvested_yet_is_queued_all_the_same(rows: Rows) -> None:
    async def unit(connection: Connection) -> Any:
        return await create_harvest_jobs(connection, [follow_up(LAW), follow_up(OTHER_LAW)])

    made = await rows.database.transact(unit)
    assert [job.law_id for job in made] == [LAW, OTHER_LAW]
