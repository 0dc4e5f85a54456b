"""What supervisors tell each other on the control channel of the database, as text of a notification (D10, D26).

Anyone who may connect can send there, so a payload is a hint and never more: whatever it asks for is looked up in the
database before it is done.
"""

from __future__ import annotations

import json
from typing import Final
from uuid import UUID

from attrs import frozen

CHANNEL: Final = "regelrecht_control"


@frozen
class CancelHint:
    """Somebody asked for the end of this job; its row says so too."""

    job_id: UUID


@frozen
class PausesChanged:
    """A job type or provider was paused or resumed; each claim reads which."""


ControlMessage = CancelHint | PausesChanged


def render(message: ControlMessage) -> str:
    """The payload to send: one small JSON object."""
    body = {"cancel": str(message.job_id)} if isinstance(message, CancelHint) else {"pauses": "changed"}
    return json.dumps(body, separators=(",", ":"))


def parse(payload: str) -> ControlMessage | None:
    """None for what this version does not know."""
    try:
        match json.loads(payload):
            case {"cancel": str(job_id)}:
                return CancelHint(UUID(job_id))
            case {"pauses": _}:
                return PausesChanged()
    except (ValueError, RecursionError):
        pass
    return None
