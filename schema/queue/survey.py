"""The look around before a claim: promote what is due, and see which kinds of rows wait, what is paused, what is due next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from schema.connection import Connection
from schema.rows import JobType

PROMOTE_AT_ONCE: Final = 200

Pair = tuple[str, str]
"""A provider and the hash of one of its credentials."""


@frozen
class Bucket:
    """Pending due rows of one job type that name one provider ('' when they name none)."""

    job_type: JobType
    provider: str


@frozen
class Survey:
    """What a claimer must know before it claims. ``next_due_s``, by the database clock, is also when a pause ends."""

    buckets: tuple[Bucket, ...]
    next_due_s: float | None
    local_hour: int
    paused_types: frozenset[str]
    paused_providers: frozenset[str]
    benched: frozenset[Pair]
    """Those in trouble (D52); hash '' stands for the provider as a whole."""
    probes: frozenset[Pair]
    """Of these, the ones that one job may try again now."""

    def room(self, bucket: Bucket, provider: str | None, credentials: Sequence[Pair]) -> int | None:
        """How many rows of ``bucket`` may be claimed now; None: as many as there are slots.

        ``provider`` is who would run them; None: nobody in particular. One that is benched has room for its probes only.
        """
        if bucket.job_type.value in self.paused_types or provider in self.paused_providers:
            return 0
        ours = {pair for pair in credentials if pair[0] == provider}
        usable = not ours or bool(ours - self.benched)
        whole = (provider or "", "")
        if whole in self.benched:
            return int(whole in self.probes and (usable or bool(ours & self.probes)))
        return None if usable else len(ours & self.probes)

    def probes_of(self, credentials: Sequence[Pair]) -> frozenset[Pair]:
        """The probes that a holder of ``credentials`` can make."""
        return frozenset(pair for pair in self.probes if not pair[1] or pair in credentials)


# ANY over an array, not a join: a planner that misjudges how many rows are due would read the whole table for the join.
# The recursion is a loose index scan: one index probe per (type, provider) that exists, however many rows wait (D4).
_SURVEY: Final = """
WITH RECURSIVE moment AS (
    SELECT COALESCE($2::timestamptz, now()) AS at
), due AS MATERIALIZED (
    SELECT d.id FROM unnest($1::text[]) AS t(job_type), moment CROSS JOIN LATERAL (
        SELECT id FROM jobs
        WHERE status = 'pending' AND job_type = t.job_type::job_type AND scheduled_at <= moment.at
        ORDER BY scheduled_at LIMIT $3 FOR UPDATE SKIP LOCKED) AS d
), promoted AS (
    UPDATE jobs SET scheduled_at = NULL WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING jobs.job_type, COALESCE(jobs.payload->>'provider', '') AS provider
), bucket AS (
    SELECT t.job_type, (
        SELECT COALESCE(payload->>'provider', '') AS provider FROM jobs
        WHERE status = 'pending' AND scheduled_at IS NULL AND job_type = t.job_type::job_type
        ORDER BY COALESCE(payload->>'provider', '') LIMIT 1) AS provider
    FROM unnest($1::text[]) AS t(job_type)
    UNION ALL
    SELECT b.job_type, (
        SELECT COALESCE(payload->>'provider', '') AS provider FROM jobs
        WHERE status = 'pending' AND scheduled_at IS NULL AND job_type = b.job_type::job_type
          AND COALESCE(payload->>'provider', '') > b.provider
        ORDER BY COALESCE(payload->>'provider', '') LIMIT 1)
    FROM bucket AS b WHERE b.provider IS NOT NULL
), waiting AS (
    SELECT w.scheduled_at FROM unnest($1::text[]) AS t(job_type), moment CROSS JOIN LATERAL (
        SELECT scheduled_at FROM jobs
        WHERE status = 'pending' AND job_type = t.job_type::job_type AND scheduled_at > moment.at
        ORDER BY scheduled_at LIMIT 1) AS w
), pause AS (
    SELECT scope || ':' || name AS what, until FROM pauses, moment WHERE until IS NULL OR until > moment.at
), bench AS (
    SELECT provider || ':' || credential_hash AS what, until, probe_at, COALESCE(probe_at <= moment.at, false) AS due
    FROM provider_pauses, moment WHERE until IS NULL OR until > moment.at
), due_next AS (
    SELECT scheduled_at AS at FROM waiting UNION ALL SELECT until FROM pause UNION ALL SELECT until FROM bench
    UNION ALL SELECT probe_at FROM bench WHERE NOT due
)
SELECT
    (SELECT count(*) FROM promoted) AS promoted,
    ARRAY(SELECT job_type FROM bucket WHERE provider IS NOT NULL
          UNION ALL SELECT job_type::text FROM promoted) AS job_types,
    ARRAY(SELECT provider FROM bucket WHERE provider IS NOT NULL
          UNION ALL SELECT provider FROM promoted) AS providers,
    (SELECT EXTRACT(EPOCH FROM min(at) - (SELECT at FROM moment))::float8 FROM due_next) AS next_due_s,
    EXTRACT(HOUR FROM (SELECT at FROM moment) AT TIME ZONE 'Europe/Amsterdam')::int AS local_hour,
    ARRAY(SELECT what FROM pause) AS pauses,
    ARRAY(SELECT what FROM bench) AS benched,
    ARRAY(SELECT what FROM bench WHERE due) AS probes
"""


async def survey_queue(
    connection: Connection, job_types: Sequence[JobType], *, at: dt.datetime | None = None
) -> Survey:
    """Promote and look, repeated while a full batch was promoted. Other claimers are woken for what was promoted (D10)."""
    labels = [job_type.value for job_type in job_types]
    promoted = 0
    while True:
        row = await connection.fetchrow(_SURVEY, labels, at, PROMOTE_AT_ONCE)
        assert row is not None
        promoted += row["promoted"]
        if row["promoted"] < PROMOTE_AT_ONCE:
            break
    if promoted:
        await connection.execute("SELECT pg_notify('regelrecht_jobs', '')")
    return _survey_of(row)


def _survey_of(row: Mapping[str, Any]) -> Survey:
    pauses = [entry.split(":", 1) for entry in row["pauses"]]
    pairs = dict.fromkeys(zip(row["job_types"], row["providers"], strict=True))
    return Survey(
        buckets=tuple(Bucket(JobType(job_type), provider) for job_type, provider in pairs),
        next_due_s=row["next_due_s"],
        local_hour=row["local_hour"],
        paused_types=frozenset(name for scope, name in pauses if scope == "job_type"),
        paused_providers=frozenset(name for scope, name in pauses if scope == "provider"),
        benched=_pairs(row["benched"]),
        probes=_pairs(row["probes"]),
    )


def _pairs(entries: Sequence[str]) -> frozenset[Pair]:
    return frozenset((provider, digest) for provider, digest in (entry.split(":", 1) for entry in entries))
