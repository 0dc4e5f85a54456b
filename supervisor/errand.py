"""A supervisor with an errand: it runs until one piece of work of its own is done, then drains (``harvest --run``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from actors.ports.database import Database
from protocols.messages import Phase
from supervisor.drain import Drain

Work = Callable[[Database], Awaitable[None]]


@define
class Errand:
    """The last actor to start. What its work raised is in ``failure``: it is the caller's, and no crash of an actor.

    ``on_interrupt`` is called when the drain begins before the work is done, with the seconds that running jobs still have.
    """

    work: Work
    on_interrupt: Callable[[float], object] = lambda drain_s: None
    instead: str = ""
    """What its user can do where a supervisor runs already and there can be but one."""
    interrupted: bool = field(init=False, default=False)
    failure: Exception | None = field(init=False, default=None)
    _database: Database | None = field(init=False, default=None)
    _drain: Drain | None = field(init=False, default=None)

    def bind(self, database: Database, drain: Drain) -> Errand:
        """Given to it when the tree is made."""
        self._database, self._drain = database, drain
        return self

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work, then begin the drain, however the work ended."""
        assert self._database is not None
        assert self._drain is not None
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, self._drain)
            try:
                await self.work(self._database)
            except Exception as error:  # noqa: BLE001 - handed to the caller by run_supervisor
                self.failure = error
            nursery.cancel_scope.cancel(reason="the errand is done")
        self._drain.begin("the errand is done")

    async def _hear(self, drain: Drain) -> None:
        await drain.lifecycle.reached(Phase.DRAINING)
        self.interrupted = True
        self.on_interrupt(drain.rule.drain_s)
