"""Making, changing and deleting pipelines and connectors, with the rules of ``pipelines.md`` 5, 6 and 9.

One transaction each. What a person got wrong is ``InvalidInput``; what is not there is one of the ``...NotFound``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from attrs import field, frozen

from protocols.connectors import BWB_LAWS, CONNECTORS, ConnectorRegistry
from protocols.failures import InvalidInput
from protocols.lawpipeline import read_law_selection
from protocols.runs import RunFailed
from protocols.schedule import validate_cron
from protocols.scrub import payload_to_json, scrub_text
from schema.connection import Connection
from schema.pipelines import periodic
from schema.pipelines.asking import PipelineNotFound
from schema.pipelines.indexing import ConnectorNotFound
from schema.pipelines.periodic import PeriodicChange
from schema.pipelines.rows import (
    CONNECTOR_COLUMNS,
    PIPELINE_COLUMNS,
    Connector,
    Pipeline,
    connector_of,
    pipeline_of,
)
from schema.pipelines.scheduling import database_now
from schema.records import json_of

MAX_CONFIG_BYTES: Final = 64 * 1024

PIPELINE_FIELDS: Final = frozenset(
    {"name", "config", "save_to_kb", "destination_folder_id", "schedule_cron", "schedule_timezone", "enabled"}
)
"""What a change of a pipeline may name; connector and workspace stay what they are."""
CONNECTOR_FIELDS: Final = frozenset(
    {"name", "config", "is_indexable", "periodic_indexing_enabled", "indexing_frequency_minutes"}
)


class ScheduleOwned(InvalidInput):
    """The connector's own schedule cannot be switched on while pipelines own it: ``pipeline_ids`` in the details."""

    kind = "schedule_owned"


@frozen
class NewPipeline:
    """``connector_id`` None: filled by uploads, so it can have no schedule."""

    workspace_id: int
    name: str
    connector_id: int | None = None
    config: Mapping[str, Any] = field(factory=dict)
    save_to_kb: bool = False
    destination_folder_id: int | None = None
    schedule_cron: str | None = None
    schedule_timezone: str = "UTC"
    enabled: bool = True
    created_by_id: UUID | None = None


@frozen
class NewConnector:
    workspace_id: int
    owner_id: UUID
    name: str
    connector_type: str
    config: Mapping[str, Any] = field(factory=dict)
    is_indexable: bool = False
    periodic_indexing_enabled: bool = False
    indexing_frequency_minutes: int | None = None


async def create_pipeline(
    connection: Connection, new: NewPipeline, *, registry: ConnectorRegistry = CONNECTORS
) -> tuple[Pipeline, PeriodicChange]:
    """The pipeline, and what it did to its connector's schedule. InvalidInput, ConnectorNotFound."""
    await _check_target(connection, new, registry)
    await _check_folder(connection, new.workspace_id, new.destination_folder_id)
    await _check_schedule(connection, new.schedule_cron, new.schedule_timezone, new.connector_id)
    row = await connection.fetchrow(
        f"""
        INSERT INTO pipelines (workspace_id, connector_id, destination_folder_id, created_by_id, name, config, save_to_kb,
                               schedule_cron, schedule_timezone, enabled)
        VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8, $9, $10) RETURNING {PIPELINE_COLUMNS}
        """,
        new.workspace_id,
        new.connector_id,
        new.destination_folder_id,
        new.created_by_id,
        _name(new.name, 200),
        _config(new.config),
        new.save_to_kb,
        new.schedule_cron,
        new.schedule_timezone,
        new.enabled,
    )
    assert row is not None
    change = PeriodicChange()
    if new.enabled and new.connector_id is not None:
        change = await periodic.suppress(connection, new.connector_id)
    return pipeline_of(row), change


