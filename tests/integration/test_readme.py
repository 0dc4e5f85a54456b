"""The README is true: its Python runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.ports.database import Database
from schema import laws, queue
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.postgres import run_on

README = Path(__file__).parents[2] / "README.md"
LAW = "BWBR0018451"
WorkOnce = Callable[[Database, Callable[[Job], Awaitable[dict[str, str]]]], Awaitable[bool]]


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def names_of(block: str) -> dict[str, Any]:
    """What a block defines, without its last line when that runs something."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(re.sub(r"^trio\.run\(.*\)$", "", block, flags=re.MULTILINE), names)
    return names


@pytest.mark.claim(
    "S1-016", "S1-017", "S1-018", "S1-026", "S1-030", "S1-031", "S1-032", "S1-033", "S1-034", "S1-037", "S1-038"
)
def test_the_first_example_migrates_an_empty_database_and_requests_a_harvest(empty_database_url: str) -> None:
    example, _ = blocks()
    subprocess.run(
        [sys.executable, "-c", example],
        env={**os.environ, "DATABASE_URL": empty_database_url},
        check=True,
        timeout=60,
    )
    [job] = run_on(empty_database_url, queue.list_jobs)
    assert (job.law_id, job.job_type, job.priority, job.status) == (LAW, JobType.HARVEST, 80, JobStatus.PENDING)
    assert job.payload == {"bwb_id": LAW}
    assert run_on(empty_database_url, queue.get_job, job.id) == job
    [law] = run_on(empty_database_url, laws.list_laws, LawStatus.QUEUED)
    assert (law.law_id, law.law_name, law.harvest_job_id) == (LAW, "Wet op de zorgtoeslag", job.id)


@pytest.mark.claim("S1-006", "S1-025")
async def test_the_request_of_the_example_happens_as_a_whole_or_not_at_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_harvest = names_of(blocks()[0])["request_harvest"]
    for step in ("upsert_law", "set_harvest_job", "update_status"):

        async def breaks(*_: object, step: str = step) -> None:
            raise RuntimeError(step)

        with monkeypatch.context() as patch:
            patch.setattr(laws, step, breaks)
            with pytest.raises(RuntimeError, match=step):
                await database.transact(request_harvest, LAW, "name")
        assert await database.run(queue.list_jobs) == []
        assert await database.run(laws.list_laws) == []
    await database.transact(request_harvest, LAW, "name")
    assert len(await database.run(queue.list_jobs)) == 1


@pytest.mark.claim("S1-019", "S1-020", "S1-021", "S1-024", "S1-027", "S1-028")
async def test_the_worker_of_the_example_claims_beats_and_completes(database: Database) -> None:
    example = names_of(blocks()[1])
    work_once: WorkOnce = example["work_once"]

    async def nothing(job: Job) -> dict[str, str]:
        raise AssertionError(f"there is no job, but {job} was claimed")

    assert await work_once(database, nothing) is False
    await database.transact(names_of(blocks()[0])["request_harvest"], LAW, "name")
    seen: list[tuple[JobStatus, LawStatus, bool]] = []

    async def harvest(job: Job) -> dict[str, str]:
        law = await database.run(laws.get_law, LAW)
        row = await database.run(queue.get_job, job.id)
        seen.append((row.status, law.status, await database.beat(queue.beat, job)))
        return {"law_name": "Wet op de zorgtoeslag"}

    assert await work_once(database, harvest) is True
    assert seen == [(JobStatus.PROCESSING, LawStatus.HARVESTING, True)]
    [job] = await database.run(queue.list_jobs, JobStatus.COMPLETED)
    assert job.result == {"law_name": "Wet op de zorgtoeslag"}
    assert (await database.run(laws.get_law, LAW)).status is LawStatus.HARVESTED


@pytest.mark.claim("S1-022", "S1-023", "S1-029")
async def test_the_worker_of_the_example_leaves_the_law_queued_while_attempts_are_left(database: Database) -> None:
    work_once: WorkOnce = names_of(blocks()[1])["work_once"]
    await database.transact(names_of(blocks()[0])["request_harvest"], LAW, "name")

    async def fails(job: Job) -> dict[str, str]:
        raise OSError("no route to host")

    for attempt in (1, 2, 3):
        assert await work_once(database, fails) is True
        [job] = await database.run(queue.list_jobs)
        law = await database.run(laws.get_law, LAW)
        assert job.result == {"error": "no route to host"}
        if attempt < 3:
            assert (job.status, law.status) == (JobStatus.PENDING, LawStatus.QUEUED)
            await database.run(_make_due, job)
        else:
            assert (job.status, law.status) == (JobStatus.FAILED, LawStatus.HARVEST_FAILED)


async def _make_due(connection: Any, job: Job) -> None:
    """Time passes: the delay before the next attempt is over."""
    await connection.execute("UPDATE jobs SET scheduled_at = now() WHERE id = $1", job.id)
