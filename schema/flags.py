"""Feature flags of the editor (``queue.md`` 1.7, 8.3). The platform reads them; the pipeline owns the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from protocols.scrub import scrub_text
from schema.connection import Connection

_COLUMNS: Final = "key, enabled, description"


@frozen
class Flag:
    key: str
    enabled: bool
    description: str | None = None


async def list_flags(connection: Connection) -> Sequence[Flag]:
    """By key."""
    return [_flag_of(row) for row in await connection.fetch(f"SELECT {_COLUMNS} FROM feature_flags ORDER BY key")]


async def get_flag(connection: Connection, key: str) -> Flag | None:
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM feature_flags WHERE key = $1", key)
    return None if row is None else _flag_of(row)


async def upsert_flag(connection: Connection, key: str, enabled: bool, description: str | None = None) -> Flag:
    """No description keeps the old one."""
    row = await connection.fetchrow(
        f"""
        INSERT INTO feature_flags AS f (key, enabled, description) VALUES ($1, $2, $3)
        ON CONFLICT (key) DO UPDATE
            SET enabled = excluded.enabled, description = COALESCE(excluded.description, f.description)
        RETURNING {_COLUMNS}
        """,
        scrub_text(key),
        enabled,
        None if description is None else scrub_text(description),
    )
    assert row is not None
    return _flag_of(row)


def _flag_of(row: Mapping[str, Any]) -> Flag:
    return Flag(row["key"], row["enabled"], row["description"])
