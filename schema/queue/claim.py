"""Which rows a supervisor takes next: promote what is due, count the budget, claim (D4, D9, D11).

One crossing, up to three transactions: the survey promotes and looks around; the claim takes rows; a claim that may take
claude rows counts first, under an advisory lock, in the same transaction. Needs autocommit mode outside, so that each of
them is a transaction of its own; inside a transaction (pooler mode, D16) they become savepoints of that one.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Final, Literal

from attrs import evolve, frozen

from protocols.budget import effective_provider, hourly_cap, next_hour
from schema.connection import Connection
from schema.queue.budget import count_runs, try_budget_lock
from schema.queue.probing import assign_probes, hold_probes
from schema.queue.survey import Bucket, Survey, survey_queue
from schema.queue.terms import BudgetRule, BudgetView, ClaimAnswer, ClaimRequest, Want, is_counted
from schema.records import columns_of, job_of
from schema.rows import Job, JobType

RUN_TYPES: Final = frozenset({JobType.ENRICH, JobType.DOCUMENT_CONVERT, JobType.LAW_CONVERT})
"""Job types whose claims are runs of an agent, so they are stamped for the budget (D11)."""


@frozen
class _Source:
    """One ordered locked sub-select of the claim statement."""

    bucket: Bucket
    want: int
    rank: int
    slots: int
    take: int
    gated: bool
    provider: str | None


async def claim(connection: Connection, request: ClaimRequest) -> ClaimAnswer:
    """Promote due rows, then claim at most the wanted slots; every row taken carries ``request.token`` as its lease."""
    wants = [want for want in request.wants if want.slots > 0]
    job_types = {job_type for want in wants for job_type in want.job_types}
    if not job_types:
        return ClaimAnswer()
    survey = await survey_queue(connection, sorted(job_types), at=request.at)
    probes = survey.probes_of(request.credentials)
    if not probes:
        return await _claim_surveyed(connection, request, wants, survey)
    async with connection.transaction(isolation=_isolation(connection)):
        held = await hold_probes(connection, probes, at=request.at)
        answer = await _claim_surveyed(connection, request, wants, evolve(survey, probes=held))
        await assign_probes(connection, held, answer.jobs, at=request.at)
    return answer


async def _claim_surveyed(
    connection: Connection, request: ClaimRequest, wants: Sequence[Want], survey: Survey
) -> ClaimAnswer:
    sources = _sources(survey, wants, request)
    if not sources:
        return ClaimAnswer(next_due_s=survey.next_due_s)
    view: BudgetView | None = None
    if not any(source.gated for source in sources):
        jobs = await _take(connection, request, sources)
    elif request.budget.hourly_limit <= 0:
        view = BudgetView(0, 0, survey.local_hour, blocked=True)
        sources = _without_claude(sources)
        jobs = await _take(connection, request, sources)
    else:
        jobs, view, sources = await _claim_counted(connection, request, sources)
    again = _look_again_s(sources, jobs)
    dues = [due for due in (survey.next_due_s, again) if due is not None]
    return ClaimAnswer(tuple(jobs), min(dues, default=None), view)


def _sources(survey: Survey, wants: Sequence[Want], request: ClaimRequest) -> list[_Source]:
    """The buckets that exist, are wanted and are not paused, in serving order. A benched provider has one for its probes."""
    found: list[_Source] = []
    probing: set[str | None] = set()
    for number, want in enumerate(wants):
        for rank, job_type in enumerate(want.job_types):
            for bucket in survey.buckets:
                provider = _provider_of(bucket, request.budget)
                if bucket.job_type is not job_type or provider in probing:
                    continue
                room = survey.room(bucket, provider, request.credentials)
                if room == 0:
                    continue
                if room is not None:
                    probing.add(provider)
                take = want.slots if room is None else min(want.slots, room)
                gated = request.count_budget and is_counted(job_type, provider, request.budget)
                found.append(_Source(bucket, number, rank, want.slots, take, gated, provider))
    return found


def _provider_of(bucket: Bucket, budget: BudgetRule) -> str | None:
    """Who would run rows of ``bucket``; None for work that no agent does."""
    if bucket.job_type not in RUN_TYPES:
        return None
    return effective_provider(bucket.provider, budget.default_provider)


def _without_claude(sources: Sequence[_Source]) -> list[_Source]:
    return [source for source in sources if not source.gated]


async def _claim_counted(
    connection: Connection, request: ClaimRequest, sources: Sequence[_Source]
) -> tuple[list[Job], BudgetView | None, list[_Source]]:
    """Lock, count, claim, in this order and as three statements: in one statement the count is older than the lock.

    READ COMMITTED, so that the count sees the claims of whoever held the lock before. Any error inside the savepoint
    excludes claude from this round and lets the others run: the budget fails closed, and for claude only (D11). The
    third value is the sources from which rows could have been taken.
    """
    others = _without_claude(sources)
    async with connection.transaction(isolation=_isolation(connection)):
        try:
            async with connection.transaction():
                if not await try_budget_lock(connection):
                    return await _take(connection, request, others), None, list(sources)
                view, moment = await _count(connection, request)
                allowance = max(0, view.cap - view.used)
                affordable = [
                    evolve(source, take=min(source.take, allowance)) if source.gated else source for source in sources
                ]
                usable = [source for source in affordable if source.take > 0]
                return await _take(connection, request, usable, moment, allowance), view, usable
        except Exception:  # noqa: BLE001 - whatever went wrong, claude waits and the rest is claimed
            return await _take(connection, request, others), None, others


def _isolation(connection: Connection) -> Literal["read_committed"] | None:
    """For a transaction that may turn out to be a savepoint of one that is under way."""
    return None if connection.is_in_transaction() else "read_committed"


async def _count(connection: Connection, request: ClaimRequest) -> tuple[BudgetView, dt.datetime]:
    budget = request.budget
    used, local_hour, moment = await count_runs(connection, includes_convert=budget.includes_convert, at=request.at)
    cap = hourly_cap(budget.hourly_limit, budget.night_multiplier, local_hour)
    left_s = (next_hour(moment) - moment).total_seconds()
    return BudgetView(used, cap, local_hour, blocked=used >= cap, left_s=left_s), moment


def _look_again_s(sources: Sequence[_Source], jobs: Sequence[Job]) -> float | None:
    """Soon, when slots stayed free although rows were there: another claimer had them, or the budget lock, in its hand.

    A sub-select locks up to ``slots`` rows of each bucket and takes the best of all; the rest is free again in an instant.
    """
    slots = {source.want: source.slots for source in sources}
    return random.uniform(0.2, 1.0) if len(jobs) < sum(slots.values()) else None


# The array beside the join keeps the planner on the primary key, however wrong its guess of how many rows are chosen.
_TAKE: Final = f"""
WITH source AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::int[], $4::int[], $5::int[], $6::int[], $7::bool[], $8::text[])
        AS s(job_type, bucket, want, rank, slots, take, gated, provider)
), locked AS MATERIALIZED (
    SELECT c.id, c.priority, c.created_at, s.want, s.rank, s.slots, s.gated, s.provider
    FROM source AS s CROSS JOIN LATERAL (
        SELECT id, priority, created_at FROM jobs
        WHERE status = 'pending' AND scheduled_at IS NULL
          AND job_type = s.job_type::job_type AND COALESCE(payload->>'provider', '') = s.bucket
        ORDER BY priority DESC, created_at, id
        LIMIT s.take
        FOR UPDATE SKIP LOCKED
    ) AS c
), affordable AS (
    SELECT *, row_number() OVER (PARTITION BY gated ORDER BY want, rank, priority DESC, created_at, id) AS run
    FROM locked
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY want ORDER BY rank, priority DESC, created_at, id) AS place
    FROM affordable WHERE NOT gated OR run <= $9
), chosen AS MATERIALIZED (
    SELECT * FROM ranked WHERE place <= slots
), taken AS (
    UPDATE jobs AS j
    SET status = 'processing', attempts = j.attempts + 1, lease = $10, claimed_by = $11,
        started_at = m.at, heartbeat_at = m.at, cancel_requested_at = NULL,
        run_provider = COALESCE(c.provider, j.run_provider),
        run_starts = CASE WHEN c.provider IS NULL THEN j.run_starts
            ELSE ARRAY(SELECT s FROM unnest(j.run_starts) AS s WHERE s > m.at - interval '48 hours') || m.at END
    FROM chosen AS c, (SELECT COALESCE($12::timestamptz, clock_timestamp()) AS at) AS m
    WHERE j.id = ANY (ARRAY(SELECT id FROM chosen)) AND j.id = c.id
    RETURNING {columns_of("j")}, c.want, c.rank
)
SELECT * FROM taken ORDER BY want, rank, priority DESC, created_at, id
"""


async def _take(
    connection: Connection,
    request: ClaimRequest,
    sources: Sequence[_Source],
    moment: dt.datetime | None = None,
    allowance: int = 0,
) -> list[Job]:
    """The claim statement: one ordered sub-select per bucket, merged by priority, at most the slots of each want."""
    if not sources:
        return []
    rows = await connection.fetch(
        _TAKE,
        [source.bucket.job_type.value for source in sources],
        [source.bucket.provider for source in sources],
        [source.want for source in sources],
        [source.rank for source in sources],
        [source.slots for source in sources],
        [source.take for source in sources],
        [source.gated for source in sources],
        [source.provider for source in sources],
        allowance,
        request.token,
        request.holder,
        moment or request.at,
    )
    return [job_of(row) for row in rows]
