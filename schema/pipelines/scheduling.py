"""What a tick of the scheduler does, one small transaction after the other (``pipelines.md`` 5, D66).

Whether something is due is what its row says and nothing else (CR-04): whoever looks, however late, one fire makes up for
a missed stretch. Moving the schedule on, the run and its job are one transaction, so a crash leaves all or nothing
(CR-06). ``at`` is the moment of the tick by the database's clock, the same for all of it.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from attrs import frozen

from protocols.connectors import CONNECTORS, ConnectorRegistry
from protocols.runs import Trigger, shown
from protocols.schedule import InvalidSchedule, compute_next_fire_at
from schema.connection import Connection
from schema.pipelines import asking, indexing, periodic
from schema.pipelines.leases import Resource, is_locked
from schema.pipelines.rows import CONNECTOR_COLUMNS, PIPELINE_COLUMNS, Pipeline, connector_of, pipeline_of

BATCH = 200

DUE = (
    "enabled AND connector_id IS NOT NULL AND schedule_cron IS NOT NULL AND next_scheduled_at IS NOT NULL "
    "AND next_scheduled_at <= {at}"
)
UNSET = "enabled AND schedule_cron IS NOT NULL AND connector_id IS NOT NULL AND next_scheduled_at IS NULL"

CONNECTOR_DUE = "periodic_indexing_enabled AND next_scheduled_at IS NOT NULL AND next_scheduled_at <= {at}"


@frozen
class ScheduleRules:
    """``misfire_grace_s``: a fire later than this is dropped, not made up for. None: it fires, however late."""

    registry: ConnectorRegistry = CONNECTORS
    misfire_grace_s: float | None = None


class Fired(StrEnum):
    """What became of one due pipeline. In every case but the first it moved on, or is switched off."""

    GONE = "gone"
    """Not due any more, or in another scheduler's hand."""
    FIRED = "fired"
    SUPPRESSED = "suppressed"
    """A run of it is pending or running."""
    MISSED = "missed"
    """Later than the grace allows."""
    DISABLED = "disabled"


class Scanned(StrEnum):
    """What became of one due connector."""

    GONE = "gone"
    QUEUED = "queued"
    BUSY = "busy"
    """Leased, or queued already: it stays due and is looked at again by the next tick."""
    RETIRED = "retired"


async def database_now(connection: Connection) -> dt.datetime:
    """The clock that all schedules go by."""
    now: dt.datetime = await connection.fetchval("SELECT clock_timestamp()")
    return now.astimezone(dt.UTC)


async def heal(connection: Connection, at: dt.datetime, *, limit: int = BATCH) -> tuple[int, list[tuple[int, str]]]:
    """Give their next time to pipelines that have none: how many, and those whose schedule cannot be used, with why.

    New and edited ones, that is; the time is after ``at``, so none of them fires in the tick that heals it. The unusable
    are left to :func:`disable`, each in a transaction of its own. Needs a transaction.
    """
    rows = await connection.fetch(
        f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE {UNSET} ORDER BY id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED",
        limit,
    )
    unusable: list[tuple[int, str]] = []
    healed = 0
    for pipeline in map(pipeline_of, rows):
        try:
            next_at = _next(pipeline, at)
        except InvalidSchedule as error:
            unusable.append((pipeline.id, error.message))
            continue
        healed += 1
        await connection.execute("UPDATE pipelines SET next_scheduled_at = $2 WHERE id = $1", pipeline.id, next_at)
    return healed, unusable


async def due(connection: Connection, at: dt.datetime, *, limit: int = BATCH) -> list[int]:
    """Ids of due pipelines, the longest due first; read without a lock, each is looked at again when it fires."""
    rows = await connection.fetch(
        f"SELECT id FROM pipelines WHERE {DUE.format(at='$1')} ORDER BY next_scheduled_at, id LIMIT $2", at, limit
    )
    return [row["id"] for row in rows]


