"""Whether anybody is there to run jobs. For people who wait; nothing else depends on it."""

from __future__ import annotations

from typing import Final

from schema.connection import Connection

SUPERVISOR_SESSION: Final = "regelrecht-supervisor run"
"""The name that a running supervisor gives its sessions; commands call themselves otherwise."""


async def supervisors_seen(connection: Connection, *, beat_within_s: float = 90) -> bool:
    """A supervisor has a session on this database, or somebody beat a job lately.

    The second covers sessions that we may not see: those behind a pooler, or of another role of the server.
    """
    return bool(
        await connection.fetchval(
            """
            SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)
                OR EXISTS (SELECT FROM jobs WHERE status = 'processing'
                           AND GREATEST(heartbeat_at, started_at) > now() - $2 * interval '1 second')
            """,
            SUPERVISOR_SESSION,
            beat_within_s,
        )
    )
