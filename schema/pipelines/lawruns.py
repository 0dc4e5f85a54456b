"""Pipelines over laws: which laws are due, and the harvest of each through the ordinary request (``pipelines.md`` 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.connectors import BWB_LAWS
from protocols.failures import InvalidInput, JsonObject
from protocols.lawpipeline import (
    DAILY_REHARVEST_CONFIG,
    DAILY_REHARVEST_CRON,
    DAILY_REHARVEST_NAME,
    DAILY_REHARVEST_ZONE,
    LawSelection,
    Select,
)
from protocols.runs import DocAction, ItemOutcome
from schema.connection import Connection
from schema.pipelines import items, manage, runs
from schema.pipelines.items import ItemResult
from schema.pipelines.manage import NewConnector, NewPipeline
from schema.pipelines.rows import Item, Pipeline
from schema.pipelines.runs import RunContext
from schema.requests import Declined, HarvestRequest, request_refresh
from schema.rows import Job

_INVALID_DATE: Final = "invalid law or date"

# Laws that would be declined come last, so that they do not use up the cap of every fire.
_CHOOSE: Final = """
WITH candidate AS (
    SELECT l.law_id, l.status::text AS status FROM law_entries AS l WHERE $1 <> 'listed'
    UNION ALL
    SELECT w.law_id, l.status::text FROM unnest($2::text[]) AS w(law_id) LEFT JOIN law_entries AS l USING (law_id)
    WHERE $1 = 'listed'
), known AS (
    SELECT c.law_id, c.status, GREATEST(
        (SELECT max(v.harvested_at) FROM harvest_versions AS v WHERE v.law_id = c.law_id),
        (SELECT max(j.completed_at) FROM jobs AS j
         WHERE j.law_id = c.law_id AND j.job_type = 'harvest' AND j.status = 'completed')) AS harvested_at,
        EXISTS (SELECT FROM jobs AS j WHERE j.law_id = c.law_id AND j.job_type IN ('harvest', 'enrich')
                AND j.status IN ('pending', 'processing')) AS busy
    FROM candidate AS c
)
SELECT law_id FROM known
WHERE CASE $1 WHEN 'listed' THEN true
              WHEN 'failed' THEN status = 'harvest_failed'
              WHEN 'stale' THEN harvested_at < now() - $3 * interval '1 day' AND status <> 'harvest_exhausted'
              ELSE harvested_at IS NOT NULL AND status <> 'harvest_exhausted' END
  AND ($1 = 'listed' OR $4 OR status <> 'not_harvestable')
ORDER BY busy OR COALESCE(status IN ('harvest_exhausted', 'not_harvestable'), false), harvested_at NULLS FIRST, law_id
LIMIT $5
"""


@frozen
class LawCounts:
    """What a run over laws did. ``skipped`` counts by reason."""

    laws: int
    enqueued: int
    failed: int
    skipped: Mapping[str, int]

    def to_summary(self) -> JsonObject:
        return {"laws": self.laws, "enqueued": self.enqueued, "failed": self.failed, "skipped": dict(self.skipped)}


async def choose(connection: Connection, selection: LawSelection) -> Sequence[str]:
    """At most ``max_laws`` law ids: those that can be harvested first, and of them the one not harvested for the longest."""
    listed = list(dict.fromkeys(selection.law_ids)) if selection.select is Select.LISTED else []
    rows = await connection.fetch(
        _CHOOSE,
        selection.select.value,
        listed,
        float(selection.max_age_days),
        selection.include_not_harvestable,
        selection.max_laws,
    )
    return [row["law_id"] for row in rows]


async def enqueue(
    connection: Connection, job: Job, context: RunContext, item: Item, selection: LawSelection, *, delay_s: float
) -> ItemOutcome:
    """Ask for the harvest of one law and tick it off, in one transaction behind the fence of the run's job."""
    await runs.owned(connection, job, context.run.id)
    request = HarvestRequest(
        item.target, priority=selection.priority, date=selection.date, no_follow=not selection.follow_references
    )
    try:
        answer = await request_refresh(
            connection, request, delay_s=delay_s, include_not_harvestable=selection.include_not_harvestable
        )
    except InvalidInput as error:
        result = ItemResult(ItemOutcome.SKIPPED, DocAction.NONE, error=f"{_INVALID_DATE}: {error.message}")
    else:
        if isinstance(answer, Declined):
            result = ItemResult(ItemOutcome.SKIPPED, DocAction.NONE, error=answer.value)
        else:
            result = ItemResult(ItemOutcome.SUCCESS, DocAction.NONE, job_id=answer.id)
    await items.record(connection, context.run.id, job.attempts, item.ordinal, result)
    return result.outcome


async def tick_off(connection: Connection, job: Job, context: RunContext, item: Item, result: ItemResult) -> None:
    """Note what came of one law when asking for it raised."""
    await runs.owned(connection, job, context.run.id)
    await items.record(connection, context.run.id, job.attempts, item.ordinal, result)


async def counts(connection: Connection, run_id: int) -> LawCounts:
    """Over all attempts of the run."""
    rows = await connection.fetch(
        """
        SELECT outcome, CASE WHEN outcome = 'skipped' THEN split_part(COALESCE(error, ''), ':', 1) END AS reason, count(*) AS n
        FROM pipeline_run_items WHERE run_id = $1 GROUP BY 1, 2
        """,
        run_id,
    )
    numbers = [(row["outcome"], row["reason"], row["n"]) for row in rows]
    return LawCounts(
        laws=sum(n for _, _, n in numbers),
        enqueued=sum(n for outcome, _, n in numbers if outcome == ItemOutcome.SUCCESS),
        failed=sum(n for outcome, _, n in numbers if outcome == ItemOutcome.FAILED),
        skipped={reason: n for outcome, reason, n in numbers if outcome == ItemOutcome.SKIPPED},
    )


async def succeed(connection: Connection, job: Job, context: RunContext) -> None:
    """The settling part: the run is done when all is queued, for a night of harvests would block the next fire."""
    summary: Any = (await counts(connection, context.run.id)).to_summary()
    await runs.succeed_plainly(connection, job, context, summary=summary)


async def create_daily_reharvest(connection: Connection, workspace_id: int, owner_id: UUID) -> Pipeline:
    """The ready-made pipeline: every law that was ever harvested, once a night. Needs a transaction.

    InvalidInput when the workspace has it already.
    """
    connector = await manage.create_connector(
        connection,
        NewConnector(workspace_id, owner_id, DAILY_REHARVEST_NAME, BWB_LAWS, config=DAILY_REHARVEST_CONFIG),
    )
    pipeline, _ = await manage.create_pipeline(
        connection,
        NewPipeline(
            workspace_id,
            DAILY_REHARVEST_NAME,
            connector_id=connector.id,
            schedule_cron=DAILY_REHARVEST_CRON,
            schedule_timezone=DAILY_REHARVEST_ZONE,
            created_by_id=owner_id,
        ),
    )
    return pipeline
