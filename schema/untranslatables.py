"""What enrichment could not translate: the current list of each law and provider (``queue.md`` 1.6)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from protocols.scrub import MAX_STRING_BYTES, scrub_text
from schema.connection import Connection


@frozen
class Untranslatable:
    """One construct in one article that has no machine-readable form. ``accepted``: a person said that this is fine."""

    article: str
    construct: str
    reason: str
    suggestion: str | None = None
    legal_text_excerpt: str | None = None
    accepted: bool = False


async def replace_untranslatables(
    connection: Connection, law_id: str, provider: str, job_id: UUID, rows: Sequence[Untranslatable]
) -> None:
    """The new list instead of the old one of this law and provider, in the caller's transaction. Texts are an agent's."""
    await connection.execute("DELETE FROM untranslatables WHERE law_id = $1 AND provider = $2", law_id, provider)
    if not rows:
        return
    await connection.execute(
        """
        INSERT INTO untranslatables
            (law_id, provider, enrich_job_id, article, construct, reason, suggestion, legal_text_excerpt, accepted)
        SELECT $1, $2, $3, u.* FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bool[]) AS u
        """,
        law_id,
        provider,
        job_id,
        [_text(row.article) for row in rows],
        [_text(row.construct) for row in rows],
        [_text(row.reason) for row in rows],
        [_text(row.suggestion) for row in rows],
        [_text(row.legal_text_excerpt) for row in rows],
        [row.accepted for row in rows],
    )


async def list_untranslatables(connection: Connection, law_id: str, provider: str) -> Sequence[Untranslatable]:
    """By article and construct."""
    rows = await connection.fetch(
        """
        SELECT article, construct, reason, suggestion, legal_text_excerpt, accepted FROM untranslatables
        WHERE law_id = $1 AND provider = $2 ORDER BY article, construct, id
        """,
        law_id,
        provider,
    )
    return [Untranslatable(**dict(row)) for row in rows]


def _text(value: str | None) -> str | None:
    return None if value is None else scrub_text(value, MAX_STRING_BYTES)
