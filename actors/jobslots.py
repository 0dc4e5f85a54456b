"""Holds the running jobs: one runner in a task of its own for each claim that arrives (design 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import structlog
import trio
from attrs import define, field

from actors.ports.slots import SlotLedger
from protocols.messages import CancelJob, ClaimedJob, ClaimerMessage, Escalation, Reply, RunningJob, Wake
from schema.rows import Lease

_log = structlog.get_logger(__name__)


class Runner(Protocol):
    """What runs one job; see ``actors.runner``."""

    claimed: ClaimedJob
    strained: bool

    @property
    def view(self) -> RunningJob: ...

    async def run(self) -> None:
        """From the claim to the released lease; raises only for a fault of the runner itself."""
        ...

    def cancel(self, request: CancelJob) -> None: ...


@define
class JobSlots:
    """Ends when nobody can hand over jobs any more (the claims channel is closed) and the last job has ended.

    ``breaker_limit``: this many jobs in a row that failed for want of memory, processes or disk end the supervisor (D13).
    """

    new_runner: Callable[[ClaimedJob], Runner]
    slots: SlotLedger
    claims: trio.MemoryReceiveChannel[ClaimedJob]
    cancels: trio.MemoryReceiveChannel[CancelJob]
    claimer: Reply[ClaimerMessage]
    alarm: Reply[Escalation]
    breaker_limit: int = 5
    _runners: dict[UUID, Runner] = field(init=False, factory=dict)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until the claims channel is closed and all jobs have ended."""
        async with trio.open_nursery() as listening:
            listening.start_soon(self._obey)
            async with trio.open_nursery() as jobs:
                task_status.started()
                async for claimed in self.claims:
                    name = f"job:{claimed.job.job_type.value} {claimed.job.id}"
                    jobs.start_soon(self._run_job, claimed, name=name)
            listening.cancel_scope.cancel(reason="all jobs ended")

    async def run_once(self) -> None:
        """Take one job and see it through."""
        await self._run_job(await self.claims.receive())

    @property
    def leases(self) -> tuple[Lease, ...]:
        """What the running jobs hold."""
        return tuple(runner.claimed.lease for runner in self._runners.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Which jobs these are, in words. Unlike the views it may be read from any thread."""
        jobs = [runner.claimed.job for runner in tuple(self._runners.values())]
        return tuple(f"{job.job_type.value} job {job.id} ({job.law_id})" for job in jobs)

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """The jobs that hold a slot now, oldest first."""
        return tuple(runner.view for runner in self._runners.values())

    async def _run_job(self, claimed: ClaimedJob) -> None:
        runner = self.new_runner(claimed)
        # A fenced job may come back to us while its old runner still ends: the newest is the one to speak to.
        self._runners[claimed.job.id] = runner
        try:
            await runner.run()
        except Exception:  # noqa: BLE001 - the border of a job: nothing of it may reach the others
            # The runner has handed the job back on its way out; the other jobs go on.
            _log.exception("job runner crashed", job_id=str(claimed.job.id))
        finally:
            if self._runners.get(claimed.job.id) is runner:
                del self._runners[claimed.job.id]
            self.slots.release(claimed.role, strained=runner.strained)
            self.claimer.send_nowait(Wake("a slot is free"))
        self._look_at_breaker()

    def _look_at_breaker(self) -> None:
        if self.slots.strained_in_a_row == self.breaker_limit:
            why = f"{self.breaker_limit} jobs in a row failed because this machine is out of memory, processes or disk"
            self.alarm.send_nowait(Escalation("jobs", why))

    async def _obey(self) -> None:
        async for request in self.cancels:
            runner = self._runners.get(request.job_id)
            if runner is not None:
                _log.info("job cancelled on request", job_id=str(request.job_id))
                runner.cancel(request)
