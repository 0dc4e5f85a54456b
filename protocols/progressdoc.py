"""``jobs.progress`` of an enrich job: the agent's own note on top, what the worker sees below it (``enrich.md`` 7)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from protocols.failures import JsonObject
from protocols.lawstats import LawCount
from protocols.windows import Window

FILE_NAME: Final = ".enrichment-progress.json"
NOTE_LIMIT_BYTES: Final = 16 * 1024
WORKER: Final = "worker"


def read_note(content: bytes | None, previous: JsonObject) -> JsonObject:
    """The agent's note; the ``previous`` one while the file is absent, half written, too large or no JSON object.

    The worker's own key is taken out: an agent cannot speak for the worker.
    """
    if content is None or len(content) > NOTE_LIMIT_BYTES:
        return previous
    try:
        note: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return previous
    if not isinstance(note, dict):
        return previous
    return {key: value for key, value in note.items() if key != WORKER}


def progress_document(note: JsonObject, agents: JsonObject, law: LawCount, window: Window) -> JsonObject:
    """The document as it is stored, also when the agent wrote no note yet. ``agents`` is ``AgentView.progress``."""
    at = window.positions
    span = {"from": at[0], "to": at[-1] + 1} if at else {"from": window.start, "to": window.end}
    return {
        **note,
        WORKER: {
            **agents,
            "articles_with_machine_readable": law.with_section,
            "articles_total": law.total,
            "window": span,
        },
    }
