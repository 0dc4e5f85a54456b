"""A supervisor with an errand: it runs until one piece of work of its own is done, then drains (``harvest --run``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from actors.ports.database import Database

Work = Callable[[Database], Awaitable[None]]


@define
class Errand:
    """The last actor to start. What its work raised is in ``failure``: it is the caller's, and no crash of an actor."""

    work: Work
    failure: Exception | None = field(init=False, default=None)
    _database: Database | None = field(init=False, default=None)
    _drain: Callable[[str], object] | None = field(init=False, default=None)

    def bind(self, database: Database, drain: Callable[[str], object]) -> Errand:
        """Given to it when the tree is made."""
        self._database, self._drain = database, drain
        return self

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work, then begin the drain, however the work ended."""
        assert self._database is not None
        assert self._drain is not None
        task_status.started()
        try:
            await self.work(self._database)
        except Exception as error:  # noqa: BLE001 - handed to the caller by run_supervisor
            self.failure = error
        self._drain("the errand is done")
