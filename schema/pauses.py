"""What nobody claims just now: paused by a person, or a provider in trouble (D52). Read by every claim."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import frozen

from protocols.failures import ProviderTrouble
from protocols.scrub import MAX_STRING_BYTES, scrub_text
from schema.connection import Connection
from schema.queue.endings import WAKE

QUOTA_PROBE_S: Final = 3600.0
REFUSED_PROBE_S: Final = 900.0
LEAST_WAIT_S: Final = 60.0
MOST_WAIT_S: Final = 366 * 86_400.0


class PauseScope(StrEnum):
    JOB_TYPE = "job_type"
    PROVIDER = "provider"


@frozen
class Pause:
    """Set by a person, for all supervisors. ``until`` None: until somebody resumes it."""

    scope: PauseScope
    name: str
    reason: str
    paused_by: str
    paused_at: dt.datetime
    until: dt.datetime | None = None


@frozen
class ProviderPause:
    """Set by a supervisor. ``credential_hash`` '' is the whole provider; ``until`` None: until somebody resumes it.

    From ``probe_at`` on one job may try again; ``probe_job`` is the last that did. A job that succeeds ends the pause.
    """

    provider: str
    credential_hash: str
    until: dt.datetime | None
    reason: str
    paused_at: dt.datetime
    probe_at: dt.datetime | None = None
    probe_job: UUID | None = None


@frozen
class Usable:
    """Which credentials (by hash) a job may not use, and which it must try again because it was let through for that."""

    benched: frozenset[str] = frozenset()
    probes: frozenset[str] = frozenset()


async def pause(
    connection: Connection,
    scope: PauseScope,
    name: str,
    *,
    reason: str = "",
    paused_by: str = "",
    for_s: float | None = None,
) -> None:
    """Running jobs go on; from the next claim on nothing of this kind is taken. Again: the newer words and end stand.

    ``for_s`` seconds from now, by the database clock; None: until somebody resumes it.
    """
    await connection.execute(
        """
        INSERT INTO pauses (scope, name, reason, paused_by, until)
        VALUES ($1, $2, $3, $4, now() + $5::float8 * interval '1 second')
        ON CONFLICT (scope, name) DO UPDATE
            SET reason = excluded.reason, paused_by = excluded.paused_by, paused_at = now(), until = excluded.until
        """,
        scope.value,
        scrub_text(name),
        scrub_text(reason, MAX_STRING_BYTES),
        scrub_text(paused_by),
        for_s,
    )


async def resume(connection: Connection, scope: PauseScope, name: str) -> bool:
    """False: it was not paused. A provider is also freed from the troubles that supervisors noted. Needs a transaction.

    Wakes the claimers, so that all supervisors go on at once (D10).
    """
    rows = await connection.fetch(
        "DELETE FROM pauses WHERE scope = $1 AND name = $2 RETURNING until IS NULL OR until > now() AS held",
        scope.value,
        name,
    )
    freed = await resume_provider(connection, name) if scope is PauseScope.PROVIDER else 0
    await connection.execute(WAKE)
    return any(row["held"] for row in rows) or freed > 0


async def list_pauses(connection: Connection) -> Sequence[Pause]:
    """Those that hold now."""
    rows = await connection.fetch(
        """
        SELECT scope, name, reason, paused_by, paused_at, until FROM pauses
        WHERE until IS NULL OR until > now() ORDER BY scope, name
        """
    )
    return [
        Pause(PauseScope(row["scope"]), row["name"], row["reason"], row["paused_by"], row["paused_at"], row["until"])
        for row in rows
    ]


async def bench_provider(
    connection: Connection,
    provider: str,
    *,
    credential_hash: str = "",
    until: dt.datetime | None = None,
    reason: str,
    probe_s: float | None = None,
) -> None:
    """No claim for this provider, or with this credential, before ``until``. Again: the later of the two moments stands.

    Every ``probe_s`` seconds one job is let through to try again; None: never.
    """
    await connection.execute(
        """
        INSERT INTO provider_pauses AS p (provider, credential_hash, until, reason, probe_s, probe_at)
        VALUES ($1, $2, $3, $4, $5, now() + $5 * interval '1 second')
        ON CONFLICT (provider, credential_hash) DO UPDATE
            SET until = CASE WHEN p.until IS NULL OR excluded.until IS NULL THEN NULL
                             ELSE GREATEST(p.until, excluded.until) END,
                reason = excluded.reason, paused_at = now(),
                probe_s = excluded.probe_s, probe_at = excluded.probe_at, probe_job = NULL
        """,
        provider,
        credential_hash,
        until,
        scrub_text(reason, MAX_STRING_BYTES),
        probe_s,
    )


async def bench_for(connection: Connection, trouble: ProviderTrouble, provider: str) -> None:
    """Bench what ``trouble`` is about: the credential that it names by hash (detail ``credential``), else the provider.

    A quota until the time that the provider named (details ``retry_after_s`` or ``resets_at``, in unix time), tried again
    every hour; a refused login or bill until somebody resumes it, tried again every 15 minutes (D52).
    """
    quota = trouble.details.get("reason") == "quota"
    now: dt.datetime = await connection.fetchval("SELECT now()")
    await bench_provider(
        connection,
        provider,
        credential_hash=str(trouble.details.get("credential") or ""),
        until=_named_end(trouble, now) if quota else None,
        reason=trouble.message,
        probe_s=QUOTA_PROBE_S if quota else REFUSED_PROBE_S,
    )


def _named_end(trouble: ProviderTrouble, now: dt.datetime) -> dt.datetime | None:
    """At least a minute from ``now``, at most a year. None: no time was named, or none that can be meant."""
    wait_s, resets = trouble.details.get("retry_after_s"), trouble.details.get("resets_at")
    if wait_s is None and isinstance(resets, int | float):
        wait_s = resets - now.timestamp()
    if not isinstance(wait_s, int | float) or not math.isfinite(wait_s):
        return None
    return now + dt.timedelta(seconds=min(max(wait_s, LEAST_WAIT_S), MOST_WAIT_S))


async def usable_for(connection: Connection, provider: str, job_id: UUID) -> Usable:
    """What the job with this id, just claimed, may use of the credentials of ``provider``."""
    pauses = [pause for pause in await list_provider_pauses(connection) if pause.provider == provider]
    probes = {pause.credential_hash for pause in pauses if pause.probe_job == job_id}
    return Usable(frozenset({pause.credential_hash for pause in pauses} - probes), frozenset(probes))


async def resume_provider(connection: Connection, provider: str, credential_hash: str | None = None) -> int:
    """Forget the troubles of a provider, or of one of its credentials, and wake the claimers. How many that were."""
    rows = await connection.fetch(
        """
        DELETE FROM provider_pauses WHERE provider = $1 AND ($2::text IS NULL OR credential_hash = $2)
        RETURNING provider
        """,
        provider,
        credential_hash,
    )
    if rows:
        await connection.execute(WAKE)
    return len(rows)


async def list_provider_pauses(connection: Connection) -> Sequence[ProviderPause]:
    """Those that hold now."""
    rows = await connection.fetch(
        """
        SELECT provider, credential_hash, until, reason, paused_at, probe_at, probe_job FROM provider_pauses
        WHERE until IS NULL OR until > now() ORDER BY provider, credential_hash
        """
    )
    return [ProviderPause(**dict(row)) for row in rows]


async def paused_names(connection: Connection) -> tuple[str, ...]:
    """What is paused now, for people: ``harvest``, ``provider:claude``, ``provider:claude (one credential)``."""
    pauses = [
        f"provider:{pause.name}" if pause.scope is PauseScope.PROVIDER else pause.name
        for pause in await list_pauses(connection)
    ]
    benches = [
        f"provider:{bench.provider}{' (one credential)' if bench.credential_hash else ''}"
        for bench in await list_provider_pauses(connection)
    ]
    return tuple(dict.fromkeys([*pauses, *benches]))
