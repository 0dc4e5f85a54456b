"""``jobs.progress`` of an enrich job: the agent's own note on top, what the worker sees below it (``enrich.md`` 7)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from attrs import frozen

from protocols.failures import JsonObject

FILE_NAME: Final = ".enrichment-progress.json"
NOTE_LIMIT_BYTES: Final = 16 * 1024
WORKER: Final = "worker"


@frozen
class WorkerProgress:
    """What the worker knows. ``call`` is ``translate`` or a gate; the window is entries ``window_from`` to ``window_to``."""

    call: str = ""
    call_s: float = 0.0
    quiet_s: float = 0.0
    turns: int = 0
    tool_calls: int = 0
    recent_tools: tuple[str, ...] = ()
    articles_with_machine_readable: int = 0
    articles_total: int = 0
    provider: str = ""
    model: str = ""
    window_from: int = 0
    window_to: int = 0
    active_windows: int = 0


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


def progress_document(note: JsonObject, progress: WorkerProgress) -> JsonObject:
    """The document as it is stored, also when the agent wrote no note yet."""
    return {
        **note,
        WORKER: {
            "call": progress.call,
            "call_secs": int(progress.call_s),
            "quiet_secs": int(progress.quiet_s),
            "turns": progress.turns,
            "tool_calls": progress.tool_calls,
            "recent_tools": list(progress.recent_tools),
            "articles_with_machine_readable": progress.articles_with_machine_readable,
            "articles_total": progress.articles_total,
            "provider": progress.provider,
            "model": progress.model,
            "window": {"from": progress.window_from, "to": progress.window_to},
            "active_windows": progress.active_windows,
        },
    }