async def fire(connection: Connection, pipeline_id: int, at: dt.datetime, rules: ScheduleRules) -> Fired:
    """Move one due pipeline on, with a run unless there is a reason for none. Needs a transaction."""
    row = await connection.fetchrow(
        f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE id = $1 AND {DUE.format(at='$2')} FOR NO KEY UPDATE SKIP LOCKED",
        pipeline_id,
        at,
    )
    if row is None:
        return Fired.GONE
    pipeline = pipeline_of(row)
    nominal = pipeline.next_scheduled_at
    assert nominal is not None
    try:
        next_at = _next(pipeline, at)
    except InvalidSchedule as error:
        await disable(connection, pipeline_id, error.message)
        return Fired.DISABLED
    if rules.misfire_grace_s is not None and (at - nominal).total_seconds() > rules.misfire_grace_s:
        await _advance(connection, pipeline_id, next_at, fired=False)
        return Fired.MISSED
    if await asking.has_active_run(connection, pipeline_id):
        await _advance(connection, pipeline_id, next_at, fired=False)
        return Fired.SUPPRESSED
    await _advance(connection, pipeline_id, next_at, fired=True)
    run = await asking.create_run(
        connection, pipeline, Trigger.SCHEDULED, priority=asking.SCHEDULED_PRIORITY, scheduled_for=nominal
    )
    return Fired.SUPPRESSED if run is None else Fired.FIRED


async def put_off(connection: Connection, pipeline_id: int, at: dt.datetime, why: str) -> None:
    """A pipeline whose fire raised moves on without a run, or is switched off, so that it is not first in every tick.

    Needs a transaction of its own.
    """
    row = await connection.fetchrow(
        f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE id = $1 AND enabled FOR NO KEY UPDATE", pipeline_id
    )
    if row is None or row["schedule_cron"] is None:
        return
    try:
        await _advance(connection, pipeline_id, _next(pipeline_of(row), at), fired=False)
    except InvalidSchedule:
        await disable(connection, pipeline_id, why)


async def disable(connection: Connection, pipeline_id: int, why: str) -> None:
    """Switch a pipeline off because its schedule cannot be used; its connector gets its own schedule back.

    Needs a transaction.
    """
    connector_id = await connection.fetchval(
        """
        UPDATE pipelines SET enabled = false, next_scheduled_at = NULL, schedule_error = $2, updated_at = now()
        WHERE id = $1 AND enabled RETURNING connector_id
        """,
        pipeline_id,
        shown(why, 500),
    )
    if connector_id is not None:
        await periodic.restore(connection, connector_id, except_pipeline=pipeline_id)


async def due_connectors(connection: Connection, at: dt.datetime, *, limit: int = BATCH) -> list[int]:
    """Ids of connectors that are due to index themselves, the longest due first."""
    rows = await connection.fetch(
        f"SELECT id FROM connectors WHERE {CONNECTOR_DUE.format(at='$1')} ORDER BY next_scheduled_at, id LIMIT $2",
        at,
        limit,
    )
    return [row["id"] for row in rows]


async def scan(connection: Connection, connector_id: int, at: dt.datetime, rules: ScheduleRules) -> Scanned:
    """Queue the index job of one due connector and move it on. Needs a transaction."""
    row = await connection.fetchrow(
        f"""
        SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = $1 AND periodic_indexing_enabled
          AND next_scheduled_at <= $2 FOR NO KEY UPDATE SKIP LOCKED
        """,
        connector_id,
        at,
    )
    if row is None:
        return Scanned.GONE
    connector = connector_of(row)
    if not rules.registry.is_pipeline_eligible(connector.connector_type):
        await connection.execute(
            "UPDATE connectors SET periodic_indexing_enabled = false, next_scheduled_at = NULL WHERE id = $1",
            connector_id,
        )
        return Scanned.RETIRED
    if await is_locked(connection, Resource.CONNECTOR, connector_id):
        return Scanned.BUSY
    if await indexing.request_index(connection, connector, priority=indexing.SCHEDULED_PRIORITY) is None:
        return Scanned.BUSY
    await connection.execute(
        """
        UPDATE connectors SET next_scheduled_at = $2::timestamptz + indexing_frequency_minutes * interval '1 minute'
        WHERE id = $1
        """,
        connector_id,
        at,
    )
    return Scanned.QUEUED


def _next(pipeline: Pipeline, at: dt.datetime) -> dt.datetime:
    assert pipeline.schedule_cron is not None
    return compute_next_fire_at(pipeline.schedule_cron, pipeline.schedule_timezone, after=at)


async def _advance(connection: Connection, pipeline_id: int, next_at: dt.datetime, *, fired: bool) -> None:
    await connection.execute(
        """
        UPDATE pipelines SET next_scheduled_at = $2, last_fired_at = CASE WHEN $3 THEN now() ELSE last_fired_at END
        WHERE id = $1
        """,
        pipeline_id,
        next_at,
        fired,
    )
