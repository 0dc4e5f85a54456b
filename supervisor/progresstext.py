"""The progress of a job in a few words, of whatever shape the document is: agents write part of it."""

from __future__ import annotations

from typing import Any


def progress_text(progress: object) -> str:
    """``publish 3/3``, ``translate 4/60 articles``; empty when nothing in it can be told."""
    document: Any = progress if isinstance(progress, dict) else {}
    worker: Any = document.get("worker")
    worker = worker if isinstance(worker, dict) else {}
    phase = document.get("phase") or worker.get("call")
    words = [phase] if isinstance(phase, str) else []
    for done, total, unit in (
        (document.get("step"), document.get("total_steps"), ""),
        (worker.get("articles_with_machine_readable"), worker.get("articles_total"), " articles"),
    ):
        if isinstance(done, int) and isinstance(total, int):
            words.append(f"{done}/{total}{unit}")
    return " ".join(words)
