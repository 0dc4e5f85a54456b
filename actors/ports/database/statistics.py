"""Figures of the port, for the metrics and the debug prompt."""

from __future__ import annotations

from attrs import define, frozen

from schema.connection import Connection


@frozen
class DatabaseStatistics:
    """One moment. Counters count from the opening of the port."""

    pool_max: int
    pool_size: int
    pool_idle: int
    pool_in_use: int
    waiting: int
    """Units that wait for a connection of the pool."""
    beat_connected: bool
    listening: bool
    """LISTEN is proven: a notification sent to ourselves came back on the present connection (D10)."""
    listen_sessions: int
    """How often LISTEN was set up anew; 1 is the first time."""
    repeated: int
    """Units that ran again after a deadlock or a serialization failure."""
    unclear: int
    """Answers of the kind ``OutcomeUnclear``."""
    terminated: int
    """Connections thrown away instead of reused."""
    loop_errors: int
    """Errors that the driver's background tasks reported and nobody waited for."""


@define
class Counters:
    waiting: int = 0
    listening: bool = False
    listen_sessions: int = 0
    repeated: int = 0
    unclear: int = 0
    terminated: int = 0
    loop_errors: int = 0


async def oldest_snapshot_age_s(connection: Connection) -> float:
    """Age of the oldest snapshot that others hold in this database, 0 when there is none.

    An old one keeps dead rows alive, and claims then walk over all of them: six times slower after 18,000 jobs.
    Of other users' sessions only those show that the role may see.
    """
    age: float = await connection.fetchval(
        """
        SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
        FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND datname = current_database() AND pid <> pg_backend_pid()
        """
    )
    return age
