"""Every commit of the queue, lost right before and right after it: what is left, and that the next call makes it good.

``injuries.UNITS`` lists them all (``test_plan.py`` holds it to the code). In the fault runs a process is killed there in the
middle of everything; here one unit at a time loses its connection, and what must come of that is exact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
import trio
from attrs import define, field
from structlog.testing import capture_logs

from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.database.failpoint import name_of
from actors.ports.pgqueue import PgQueue
from actors.ports.queue import ClaimRequest, ReapRule, Want
from protocols.failures import OutcomeUnclear, Transient
from schema.connection import Connection
from schema.rows import Job, JobStatus, JobType, Lease
from tests.faults.injuries import UNITS
from tests.kit.jobrows import LAW, Rows

Moment = Literal["before", "after"]


@define
class Losing:
    """The database port; the answer of the first unit named ``lose`` never comes, although it was done."""

    real: Database
    lose: str = ""

    async def run(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._answer(fn, await self.real.run(fn, *args, **kwargs))

    async def transact(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._answer(fn, await self.real.transact(fn, *args, **kwargs))

    async def beat(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return await self.real.beat(fn, *args, **kwargs)

    async def _answer(self, fn: Any, answer: Any) -> Any:
        if name_of(fn) == self.lose:
            self.lose = ""
            raise OutcomeUnclear("lost")
        return answer


@define
class Scene:
    """``hurt`` is a queue whose connection is lost once at the point of the scene; ``rows`` looks on from beside."""

    rows: Rows
    line: Losing
    hurt: PgQueue
    moment: Moment
    token: UUID = field(factory=uuid4)

    @property
    def landed(self) -> bool:
        return self.moment == "after"

    async def held(self, **more: Any) -> Lease:
        """A claimed harvest."""
        await self.rows.add(**more)
        return (await self.rows.claimed()).lease_held

    async def status(self, lease: Lease) -> str:
        return (await self.rows.job(lease.job_id)).status.value

    async def unclear(self, call: Awaitable[Any]) -> None:
        """It says that it does not know, and nothing else."""
        with pytest.raises(OutcomeUnclear):
            await call


async def settle(connection: Connection, job: Job) -> None:
    await connection.execute("INSERT INTO law_entries (law_id, status) VALUES ($1, 'harvested')", job.law_id)


async def claiming(scene: Scene) -> None:
    """D7: the token is released whether the claim landed or not, and the job is pending with its attempt given back."""
    job = await scene.rows.add()
    request = ClaimRequest(scene.token, "hurt", (Want((JobType.HARVEST,), 1),))
    await scene.unclear(scene.hurt.claim(request))
    assert (await scene.rows.job(job.id)).attempts == int(scene.landed)
    assert await scene.hurt.release_tokens([scene.token], why="unclear") == int(scene.landed)
    row = await scene.rows.job(job.id)
    assert (row.status, row.deaths, row.lease) == (JobStatus.PENDING, 0, None)
    assert (await scene.hurt.claim(request)).jobs[0].id == job.id


async def beating(scene: Scene) -> None:
    lease = await scene.held()
    await scene.rows.age(lease.job_id, 100)
    await scene.unclear(scene.hurt.beat([lease]))
    age = "SELECT now() - heartbeat_at < interval '50 seconds' FROM jobs"
    assert await scene.rows.value(age) is scene.landed
    assert (await scene.hurt.beat([lease])).confirmed == {lease}
    assert await scene.rows.value(age)


async def progressing(scene: Scene) -> None:
    lease = await scene.held()
    await scene.unclear(scene.hurt.write_progress({lease: {"step": 1}}))
    assert (await scene.rows.job(lease.job_id)).progress == ({"step": 1} if scene.landed else None)
    await scene.hurt.write_progress({lease: {"step": 2}})
    assert (await scene.rows.job(lease.job_id)).progress == {"step": 2}


async def hearing_of_cancels(scene: Scene) -> None:
    lease = await scene.held()
    await scene.rows.sql("UPDATE jobs SET cancel_requested_at = now()")
    await scene.unclear(scene.hurt.cancel_requests([lease]))
    assert await scene.hurt.cancel_requests([lease]) == {lease}


async def completing(scene: Scene) -> None:
    """The queue resolves it itself: completed, once, whatever was lost."""
    lease = await scene.held()
    await scene.hurt.complete(lease, {"n": 1})
    row = await scene.rows.job(lease.job_id)
    assert (row.status, row.result, row.attempts, row.lease) == (JobStatus.COMPLETED, {"n": 1}, 1, None)


async def completing_with_effects(scene: Scene) -> None:
    lease = await scene.held()
    await scene.hurt.complete(lease, {"n": 1}, settle)
    assert await scene.status(lease) == "completed"
    assert await scene.rows.value("SELECT count(*) FROM law_entries") == 1


async def completing_together(scene: Scene) -> None:
    leases = [await scene.held(law_id=f"BWBR000000{n}") for n in range(4)]
    async with trio.open_nursery() as nursery:
        for lease in leases:
            nursery.start_soon(scene.hurt.complete, lease, {"of": str(lease.job_id)})
    rows = [await scene.rows.job(lease.job_id) for lease in leases]
    assert [(row.status, row.result) for row in rows] == [(JobStatus.COMPLETED, {"of": str(row.id)}) for row in rows]


async def releasing(scene: Scene) -> None:
    await scene.rows.add()
    job = await scene.rows.claimed()
    tokens = [job.lease_held.token]
    await scene.unclear(scene.hurt.release_tokens(tokens, why="suspect"))
    assert await scene.status(job.lease_held) == ("pending" if scene.landed else "processing")
    assert await scene.hurt.release_tokens(tokens, why="suspect") == int(not scene.landed)
    assert (await scene.rows.job(job.id)).releases == 1


async def looking_where_it_stands(scene: Scene) -> None:
    """The look is cut as well, right after the completion: it is made again."""
    lease = await scene.held()
    scene.line.lose = "endings.complete"
    await scene.hurt.complete(lease, {"n": 1})
    assert await scene.status(lease) == "completed"


async def asking_how_it_ended(scene: Scene) -> None:
    """A failure that landed with a lost answer: how it ended is asked, and when that is lost too, it is said so."""
    lease = await scene.held(max_attempts=1)
    scene.line.lose = "outcomes.fail"
    await scene.unclear(scene.hurt.fail(lease, Transient("x")))
    assert await scene.status(lease) == "failed"
    assert (await scene.rows.law()).harvest_fail_count == 1


async def writing(scene: Scene) -> None:
    lease = await scene.held()
    await scene.unclear(scene.hurt.write(lease, settle))
    assert await scene.rows.value("SELECT count(*) FROM law_entries") == int(scene.landed)
    assert await scene.status(lease) == "processing"


async def failing(scene: Scene) -> None:
    lease = await scene.held(max_attempts=1)
    assert await scene.hurt.fail(lease, Transient("x")) is JobStatus.FAILED
    assert (await scene.rows.law()).harvest_fail_count == 1


async def handing_back(scene: Scene) -> None:
    lease = await scene.held()
    assert await scene.hurt.hand_back(lease, why="drain")
    row = await scene.rows.job(lease.job_id)
    assert (row.status, row.releases, row.deaths, row.result) == (JobStatus.PENDING, 1, 0, None)


async def finding_orphans(scene: Scene) -> None:
    lease = await scene.held()
    await scene.rows.age(lease.job_id, 301)
    await scene.unclear(scene.hurt.reap(ReapRule()))
    assert await scene.status(lease) == "processing"
    reaped = await scene.hurt.reap(ReapRule())
    assert reaped is not None
    assert reaped.id == lease.job_id


async def reaping(scene: Scene) -> None:
    """With its aftercare or not at all (D3), and by whoever comes next."""
    lease = await scene.held(max_attempts=1)
    await scene.rows.age(lease.job_id, 301)
    await scene.unclear(scene.hurt.reap(ReapRule()))
    counts = "SELECT count(*) FROM law_entries WHERE harvest_fail_count = 1 AND law_id = $1"
    assert await scene.status(lease) == ("failed" if scene.landed else "processing")
    assert await scene.rows.value(counts, LAW) == int(scene.landed)
    assert (await scene.hurt.reap(ReapRule()) is None) is scene.landed
    assert await scene.status(lease) == "failed"
    assert await scene.rows.value(counts, LAW) == 1


async def sweeping(scene: Scene) -> None:
    await scene.rows.sql(
        "INSERT INTO job_blobs (job_id, kind, path, content, created_at) "
        "VALUES (gen_random_uuid(), 'input', 'a', '', now() - interval '8 days')"
    )
    await scene.unclear(scene.hurt.sweep())
    await scene.hurt.sweep()
    assert await scene.rows.value("SELECT count(*) FROM job_blobs") == 0


SCENES: Mapping[str, Callable[[Scene], Awaitable[None]]] = {
    "claim.claim": claiming,
    "beats.beat": beating,
    "beats.write_progress": progressing,
    "beats.cancel_requests": hearing_of_cancels,
    "endings.complete": completing,
    "endings.complete_many": completing_together,
    "endings.release_tokens": releasing,
    "endings.standing": looking_where_it_stands,
    "endings.status_of": asking_how_it_ended,
    "outcomes.complete": completing_with_effects,
    "outcomes.write": writing,
    "outcomes.fail": failing,
    "outcomes.hand_back": handing_back,
    "outcomes.reap_one": reaping,
    "reap.orphans": finding_orphans,
    "tasks.sweep": sweeping,
    "aftercare.fail_orphans": sweeping,
}


@pytest.fixture
async def rows(database: Database) -> Rows:
    return Rows(database)


def test_there_is_a_scene_for_every_commit() -> None:
    assert set(SCENES) == set(UNITS)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("unit", UNITS)
async def test_a_connection_lost_at_a_commit_loses_and_doubles_nothing(
    rows: Rows, database_url: str, unit: str, moment: Moment
) -> None:
    settings = DatabaseSettings(url=database_url, failpoint=f"{unit}.{moment}:1:cut")
    with capture_logs() as said:
        async with open_database(settings) as database:
            line = Losing(database)
            await SCENES[unit](Scene(rows, line, PgQueue(line), moment))  # type: ignore[arg-type]
            assert database.statistics.pool_in_use == 0
    points = [line for line in said if line["event"] == "failpoint"]
    assert [(line["unit"], line["moment"]) for line in points] == [(unit, moment)]
    assert await rows.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == 0
