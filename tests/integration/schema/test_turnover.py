"""Completing and claiming in one transaction (D8)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from actors.ports.database import Database
from schema.connection import Connection
from schema.queue.terms import ClaimAnswer, ClaimRequest, Want
from schema.queue.turnover import turn_over
from schema.rows import JobStatus, JobType, Lease
from tests.kit.jobrows import Rows

TYPE = JobType.TRAJECT_HARVEST


def request(slots: int) -> ClaimRequest:
    return ClaimRequest(uuid4(), "test", (Want((TYPE,), slots),))


async def test_what_is_done_is_completed_and_the_next_are_claimed(rows: Rows) -> None:
    for number in range(5):
        await rows.add(TYPE, f"L{number}")
    none, first = await rows.database.transact(turn_over, {}, request(2))
    assert (none, len(first.jobs)) == (frozenset(), 2)
    results = {job.lease_held: {"n": index} for index, job in enumerate(first.jobs)}
    done, second = await rows.database.transact(turn_over, results, request(2))
    assert done == frozenset(results)
    assert {job.status for job in second.jobs} == {JobStatus.PROCESSING}
    assert [(await rows.job(job.id)).result for job in first.jobs] == [{"n": 0}, {"n": 1}]
    assert {job.id for job in second.jobs}.isdisjoint(job.id for job in first.jobs)


async def test_a_lease_that_was_lost_is_told_and_keeps_nothing_from_being_claimed(rows: Rows) -> None:
    await rows.add(TYPE, "L1")
    await rows.add(TYPE, "L2")
    _, answer = await rows.database.transact(turn_over, {}, request(1))
    stale = Lease(answer.jobs[0].id, uuid4(), 1)
    done, following = await rows.database.transact(turn_over, {stale: None}, request(1))
    assert (done, len(following.jobs)) == (frozenset(), 1)
    assert (await rows.job(answer.jobs[0].id)).status is JobStatus.PROCESSING


async def test_when_it_fails_neither_happened(rows: Rows, database: Database) -> None:
    await rows.add(TYPE, "L1")
    await rows.add(TYPE, "L2")
    _, answer = await database.transact(turn_over, {}, request(1))
    lease = answer.jobs[0].lease_held

    async def cut_off(connection: Connection) -> ClaimAnswer:
        await turn_over(connection, {lease: None}, request(1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.transact(cut_off)
    statuses = await rows.sql("SELECT law_id, status::text FROM jobs ORDER BY law_id")
    assert sorted(row["status"] for row in statuses) == ["pending", "processing"]
    assert (await rows.job(lease.job_id)).status is JobStatus.PROCESSING
