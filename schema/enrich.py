"""What an enrich job of the corpus flow writes besides its own row: at its start, and in the transaction that completes it.

The branch is pushed before that transaction. A crash between the two costs a retry that finds its own push (D53).
"""

from __future__ import annotations

from typing import ClassVar, Final

from attrs import asdict, frozen

from protocols.enrichpayload import EnrichPayload
from protocols.failures import Permanent, Transient
from protocols.lawstats import CapturedMarking, CapturedUntranslatable
from schema import laws
from schema.agentcalls import cost_of_law
from schema.connection import Connection
from schema.enrichblobs import drop_own_blobs
from schema.laws import FailKind
from schema.markings import replace_markings
from schema.queue.create import create_enrich_job_if_not_exists
from schema.related import RelatedWish, enqueue_related
from schema.rows import Job, JobRequest, JobType, LawStatus
from schema.untranslatables import Untranslatable, replace_untranslatables

_KEEPS: Final = (LawStatus.ENRICHED, LawStatus.ENRICH_EXHAUSTED)


class DirectoryBusy(Transient):
    """Another job of the same provider works in the folder of this law (under another law id)."""

    kind: ClassVar[str] = "directory_busy"


class CostLimitReached(Permanent):
    """The law has cost what it may (``ENRICH_MAX_COST_PER_LAW``). A person decides how to go on."""

    kind: ClassVar[str] = "cost_limit"


@frozen
class CorpusOutcome:
    """A window that is on the branch. ``coverage`` is the share of all entries that carry a model by now (0.0 to 1.0)."""

    payload: EnrichPayload
    provider: str
    law_complete: bool
    coverage: float
    untranslatables: tuple[CapturedUntranslatable, ...] = ()
    markings: tuple[CapturedMarking, ...] = ()
    related: RelatedWish | None = None


async def begin(connection: Connection, job: Job) -> None:
    """The law is being enriched, by this job. An enriched or exhausted law keeps its status."""
    await laws.upsert_law(connection, job.law_id)
    await laws.set_enrich_job(connection, job.law_id, job.id)
    await laws.update_status_unless_any(connection, job.law_id, _KEEPS, LawStatus.ENRICHING)


async def reserve_directory(connection: Connection, job: Job, provider: str, directory: str) -> None:
    """DirectoryBusy when another running job of this provider has its law in the same folder (D53).

    The lock makes two that ask at once take turns, so that one of them sees the other.
    """
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"enrich {provider} {directory}")
    other = await connection.fetchval(
        """
        SELECT id::text FROM jobs
        WHERE job_type = 'enrich' AND status = 'processing' AND lease IS NOT NULL AND id <> $1
          AND COALESCE(payload->>'provider', $2) = $2 AND COALESCE(payload->>'deliver', '') <> 'task'
          AND regexp_replace(payload->>'yaml_path', '/[^/]*$', '') = $3
          AND (started_at, id) < (SELECT started_at, id FROM jobs WHERE id = $1)
        LIMIT 1
        """,
        job.id,
        provider,
        directory,
    )
    if other is not None:
        raise DirectoryBusy(f"job {other} enriches a law in {directory} with {provider} just now", other=other)


async def check_cost(connection: Connection, job: Job, limit_millicents: int) -> None:
    """CostLimitReached when the law has used up ``limit_millicents``; 0 is no limit."""
    if limit_millicents <= 0:
        return
    spent = await cost_of_law(connection, job.law_id)
    if spent >= limit_millicents:
        raise CostLimitReached(
            f"{job.law_id} has cost ${spent / 100_000:.2f}; the limit is ${limit_millicents / 100_000:.2f}: "
            "raise ENRICH_MAX_COST_PER_LAW to go on",
            spent_millicents=spent,
        )


async def settle(connection: Connection, job: Job, outcome: CorpusOutcome) -> None:
    """Everything that a completed window means, in its transaction: what was reported, law status, next window.

    A conflict with an active job of the same law and provider is accepted: that job finds the cursor on the branch. New
    jobs come last (D8).
    """
    await replace_untranslatables(
        connection,
        job.law_id,
        outcome.provider,
        job.id,
        [Untranslatable(**asdict(row)) for row in outcome.untranslatables],
    )
    await replace_markings(connection, job.law_id, outcome.provider, job.id, outcome.markings)
    await drop_own_blobs(connection, job)
    await laws.upsert_law(connection, job.law_id)
    await laws.set_coverage_score(connection, job.law_id, min(1.0, max(0.0, outcome.coverage)))
    await laws.reset_fail_count(connection, job.law_id, FailKind.ENRICH)
    if outcome.law_complete:
        await laws.update_status(connection, job.law_id, LawStatus.ENRICHED)
    else:
        await _continue(connection, job, outcome)
    if outcome.related is not None:
        await enqueue_related(connection, job, outcome.related)


async def _continue(connection: Connection, job: Job, outcome: CorpusOutcome) -> None:
    """The next window, while the law stays ``enriching``: never one without the other."""
    following = await create_enrich_job_if_not_exists(
        connection,
        JobRequest(
            JobType.ENRICH,
            job.law_id,
            priority=job.priority,
            payload=outcome.payload.continuation(outcome.provider),
            traject_ref=outcome.payload.traject_ref or job.traject_ref,
        ),
    )
    if following is not None:
        await laws.set_enrich_job(connection, job.law_id, following.id)
