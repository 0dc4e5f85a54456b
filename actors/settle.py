"""The last write of a claim: what its verdict says, again and again until the database says yes or no (D7, D13)."""

from __future__ import annotations

import structlog
import trio
from attrs import frozen

from actors.jobs.base import Completion
from actors.ports.queue import QueuePort
from protocols.failures import (
    DatabaseUnavailable,
    HandedBack,
    JobEnd,
    LeaseLost,
    OutcomeUnclear,
    SupervisorError,
    classify,
    verdict_of,
)
from protocols.messages import FlushProgress, Reply
from schema.rows import Lease

_log = structlog.get_logger(__name__)


@frozen
class Settlement:
    """Runs inside the caller's bounded shield; ends by itself only with an answer."""

    queue: QueuePort
    lease: Lease
    progress: Reply[FlushProgress]
    flush_limit_s: float
    write_limit_s: float
    pause_s: float

    async def write(self, end: Completion | SupervisorError, *, refund: bool) -> str:
        """What became of the job: ``completed``, ``handed_back``, ``refused``, ``abandoned`` or the failure's kind.

        ``refund``: the claim never started a run, so a hand-back takes it from the hourly budget again (D11).
        """
        if isinstance(end, SupervisorError) and verdict_of(end).job is JobEnd.ABANDON:
            return "abandoned"
        await self._flush_progress()
        unclear = False
        while True:
            try:
                with trio.fail_after(self.write_limit_s):
                    return await self._once(end, refund=refund)
            except LeaseLost:
                # After an unclear answer this is the trace of our own write; otherwise somebody else has the job (QH-05).
                if unclear:
                    return _word(end)
                _log.warning("report refused: the claim is not ours any more")
                return "refused"
            except DatabaseUnavailable as error:
                _log.warning("final write waits for the database", error=error.message)
            except (OutcomeUnclear, trio.TooSlowError):
                unclear = True
                _log.warning("final write without an answer; asking again")
            except Exception as error:  # noqa: BLE001 - a settle function that raises fails its job, not the supervisor
                if not isinstance(end, Completion):
                    _log.exception("aftercare of the failure raised; the job is left to the reaper")
                    return "abandoned"
                _log.exception("completion raised; the job fails instead")
                end = classify(error)
            await trio.sleep(self.pause_s)

    async def _once(self, end: Completion | SupervisorError, *, refund: bool) -> str:
        match end:
            case Completion():
                await self.queue.complete(self.lease, end.result, end.settle)
            case HandedBack():
                if not await self.queue.hand_back(self.lease, why=end.message, refund=refund):
                    raise LeaseLost("handed back too late")
            case _:
                await self.queue.fail(self.lease, end, refund=refund)
        return _word(end)

    async def _flush_progress(self) -> None:
        """The newest progress of the job goes first: once the row is closed, it could not be written any more."""
        sender, receiver = trio.open_memory_channel[None](1)
        self.progress.send_nowait(FlushProgress(sender))
        with trio.move_on_after(self.flush_limit_s):
            await receiver.receive()


def _word(end: Completion | SupervisorError) -> str:
    return "completed" if isinstance(end, Completion) else end.kind
