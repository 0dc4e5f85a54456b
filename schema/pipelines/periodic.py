"""One scheduler for each connector: a connector under an enabled pipeline does not index itself (``pipelines.md`` 6).

The guard works both ways. What the user had set is saved when the first pipeline takes over and put back when the last one
lets go. All of it happens in the transaction of the pipeline's change, with the connector's row locked after the pipeline's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from schema.connection import Connection
from schema.pipelines.rows import CONNECTOR_COLUMNS, Connector, connector_of


@frozen
class PeriodicChange:
    """What a change of a pipeline did to the schedule of its connector."""

    suppressed: bool = False
    restored: bool = False


async def suppress(connection: Connection, connector_id: int) -> PeriodicChange:
    """A pipeline owns the schedule from now on. A second one finds that done and saves nothing over what was saved."""
    connector = await lock(connection, connector_id)
    if connector is None or connector.periodic_suppressed:
        return PeriodicChange()
    saved = {"enabled": connector.periodic_indexing_enabled, "frequency": connector.indexing_frequency_minutes}
    await connection.execute(
        """
        UPDATE connectors SET periodic_suppressed = true, periodic_saved = $2::text::jsonb,
            periodic_indexing_enabled = false, next_scheduled_at = NULL WHERE id = $1
        """,
        connector_id,
        json.dumps(saved),
    )
    return PeriodicChange(suppressed=True)


async def restore(connection: Connection, connector_id: int, *, except_pipeline: int | None = None) -> PeriodicChange:
    """Give the schedule back, unless another enabled pipeline stands on the connector; never with a time in the past.

    A connector that cannot be indexed any more, or has no frequency, comes back switched off.
    """
    connector = await lock(connection, connector_id)
    if connector is None or not connector.periodic_suppressed:
        return PeriodicChange()
    if await _owners(connection, connector_id, except_pipeline):
        return PeriodicChange()
    await _give_back(connection, connector)
    return PeriodicChange(restored=True)


async def owners(connection: Connection, connector_id: int) -> list[int]:
    """The enabled pipelines that stand on a connector, by id."""
    return await _owners(connection, connector_id, None)


async def repair(connection: Connection) -> Sequence[tuple[int, PeriodicChange]]:
    """Make every connector agree with the pipelines there are: which were changed, and how. Safe to repeat.

    Needs a transaction.
    """
    rows = await connection.fetch(
        """
        SELECT c.id, c.periodic_suppressed FROM connectors AS c
        WHERE c.periodic_suppressed <> EXISTS (SELECT FROM pipelines AS p WHERE p.connector_id = c.id AND p.enabled)
        ORDER BY c.id
        """
    )
    changed = []
    for row in rows:
        change = await _repair(connection, row["id"])
        if change != PeriodicChange():
            changed.append((row["id"], change))
    return changed


async def _repair(connection: Connection, connector_id: int) -> PeriodicChange:
    """Looked at again under the lock: whoever changes a pipeline meanwhile comes before or after us, never in between."""
    connector = await lock(connection, connector_id)
    if connector is None or connector.periodic_suppressed:
        return await restore(connection, connector_id)
    if await _owners(connection, connector_id, None):
        return await suppress(connection, connector_id)
    return PeriodicChange()


async def lock(connection: Connection, connector_id: int) -> Connector | None:
    """The row, locked against other changes but not against documents that point at it."""
    row = await connection.fetchrow(
        f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = $1 FOR NO KEY UPDATE", connector_id
    )
    return None if row is None else connector_of(row)


async def _owners(connection: Connection, connector_id: int, except_pipeline: int | None) -> list[int]:
    rows = await connection.fetch(
        "SELECT id FROM pipelines WHERE connector_id = $1 AND enabled AND id IS DISTINCT FROM $2 ORDER BY id",
        connector_id,
        except_pipeline,
    )
    return [row["id"] for row in rows]


async def _give_back(connection: Connection, connector: Connector) -> None:
    saved: Mapping[str, Any] = connector.periodic_saved or {}
    minutes = connector.indexing_frequency_minutes or saved.get("frequency")
    enabled = bool(saved.get("enabled")) and connector.is_indexable and minutes is not None
    await connection.execute(
        """
        UPDATE connectors SET periodic_suppressed = false, periodic_saved = NULL, periodic_indexing_enabled = $2,
            indexing_frequency_minutes = $3,
            next_scheduled_at = CASE WHEN $2 THEN now() + $3::int * interval '1 minute' END
        WHERE id = $1
        """,
        connector.id,
        enabled,
        minutes,
    )
