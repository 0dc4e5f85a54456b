"""``.enrichment.yaml`` beside a law: the worker's cursor and what the last run was (``enrich.md`` 5.2).

Owned by the worker: read from the branch before an agent runs, written after all checks passed. One file for all
versions of a law in its folder, so the cursor names the version it is for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

from protocols.lawyaml.read import UnreadableLaw, load_law
from protocols.lawyaml.scalars import scalar
from protocols.windows import Cursor

FILE_NAME: Final = ".enrichment.yaml"
DOCUMENT_ORDER: Final = "document"
_MAX_BYTES: Final = 64 * 1024


@frozen
class EnrichmentFile:
    """``coverage_score`` is that of the run alone. ``source_hash`` is the git blob id of the base law, '' unknown."""

    law_id: str
    timestamp: datetime
    provider: str
    model: str
    prompt_hash: str
    code_commit: str
    coverage_score: float
    articles_total: int
    articles_with_machine_readable: int
    source_hash: str = ""
    enrich_cursor: int = 0
    enrich_cursor_path: str = ""
    enrich_cursor_mode: str = DOCUMENT_ORDER


@frozen
class StoredState:
    """What a run needs of the last one. Absent and unreadable values count as none: the walk begins anew."""

    cursor: Cursor | None = None
    source_hash: str = ""


def read_state(content: bytes | None) -> StoredState:
    """Tolerant: a file that is absent, no YAML, or written for another order of windows has no cursor."""
    if content is None:
        return StoredState()
    try:
        fields = load_law(content, max_bytes=_MAX_BYTES)
    except UnreadableLaw:
        return StoredState()
    return StoredState(_cursor(fields), _text(fields, "source_hash"))


def dump_enrichment(file: EnrichmentFile) -> bytes:
    """The file: the same bytes for the same values."""
    if file.timestamp.tzinfo is None:
        raise ValueError("the timestamp must know its zone")
    moment = file.timestamp.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return (
        f"law_id: {scalar(file.law_id)}\n"
        f"timestamp: '{moment}'\n"
        f"provider: {scalar(file.provider)}\n"
        f"model: {scalar(file.model)}\n"
        f"prompt_hash: {scalar(file.prompt_hash)}\n"
        f"code_commit: {scalar(file.code_commit)}\n"
        f"coverage_score: {file.coverage_score!r}\n"
        f"articles_total: {file.articles_total}\n"
        f"articles_with_machine_readable: {file.articles_with_machine_readable}\n"
        f"source_hash: {scalar(file.source_hash)}\n"
        f"enrich_cursor: {file.enrich_cursor}\n"
        f"enrich_cursor_path: {scalar(file.enrich_cursor_path)}\n"
        f"enrich_cursor_mode: {scalar(file.enrich_cursor_mode)}\n"
    ).encode()


def _cursor(fields: dict[str, Any]) -> Cursor | None:
    position = fields.get("enrich_cursor")
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        return None
    if _text(fields, "enrich_cursor_mode") not in ("", DOCUMENT_ORDER):
        return None
    return Cursor(position, _text(fields, "enrich_cursor_path"))


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
