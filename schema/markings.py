"""Gaps in the vocabulary of law schema 0.6, by law and provider. The only module that knows the table (D62).

The table is the platform's and its final shape is not known yet: on an adopted database only columns that are there are
written, and a table that asks for more than we know is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from protocols.lawstats import CapturedMarking
from protocols.scrub import MAX_STRING_BYTES, scrub_text, to_json
from schema.connection import Connection

_OURS: Final = ("article", "kind", "reason", "excerpt", "accepted")
_OTHER_NAMES: Final = ("about", "resolution", "resolved_by", "target", "legal_text_excerpt")


async def replace_markings(
    connection: Connection, law_id: str, provider: str, job_id: UUID, rows: Sequence[CapturedMarking]
) -> bool:
    """The new list instead of the old one of this law and provider, in the caller's transaction.

    False: the table has another shape than any we know, and was left alone.
    """
    columns = await _columns(connection)
    if columns is None:
        return False
    await connection.execute("DELETE FROM markings WHERE law_id = $1 AND provider = $2", law_id, provider)
    casts = {"target": "::text::jsonb"}
    values = ", ".join(f"${number}{casts.get(name, '')}" for number, name in enumerate(columns, start=4))
    for row in rows:
        await connection.execute(
            f"INSERT INTO markings (law_id, provider, enrich_job_id, {', '.join(columns)}) VALUES ($1, $2, $3, {values})",
            law_id,
            provider,
            job_id,
            *(_value(row, name) for name in columns),
        )
    return True


async def _columns(connection: Connection) -> list[str] | None:
    found = await connection.fetch(
        """
        SELECT attname::text AS name, attnotnull AND NOT atthasdef AS needed
        FROM pg_attribute WHERE attrelid = to_regclass('markings') AND attnum > 0 AND NOT attisdropped
        """
    )
    known = {"law_id", "provider", "enrich_job_id", *_OURS, *_OTHER_NAMES}
    present = {row["name"] for row in found}
    if "provider" not in present or any(row["needed"] and row["name"] not in known for row in found):
        return None
    return [name for name in (*_OURS, *_OTHER_NAMES) if name in present]


def _value(row: CapturedMarking, column: str) -> Any:
    if column in _OURS:
        value = row.to_row()[column]
    elif column == "target":
        return to_json(list(row.target))
    else:
        value = getattr(row, column)
    return _text(value) if isinstance(value, str) else value


def _text(value: str | None) -> str | None:
    return None if value is None else scrub_text(value, MAX_STRING_BYTES)
