"""Whether anybody is there who takes a job: by the roles of supervisors, since one of another role never will."""

from __future__ import annotations

import pytest

from actors.ports.database import DatabaseSettings, open_database
from schema import migrate
from schema.connection import Connection
from schema.queue.presence import SUPERVISOR_SESSION, supervisor_session, supervisors_seen
from schema.rows import JobType


async def name_of(connection: Connection) -> str:
    return str(await connection.fetchval("SELECT current_setting('application_name')"))


@pytest.mark.parametrize(
    ("roles", "any_job", "harvests"),
    [
        (["harvest"], True, True),
        (["enrich", "harvest"], True, True),
        (["enrich"], True, False),
        (["harvester"], True, False),
        ([], False, False),  # such as a scheduler alone
        ([f"role-of-another-package-{n}" for n in range(9)], True, True),  # too long to name: it may be anybody's
    ],
)
async def test_a_supervisor_is_seen_by_those_who_wait_for_its_roles_only(
    database_url: str, roles: list[str], any_job: bool, harvests: bool
) -> None:
    session = supervisor_session(roles)
    async with open_database(DatabaseSettings(url=database_url)) as asking:
        await asking.direct(migrate.migrate)
        assert not await asking.run(supervisors_seen)
        async with open_database(DatabaseSettings(url=database_url, application_name=session)) as supervisor:
            assert await supervisor.run(name_of) == session  # the server cut nothing off
            assert await asking.run(supervisors_seen) is any_job
            assert await asking.run(supervisors_seen, "harvest", JobType.HARVEST) is harvests
    assert session.startswith(SUPERVISOR_SESSION)


async def test_a_beat_of_a_job_shows_somebody_for_jobs_of_its_type_only(database_url: str) -> None:
    async with open_database(DatabaseSettings(url=database_url)) as database:
        await database.direct(migrate.migrate)
        await database.run(held_enrichment)
        assert await database.run(supervisors_seen, "enrich", JobType.ENRICH)
        assert not await database.run(supervisors_seen, "harvest", JobType.HARVEST)
        assert await database.run(supervisors_seen)


async def held_enrichment(connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO jobs (job_type, law_id, status, started_at, heartbeat_at, payload) "
        "VALUES ('enrich', 'BWBR0990001', 'processing', now(), now(), '{\"provider\": \"claude\"}')"
    )
