"""The phase of the supervisor as something to wait for. Everyone reads it; only the drain moves it."""

from __future__ import annotations

import trio
from attrs import define, field

from protocols.messages import Phase


@define
class Lifecycle:
    """Moves forward only. ``reached`` returns at once for a phase that is already behind."""

    phase: Phase = Phase.STARTING
    _events: dict[Phase, trio.Event] = field(init=False, factory=lambda: {phase: trio.Event() for phase in Phase})

    def __attrs_post_init__(self) -> None:
        self._events[self.phase].set()

    def advance(self, phase: Phase) -> bool:
        """Go to ``phase``, passing those between. False when it was reached already."""
        if phase <= self.phase:
            return False
        self.phase = phase
        for passed, event in self._events.items():
            if passed <= phase:
                event.set()
        return True

    async def reached(self, phase: Phase) -> None:
        await self._events[phase].wait()

    @property
    def stopping(self) -> bool:
        """True from the first signal on: start nothing new."""
        return self.phase >= Phase.DRAINING