async def get_pipeline(connection: Connection, pipeline_id: int, *, lock: str = "") -> Pipeline:
    """PipelineNotFound. ``lock`` is a row lock clause."""
    row = await connection.fetchrow(f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE id = $1 {lock}", pipeline_id)
    if row is None:
        raise PipelineNotFound(f"there is no pipeline {pipeline_id}")
    return pipeline_of(row)


async def list_pipelines(connection: Connection, workspace_id: int | None = None) -> Sequence[Pipeline]:
    """Those of one workspace, or all, by id."""
    rows = await connection.fetch(
        f"SELECT {PIPELINE_COLUMNS} FROM pipelines WHERE $1::bigint IS NULL OR workspace_id = $1 ORDER BY id",
        workspace_id,
    )
    return [pipeline_of(row) for row in rows]


async def update_pipeline(
    connection: Connection, pipeline_id: int, changes: Mapping[str, Any]
) -> tuple[Pipeline, PeriodicChange]:
    """Set what ``changes`` names; None clears what may be empty. Sending what is there already changes nothing.

    A new cron or zone, and switching on or off, forget the next time: a stale one must not fire at once.
    """
    _only(changes, PIPELINE_FIELDS)
    old = await get_pipeline(connection, pipeline_id, lock="FOR NO KEY UPDATE")
    cron = changes.get("schedule_cron", old.schedule_cron)
    zone = changes.get("schedule_timezone", old.schedule_timezone)
    enabled = changes.get("enabled", old.enabled)
    rescheduled = (cron, zone) != (old.schedule_cron, old.schedule_timezone)
    if rescheduled or (enabled and not old.enabled):
        await _check_schedule(connection, cron, zone, old.connector_id)
    folder = changes.get("destination_folder_id", old.destination_folder_id)
    await _check_folder(connection, old.workspace_id, folder)
    save = changes.get("save_to_kb", old.save_to_kb)
    await _check_laws(connection, old.connector_id, save, changes.get("config"))
    row = await connection.fetchrow(
        f"""
        UPDATE pipelines SET name = $2, config = $3::text::jsonb, save_to_kb = $4, destination_folder_id = $5,
            schedule_cron = $6, schedule_timezone = $7, enabled = $8,
            next_scheduled_at = CASE WHEN $9 THEN NULL ELSE next_scheduled_at END,
            schedule_error = CASE WHEN $9 THEN NULL ELSE schedule_error END, updated_at = now()
        WHERE id = $1 RETURNING {PIPELINE_COLUMNS}
        """,
        pipeline_id,
        _name(changes.get("name", old.name), 200),
        _config(changes.get("config", old.config)),
        save,
        folder,
        cron,
        zone,
        enabled,
        rescheduled or enabled != old.enabled,
    )
    assert row is not None
    change = PeriodicChange()
    if old.connector_id is not None and enabled and not old.enabled:
        change = await periodic.suppress(connection, old.connector_id)
    elif old.connector_id is not None and old.enabled and not enabled:
        change = await periodic.restore(connection, old.connector_id, except_pipeline=pipeline_id)
    return pipeline_of(row), change


async def delete_pipeline(connection: Connection, pipeline_id: int) -> PeriodicChange:
    """With its runs; a running one finds itself gone at its next write. PipelineNotFound."""
    old = await get_pipeline(connection, pipeline_id, lock="FOR UPDATE")
    change = PeriodicChange()
    if old.connector_id is not None and old.enabled:
        change = await periodic.restore(connection, old.connector_id, except_pipeline=pipeline_id)
    await _lock_runs(connection, [pipeline_id])
    await connection.execute("DELETE FROM pipelines WHERE id = $1", pipeline_id)
    return change


async def create_connector(
    connection: Connection, new: NewConnector, *, registry: ConnectorRegistry = CONNECTORS
) -> Connector:
    """InvalidInput: unknown type, a name that is taken, a schedule without what it needs."""
    if new.connector_type not in registry.kinds:
        raise InvalidInput(f"{new.connector_type!r} is no connector type: {', '.join(sorted(registry.kinds))}")
    _check_periodic(new.is_indexable, new.periodic_indexing_enabled, new.indexing_frequency_minutes)
    if new.connector_type == BWB_LAWS:
        await _check_selection(connection, {}, new.config)
    row = await connection.fetchrow(
        f"""
        INSERT INTO connectors (workspace_id, owner_id, name, connector_type, config, is_indexable,
                                periodic_indexing_enabled, indexing_frequency_minutes, next_scheduled_at)
        VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, $7, $8, CASE WHEN $7 THEN now() + $8::int * interval '1 minute' END)
        ON CONFLICT DO NOTHING RETURNING {CONNECTOR_COLUMNS}
        """,
        new.workspace_id,
        new.owner_id,
        _name(new.name, 100),
        new.connector_type,
        _config(new.config),
        new.is_indexable,
        new.periodic_indexing_enabled,
        new.indexing_frequency_minutes,
    )
    if row is None:
        raise InvalidInput(f"a {new.connector_type} connector named {new.name!r} is there already")
    return connector_of(row)


async def update_connector(connection: Connection, connector_id: int, changes: Mapping[str, Any]) -> Connector:
    """Set what ``changes`` names. ScheduleOwned: its own schedule cannot come on while pipelines own it.

    Switching it off meanwhile is remembered: it then stays off when the pipelines let go.
    """
    _only(changes, CONNECTOR_FIELDS)
    old = await periodic.lock(connection, connector_id)
    if old is None:
        raise ConnectorNotFound(f"there is no connector {connector_id}")
    enabled = changes.get("periodic_indexing_enabled", old.periodic_indexing_enabled)
    minutes = changes.get("indexing_frequency_minutes", old.indexing_frequency_minutes)
    indexable = changes.get("is_indexable", old.is_indexable)
    saved = old.periodic_saved
    if saved is not None and enabled:
        pipelines = await periodic.owners(connection, connector_id)
        raise ScheduleOwned(
            f"the schedule of this connector belongs to pipelines {pipelines}: switch them off first",
            pipeline_ids=pipelines,
        )
    if saved is not None and changes.get("periodic_indexing_enabled") is False:
        saved = {**saved, "enabled": False}
    _check_periodic(indexable, enabled, minutes)
    if old.connector_type == BWB_LAWS and "config" in changes:
        await _check_selection(connection, {}, changes["config"])
    restarts = enabled and (not old.periodic_indexing_enabled or minutes != old.indexing_frequency_minutes)
    row = await connection.fetchrow(
        f"""
        UPDATE connectors SET name = $2, config = $3::text::jsonb, is_indexable = $4, periodic_indexing_enabled = $5,
            indexing_frequency_minutes = $6, periodic_saved = $7::text::jsonb, updated_at = now(),
            next_scheduled_at = CASE WHEN NOT $5 THEN NULL WHEN $8 THEN now() + $6::int * interval '1 minute'
                                     ELSE next_scheduled_at END
        WHERE id = $1 RETURNING {CONNECTOR_COLUMNS}
        """,
        connector_id,
        _name(changes.get("name", old.name), 100),
        _config(changes.get("config", old.config)),
        indexable,
        enabled,
        minutes,
        payload_to_json(saved),
        restarts,
    )
    assert row is not None
    return connector_of(row)


async def delete_connector(connection: Connection, connector_id: int) -> None:
    """With its pipelines and their runs. ConnectorNotFound."""
    rows = await connection.fetch(
        "SELECT id FROM pipelines WHERE connector_id = $1 ORDER BY id FOR UPDATE", connector_id
    )
    if await connection.fetchval("SELECT id FROM connectors WHERE id = $1 FOR UPDATE", connector_id) is None:
        raise ConnectorNotFound(f"there is no connector {connector_id}")
    await _lock_runs(connection, [row["id"] for row in rows])
    await connection.execute("DELETE FROM connectors WHERE id = $1", connector_id)


# --- what is allowed --------------------------------------------------------------------------------------------------


async def _check_target(connection: Connection, new: NewPipeline, registry: ConnectorRegistry) -> None:
    if new.connector_id is None:
        return
    row = await connection.fetchrow(
        "SELECT connector_type, workspace_id FROM connectors WHERE id = $1 FOR KEY SHARE", new.connector_id
    )
    if row is None or row["workspace_id"] != new.workspace_id:
        raise ConnectorNotFound(f"there is no connector {new.connector_id} in this workspace")
    if not registry.is_pipeline_eligible(row["connector_type"]):
        raise InvalidInput(f"a pipeline cannot stand on a connector of type {row['connector_type']}")
    await _check_laws(connection, new.connector_id, new.save_to_kb, new.config)


async def _check_laws(
    connection: Connection, connector_id: int | None, save_to_kb: bool, config: Mapping[str, Any] | None
) -> None:
    """What a pipeline over laws cannot be, where it is one. ``config`` None: it stays what it was."""
    connector = await connection.fetchval(
        "SELECT config::text FROM connectors WHERE id = $1 AND connector_type = $2", connector_id, BWB_LAWS
    )
    if connector is None:
        return
    if save_to_kb:
        raise InvalidInput("a pipeline over laws has no documents: save_to_kb must be false")
    if config is not None:
        await _check_selection(connection, config, json_of(connector))


async def _check_selection(connection: Connection, pipeline: Mapping[str, Any], connector: Mapping[str, Any]) -> None:
    """A selection of laws that cannot be used is told to who writes it, not to the run of next night."""
    today = (await database_now(connection)).astimezone(ZoneInfo("Europe/Amsterdam")).date()
    try:
        read_law_selection(pipeline, connector, today=today)
    except RunFailed as unusable:
        raise InvalidInput(unusable.error.message) from None


async def _check_folder(connection: Connection, workspace_id: int, folder_id: int | None) -> None:
    if folder_id is None:
        return
    owner = await connection.fetchval("SELECT workspace_id FROM folders WHERE id = $1 FOR KEY SHARE", folder_id)
    if owner != workspace_id:
        raise InvalidInput(f"there is no folder {folder_id} in this workspace")


async def _check_schedule(connection: Connection, cron: str | None, timezone: str, connector_id: int | None) -> None:
    """Cron and zone are judged together (InvalidSchedule); a zone alone is too, for the cron that comes later."""
    validate_cron(cron if cron is not None else "@daily", timezone, now=await database_now(connection))
    if cron is not None and connector_id is None:
        raise InvalidInput("a pipeline without connector is filled by uploads and cannot have a schedule")


def _check_periodic(indexable: bool, enabled: bool, minutes: int | None) -> None:
    if minutes is not None and not 5 <= minutes <= 525_600:
        raise InvalidInput("indexing_frequency_minutes lies between 5 and 525600")
    if enabled and not indexable:
        raise InvalidInput("a connector that is not indexable cannot index itself periodically")
    if enabled and minutes is None:
        raise InvalidInput("periodic indexing needs indexing_frequency_minutes")


async def _lock_runs(connection: Connection, pipeline_ids: list[int]) -> None:
    await connection.fetch(
        """
        SELECT id FROM pipeline_runs WHERE pipeline_id = ANY ($1::bigint[]) AND status IN ('pending', 'running')
        ORDER BY id FOR UPDATE
        """,
        pipeline_ids,
    )


def _only(changes: Mapping[str, Any], allowed: frozenset[str]) -> None:
    unknown = sorted(set(changes) - allowed)
    if unknown:
        raise InvalidInput(f"{', '.join(unknown)} cannot be changed: {', '.join(sorted(allowed))} can")


def _name(text: str, limit: int) -> str:
    name = scrub_text(text).strip()
    if not name or len(name) > limit:
        raise InvalidInput(f"a name has 1 to {limit} characters")
    return name


def _config(config: Any) -> str:
    if not isinstance(config, Mapping):
        raise InvalidInput("config is a JSON object")
    text = payload_to_json(dict(config)) or "{}"
    if len(text.encode()) > MAX_CONFIG_BYTES:
        raise InvalidInput(f"config is larger than {MAX_CONFIG_BYTES} bytes")
    return text
