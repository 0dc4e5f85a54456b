"""The port over the queue: lost answers are resolved, refused texts do not keep a job running (D7, DB-09)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from attrs import define, field

from actors.ports.database import Database
from actors.ports.pgqueue import PgQueue
from protocols.failures import DatabaseUnavailable, LeaseLost, OutcomeUnclear, Transient
from schema import aftercare
from schema.aftercare import AFTERCARE, TypeAftercare
from schema.connection import Connection
from schema.queue import endings
from schema.rows import Job, JobStatus, JobType, LawStatus, Lease
from tests.kit.jobrows import LAW, Rows


@define
class LosesAnswers:
    """The database port on a bad line: what happens to the next writes, one word each.

    ``lost``: written, the answer never came. ``cut``: not written, nobody knows. ``away``: for the looks that follow.
    """

    real: Database
    script: list[str] = field(factory=list)
    looks: list[str] = field(factory=list)
    written: int = 0

    async def run(self, fn: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        if fn is endings.standing:
            if self.looks and self.looks.pop(0) == "away":
                raise DatabaseUnavailable("no route")
            return await self.real.run(fn, *args, **kwargs)
        return await self._write(self.real.run, fn, *args, **kwargs)

    async def transact(self, fn: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        return await self._write(self.real.transact, fn, *args, **kwargs)

    async def _write(self, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        fate = self.script.pop(0) if self.script else "fine"
        if fate == "cut":
            raise OutcomeUnclear("cut")
        self.written += 1
        answer = await call(*args, **kwargs)
        if fate == "lost":
            raise OutcomeUnclear("lost")
        return answer


@pytest.fixture
def line(rows: Rows) -> LosesAnswers:
    line = LosesAnswers(rows.database)
    rows.queue = PgQueue(line)  # type: ignore[arg-type]
    return line


async def claimed(rows: Rows, **more: Any) -> Lease:
    await rows.add(**more)
    return (await rows.claimed()).lease_held


async def settle(connection: Connection, job: Job) -> None:
    await connection.execute("INSERT INTO law_entries (law_id, status) VALUES ($1, 'harvested')", job.law_id)


@pytest.mark.parametrize("script", [["lost"], ["cut"], ["cut", "cut", "lost"], ["cut", "cut", "cut", "cut", "lost"]])
@pytest.mark.parametrize("settles", [True, False])
async def test_a_completion_with_a_lost_answer_happens_exactly_once(
    rows: Rows, line: LosesAnswers, script: list[str], settles: bool
) -> None:
    lease = await claimed(rows)
    line.script, line.written = script, 0
    await rows.queue.complete(lease, {"n": 1}, settle if settles else None)
    assert (await rows.job(lease.job_id)).result == {"n": 1}
    assert await rows.value("SELECT count(*) FROM law_entries") == int(settles)
    assert line.written == 1


async def test_a_failure_with_a_lost_answer_is_counted_once_and_tells_its_status(
    rows: Rows, line: LosesAnswers
) -> None:
    lease = await claimed(rows, max_attempts=1)
    line.script = ["lost"]
    assert await rows.queue.fail(lease, Transient("x")) is JobStatus.FAILED
    assert (await rows.law()).harvest_fail_count == 1


@pytest.mark.parametrize("fate", ["lost", "cut"])
async def test_a_hand_back_with_a_lost_answer_is_one_hand_back(rows: Rows, line: LosesAnswers, fate: str) -> None:
    lease = await claimed(rows)
    line.script = [fate]
    assert await rows.queue.hand_back(lease, why="drain")
    assert (await rows.job(lease.job_id)).releases == 1


async def test_a_job_that_was_taken_away_in_the_meantime_is_lost_not_repeated(rows: Rows, line: LosesAnswers) -> None:
    lease = await claimed(rows)
    await rows.sql("UPDATE jobs SET lease = $2, attempts = 2 WHERE id = $1", lease.job_id, uuid4())
    line.script = ["cut"]
    with pytest.raises(LeaseLost):
        await rows.queue.complete(lease, None, settle)
    assert (await rows.job(lease.job_id)).status is JobStatus.PROCESSING
    line.script = ["cut"]
    assert await rows.queue.hand_back(lease, why="drain") is False


async def test_while_the_database_is_away_the_question_is_asked_again(rows: Rows, line: LosesAnswers) -> None:
    lease = await claimed(rows)
    line.script, line.looks = ["lost"], ["away", "away"]
    await rows.queue.complete(lease, None, settle)
    assert (await rows.job(lease.job_id)).status is JobStatus.COMPLETED


async def test_what_stays_unclear_is_said_to_be_unclear_and_never_to_be_refused(rows: Rows, line: LosesAnswers) -> None:
    lease = await claimed(rows)
    line.script, line.looks = ["lost"], ["away"] * 20
    with pytest.raises(OutcomeUnclear):
        await rows.queue.complete(lease, None, settle)
    lease = await claimed(rows, law_id="BWBR0000009")
    line.script, line.looks = ["cut"] * 20, []
    with pytest.raises(OutcomeUnclear):
        await rows.queue.complete(lease, None, settle)


async def test_an_aftercare_that_the_database_refuses_does_not_keep_the_job_running(  # DB-09
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(connection: Connection, ending: aftercare.Ending) -> None:
        await connection.execute("SELECT E'\\\\x00'::text || chr(0)")

    monkeypatch.setitem(AFTERCARE, JobType.HARVEST, TypeAftercare(breaks, breaks, breaks))
    lease = await claimed(rows, max_attempts=1)
    assert await rows.queue.fail(lease, Transient("secret words")) is JobStatus.FAILED
    row = await rows.job(lease.job_id)
    assert "could not be stored" in row.result["error"]


async def test_a_unit_in_the_middle_of_a_job_is_fenced_and_whole(rows: Rows) -> None:
    lease = await claimed(rows)
    await rows.queue.write(lease, settle)
    assert (await rows.law(LAW)).status is LawStatus.HARVESTED

    async def breaks(connection: Connection, job: Job) -> None:
        await connection.execute("UPDATE law_entries SET status = 'unknown'")
        raise Transient("x")

    with pytest.raises(Transient):
        await rows.queue.write(lease, breaks)
    assert (await rows.law(LAW)).status is LawStatus.HARVESTED
    await rows.queue.complete(lease, None)
    with pytest.raises(LeaseLost):
        await rows.queue.write(lease, settle)
