"""What goes over the socket: lines of text to the server; from it answers, each ended by a line that begins with ``END``."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from supervisor.terminaltext import harmless

END: Final = "\x04"
"""Never part of an answer: it is replaced there."""

MOST_LINE_BYTES: Final = 64 * 1024
MOST_ANSWER_BYTES: Final = 64 * 1024


class Mark(StrEnum):
    """How an answer ended; the letter after ``END``."""

    READY = ">"
    FAILED = "!"
    """The command could not be done; ready for another."""
    MORE = "."
    """The line begins something that is not complete yet."""
    CLOSED = "x"
    """Nothing more will be answered on this connection."""


def frame(text: str, mark: Mark) -> bytes:
    """An answer as it is sent."""
    body = harmless(text.replace(END, "?"))
    if body and not body.endswith("\n"):
        body += "\n"
    return f"{body}{END}{mark}\n".encode(errors="replace")


def cut(text: str) -> str:
    """``text`` within the limit of an answer, with a word about what was left out."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= MOST_ANSWER_BYTES:
        return text
    note = f"\n... cut at {MOST_ANSWER_BYTES // 1024} kB"
    return encoded[: MOST_ANSWER_BYTES - len(note)].decode(errors="ignore") + note
