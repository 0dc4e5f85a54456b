"""Trouble at a chosen moment, for fault tests: right before or right after a unit of work commits. Off unless asked for.

``FAILPOINT=UNIT.MOMENT:NTH[:HOW]``, for example ``outcomes.complete.before:3`` or ``claim.claim.after:1:cut``:

- ``UNIT``: module and function of the unit (``outcomes.complete``, ``endings.complete``, ``claim.claim``, ``beats.beat``).
- ``MOMENT``: ``before`` or ``after`` the commit. A unit whose statements commit by themselves has them before its first
  and after its last statement.
- ``NTH``: at which passage, counted from 1; once.
- ``HOW``: ``kill`` (SIGKILL to this process, the default) or ``cut`` (the connection is lost at that moment).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any, Literal

import structlog
from attrs import define, field

from protocols.failures import InvalidInput

_log = structlog.get_logger(__name__)

Moment = Literal["before", "after"]

_SHAPE = re.compile(r"(?P<unit>\w+\.\w+)\.(?P<moment>before|after):(?P<nth>[1-9]\d*)(?::(?P<how>kill|cut))?")


def name_of(unit: Callable[..., object]) -> str:
    """What a failpoint calls this unit."""
    return f"{unit.__module__.rpartition('.')[2]}.{getattr(unit, '__name__', type(unit).__name__)}"


@define
class Failpoint:
    unit: str
    moment: Moment
    nth: int
    how: Literal["kill", "cut"] = "kill"
    _passages: int = field(init=False, default=0)

    @classmethod
    def parse(cls, text: str) -> Failpoint:
        """InvalidInput says what a failpoint looks like."""
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"FAILPOINT={text!r} cannot be read; it looks like outcomes.complete.before:3 or claim.claim.after:1:cut"
            )
        moment: Moment = "before" if match["moment"] == "before" else "after"
        return cls(match["unit"], moment, int(match["nth"]), "cut" if match["how"] == "cut" else "kill")

    def pass_by(self, unit: str, moment: Moment, connection: Any) -> None:
        """Called at every commit. ConnectionResetError when the connection was cut after it."""
        if (unit, moment) != (self.unit, self.moment):
            return
        self._passages += 1
        if self._passages != self.nth:
            return
        _log.warning("failpoint", unit=unit, moment=moment, how=self.how)
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        connection.terminate()
        if moment == "after":
            raise ConnectionResetError("cut by a failpoint")
