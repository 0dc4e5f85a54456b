"""Whether anybody is there to run jobs. For people who wait; nothing else depends on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schema.connection import Connection
from schema.rows import JobType

SUPERVISOR_SESSION: Final = "regelrecht-supervisor run"
"""How the sessions of a running supervisor are called; commands call themselves otherwise."""

_LONGEST_NAME: Final = 63
"""The server cuts the name of a session there."""


def supervisor_session(roles: Iterable[str]) -> str:
    """The name of the sessions of a supervisor that takes jobs for ``roles``. With too many of them none is named."""
    name = f"{SUPERVISOR_SESSION}:{','.join(roles)}"
    return name if len(name) <= _LONGEST_NAME else SUPERVISOR_SESSION


async def supervisors_seen(
    connection: Connection, role: str | None = None, job_type: JobType | None = None, *, beat_within_s: float = 90
) -> bool:
    """A supervisor with ``role`` has a session on this database, or somebody beat a job of the type lately. None: any.

    The second covers sessions that we may not see: those behind a pooler, or of another role of the server. A session
    that names no roles may be anybody's and counts.
    """
    return bool(
        await connection.fetchval(
            """
            SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                           AND (application_name = $1 OR application_name LIKE $1 || ':_%'
                                AND COALESCE($2 = ANY (string_to_array(split_part(application_name, ':', 2), ',')), true)))
                OR EXISTS (SELECT FROM jobs WHERE status = 'processing'
                           AND COALESCE(job_type = $3::text::job_type, true)
                           AND GREATEST(heartbeat_at, started_at) > now() - $4 * interval '1 second')
            """,
            SUPERVISOR_SESSION,
            role,
            None if job_type is None else job_type.value,
            beat_within_s,
        )
    )
