"""Trying a benched provider or credential again: one claim in a while is let through (D52).

The claim locks the pauses that are due, so that of all supervisors one probes; the job that it took is written into the
pause, may use the credential, and ends the pause when its provider answers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from schema.connection import Connection
from schema.queue.endings import WAKE
from schema.queue.survey import Pair
from schema.rows import Job

DEFAULT_PROBE_S: Final = 900.0


async def hold_probes(connection: Connection, pairs: Collection[Pair], *, at: dt.datetime | None) -> frozenset[Pair]:
    """Those of ``pairs`` that are still due and that no other claim holds. They are ours until the transaction ends."""
    rows = await connection.fetch(
        """
        SELECT p.provider, p.credential_hash FROM provider_pauses AS p
        JOIN unnest($1::text[], $2::text[]) AS wanted(provider, hash)
            ON p.provider = wanted.provider AND p.credential_hash = wanted.hash
        WHERE p.probe_at <= COALESCE($3::timestamptz, now())
        FOR UPDATE OF p SKIP LOCKED
        """,
        [provider for provider, _ in pairs],
        [digest for _, digest in pairs],
        at,
    )
    return frozenset((row["provider"], row["credential_hash"]) for row in rows)


async def assign_probes(
    connection: Connection, held: Collection[Pair], jobs: Sequence[Job], *, at: dt.datetime | None
) -> None:
    """Let ``jobs`` that were just claimed probe what they can: each one credential, the first also the provider as a whole."""
    chosen: list[tuple[Pair, UUID]] = []
    for provider in {pair[0] for pair in held}:
        runs = [job.id for job in jobs if job.run_provider == provider]
        hashes = sorted(digest for name, digest in held if name == provider and digest)
        chosen += [((provider, digest), job_id) for digest, job_id in zip(hashes, runs, strict=False)]
        if (provider, "") in held and runs:
            chosen.append(((provider, ""), runs[0]))
    if not chosen:
        return
    await connection.execute(
        """
        UPDATE provider_pauses AS p SET probe_job = c.job_id,
            probe_at = COALESCE($4::timestamptz, now()) + COALESCE(p.probe_s, $5) * interval '1 second'
        FROM unnest($1::text[], $2::text[], $3::uuid[]) AS c(provider, hash, job_id)
        WHERE p.provider = c.provider AND p.credential_hash = c.hash
        """,
        [pair[0] for pair, _ in chosen],
        [pair[1] for pair, _ in chosen],
        [job_id for _, job_id in chosen],
        at,
        DEFAULT_PROBE_S,
    )


async def end_probe(connection: Connection, job_id: UUID) -> bool:
    """The provider answered this job: whatever it probed is out of trouble, and all claimers are told. False: nothing was."""
    freed = await connection.fetch("DELETE FROM provider_pauses WHERE probe_job = $1 RETURNING provider", job_id)
    if freed:
        await connection.execute(WAKE)
    return bool(freed)
