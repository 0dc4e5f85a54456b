"""Which calls of a run share a CLI session (``ENRICH_SESSION_REUSE``, ``enrich.md`` 6.6). Pure: ids are handed in.

A session never crosses a window, a job or a retry. A slice has one of its own (D40).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

TRANSLATE: Final = "translate"


class SessionReuse(StrEnum):
    WINDOW = "window"
    """Translation and all feedback rounds share one session."""
    REPAIR = "repair"
    """Only repairs of the schema go on in the translation's session; judgement starts cold."""
    OFF = "off"


_SPELLINGS: Final = {
    "": SessionReuse.WINDOW,
    "1": SessionReuse.WINDOW,
    "window": SessionReuse.WINDOW,
    "repair": SessionReuse.REPAIR,
    "0": SessionReuse.OFF,
    "off": SessionReuse.OFF,
}
_REPAIRS: Final = frozenset({TRANSLATE, "schema", "schema-final"})


def parse_session_reuse(text: str) -> tuple[SessionReuse, str | None]:
    """The mode, and a warning when the text is none; then the default ``window`` holds."""
    mode = _SPELLINGS.get(text.strip().lower())
    if mode is None:
        return SessionReuse.WINDOW, f"ENRICH_SESSION_REUSE={text[:40]!r} is not used: choose window, repair or off"
    return mode, None


def effective(mode: SessionReuse, *, can_resume: bool) -> SessionReuse:
    """The mode that is used and recorded: a CLI that cannot continue a session always runs cold."""
    return mode if can_resume else SessionReuse.OFF


@frozen
class Session:
    """The one session of a window (or slice). ``opened``: a call that opened it succeeded."""

    id: UUID
    opened: bool = False


@frozen
class Cold:
    """A call without a session."""


@frozen
class Open:
    """A call that opens the session ``id``."""

    id: UUID


@frozen
class Resume:
    """A call that goes on in the session ``id``; its prompt says to read the file again (6.4)."""

    id: UUID


Plan = Cold | Open | Resume


def plan(mode: SessionReuse, step: str, session: Session) -> Plan:
    """How the call for ``step`` (``translate`` or the name of a gate) runs."""
    if mode is SessionReuse.OFF or (mode is SessionReuse.REPAIR and step not in _REPAIRS):
        return Cold()
    return Resume(session.id) if session.opened else Open(session.id)


def after(session: Session, planned: Plan, *, succeeded: bool, fresh: UUID) -> Session:
    """The session after a call. A failed opening takes the id ``fresh``: the CLI may have registered the old one."""
    if not isinstance(planned, Open):
        return session
    return evolve(session, opened=True) if succeeded else Session(fresh)
