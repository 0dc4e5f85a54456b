"""Writes the progress of all jobs in one statement every ten seconds; of each job only the newest counts (SD-07)."""

from __future__ import annotations

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.latest import LatestWins
from actors.ports.lifecycle import Lifecycle
from actors.ports.queue import QueuePort
from protocols.failures import DatabaseUnavailable, JsonObject, OutcomeUnclear
from protocols.messages import FlushProgress, Phase
from schema.rows import Lease

_log = structlog.get_logger(__name__)


@frozen
class ProgressRule:
    """Seconds. ``write_limit_s`` bounds one statement; what it could not write waits for the next."""

    interval_s: float = 10
    write_limit_s: float = 10


@define
class ProgressWriter:
    """Ends by itself at ``CLOSING``, after a last write."""

    queue: QueuePort
    board: LatestWins[Lease, JsonObject]
    inbox: trio.MemoryReceiveChannel[FlushProgress]
    lifecycle: Lifecycle
    rule: ProgressRule = ProgressRule()
    _asked: list[FlushProgress] = field(init=False, factory=list)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until ``CLOSING``; before it ends, everything that waits is written."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_at_closing, nursery.cancel_scope)
            await self._keep_writing()
        await self.run_once()

    async def run_once(self) -> int:
        """Write what waits and answer who asked for it. How many jobs were written."""
        self._read_inbox()
        asked, self._asked = self._asked, []
        try:
            return await self._write()
        finally:
            for request in asked:
                request.reply.send_nowait(None)

    async def _keep_writing(self) -> None:
        while True:
            await self._wait_until(trio.current_time() + self.rule.interval_s)
            await self.run_once()

    async def _write(self) -> int:
        documents = self.board.take_all()
        if not documents:
            return 0
        written = False
        try:
            with trio.move_on_after(self.rule.write_limit_s):
                await self.queue.write_progress(documents)
                written = True
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            _log.warning("progress not written", jobs=len(documents), error=error.message)
        finally:
            if not written:
                self.board.put_back(documents)
        return len(documents) if written else 0

    async def _wait_until(self, tick: float) -> None:
        """Returns at the tick, or as soon as somebody asks for a flush."""
        with trio.move_on_at(tick):
            self._asked.append(await self.inbox.receive())

    def _read_inbox(self) -> None:
        while True:
            try:
                self._asked.append(self.inbox.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return

    async def _stop_at_closing(self, scope: trio.CancelScope) -> None:
        await self.lifecycle.reached(Phase.CLOSING)
        scope.cancel(reason="closing")
