"""Runs one claimed job to its end, whatever that end is: done, failed, timed out, lost, cancelled, handed back.

Handler inside a scope with the job's limits; watchers beside it that end the scope and remember why; then one final
write, bounded by the fence. What the failure means is the table in ``protocols.failures``.
"""

from __future__ import annotations

import structlog
import trio
from attrs import define, field, frozen

from actors.jobs.base import Completion, JobHandler
from actors.ports.latest import LatestWins
from actors.ports.lifecycle import Lifecycle
from actors.ports.meter import Meter, NoMeter
from actors.ports.queue import QueuePort
from actors.settle import Settlement
from actors.work import Fence, LiveWork
from protocols.failures import (
    Crashed,
    HandedBack,
    JobCancelled,
    JobTimedOut,
    JsonObject,
    LeaseLost,
    Overstayed,
    SupervisorError,
    classify,
    leaves,
    verdict_of,
)
from protocols.messages import (
    Beaten,
    CancelJob,
    ClaimedJob,
    Escalation,
    Finalising,
    FlushProgress,
    HeartbeatMessage,
    Phase,
    Released,
    Reply,
    RunningJob,
)
from schema.rows import Lease

_log = structlog.get_logger(__name__)


@frozen
class RunRule:
    """Seconds. ``fence_s`` is D6: orphan timeout less 30 s or a tenth, whichever is more."""

    fence_s: float = 270
    grace_s: float = 600
    flush_limit_s: float = 3
    write_limit_s: float = 15
    write_pause_s: float = 1


def fence_of(orphan_timeout_s: float) -> float:
    """D6: silence for this long, and we give the job up before anybody may take it."""
    return orphan_timeout_s - max(30.0, orphan_timeout_s / 10) if orphan_timeout_s > 60 else orphan_timeout_s / 2


@define(eq=False)
class JobRunner:
    """One per held job. ``run`` never raises for what the job did; cancelled from outside it hands the job back."""

    claimed: ClaimedJob
    handler: JobHandler
    timeout_s: float
    queue: QueuePort
    heartbeat: Reply[HeartbeatMessage]
    board: LatestWins[Lease, JsonObject]
    progress: Reply[FlushProgress]
    alarm: Reply[Escalation]
    lifecycle: Lifecycle
    rule: RunRule = RunRule()
    meter: Meter = field(factory=NoMeter)
    state: str = field(init=False, default="starting")
    outcome: str = field(init=False, default="")
    strained: bool = field(init=False, default=False)
    _fence: Fence = field(init=False)
    _work: LiveWork = field(init=False)
    _scope: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    _ended_by: SupervisorError | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._fence = Fence(self.rule.fence_s, self.claimed.claimed_at)
        self._work = LiveWork(self.claimed, self.queue, self.heartbeat, self.board, self._fence)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """From the claim to the released lease. What came of it is in ``outcome`` and ``strained``."""
        task_status.started()
        job = self.claimed.job
        with structlog.contextvars.bound_contextvars(job_id=str(job.id), law_id=job.law_id, attempt=job.deaths):
            end: Completion | SupervisorError = HandedBack("the supervisor stopped")
            try:
                async with trio.open_nursery() as watchers:
                    watchers.start_soon(self._watch_lease)
                    watchers.start_soon(self._watch_drain)
                    watchers.start_soon(self._watch_overstay)
                    end = await self._handle()
                    # The lease is watched through the final write: its beats move the fence that bounds the write.
                    await self._settle(end)
                    watchers.cancel_scope.cancel(reason="job ended")
            finally:
                if not self.outcome:
                    await self._settle(end)  # noqa: ASYNC102 - it shields itself, within its limit
                self._release()

    run_once = run

    def cancel(self, request: CancelJob) -> None:
        """A person wants this job to end."""
        self._end(JobCancelled(request.why))

    @property
    def view(self) -> RunningJob:
        """A copy for people."""
        now, job = trio.current_time(), self.claimed.job
        return RunningJob(
            job_id=job.id,
            job_type=job.job_type,
            law_id=job.law_id,
            role=self.claimed.role,
            age_s=now - self.claimed.claimed_at,
            limit_s=self._timeout_at - now,
            beat_age_s=now - self._fence.confirmed_at,
            state=self.state,
            progress=self._work.reported,
        )

    @property
    def _timeout_at(self) -> float:
        return self.claimed.claimed_at + self.timeout_s

    async def _handle(self) -> Completion | SupervisorError:
        if self.lifecycle.stopping:
            return HandedBack("claimed in the moment of the drain")
        if self._fence.passed:
            return self._judge(None, None)  # whatever held us up since the claim: the job is somebody else's by now
        self.state = "running"
        completion: Completion | None = None
        error: Exception | None = None
        self._fence.hold(self._scope, limit=self._timeout_at)
        try:
            with self._scope:
                completion = await self.handler.run(self._work)
        except Exception as raised:  # noqa: BLE001 - the border: whatever a job raises fails that job and nothing else
            error = raised
        finally:
            self._fence.release(self._scope)
        return self._judge(completion, error)

    def _judge(self, completion: Completion | None, error: Exception | None) -> Completion | SupervisorError:
        """Who ended it? Our own reason outranks what the handler made of being ended; a result in time stands (SD-03)."""
        if isinstance(self._ended_by, LeaseLost):
            return self._ended_by
        if self._fence.passed:
            self.meter.fenced()
            return LeaseLost(f"no confirmed beat for {self.rule.fence_s:g} s")
        if completion is not None:
            return completion
        if self._ended_by is not None:
            return self._ended_by
        if self._scope.cancel_called:
            return JobTimedOut(f"the job took longer than {self.timeout_s:g} s", limit_s=self.timeout_s)
        assert error is not None, "a handler that was not ended returns or raises"
        failure = classify(error)
        if isinstance(failure, Crashed):
            _log.error("job crashed", exc_info=next(leaves(error)))
        return failure

    async def _settle(self, end: Completion | SupervisorError) -> None:
        """The final write, shielded. It ends by itself: written, refused, fenced, or cut when the drain closes."""
        self.state = "finalising"
        self.heartbeat.send_nowait(Finalising(self.claimed.lease))
        settlement = Settlement(self.queue, self.claimed.lease, self.progress, self.rule.flush_limit_s,
                                self.rule.write_limit_s, self.rule.write_pause_s)  # fmt: skip
        with trio.CancelScope(shield=True) as scope:
            self._fence.hold(scope)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cut_at_closing, scope)
                self.outcome = await settlement.write(end, refund=not self._work.has_started)
                nursery.cancel_scope.cancel(reason="settled")
        self._fence.release(scope)
        if not self.outcome:
            self.outcome = "abandoned"
            _log.error("final write not done; the job is left to the reaper", fenced=self._fence.passed)
        self.strained = isinstance(end, SupervisorError) and verdict_of(end).strains_worker
        seconds = trio.current_time() - self.claimed.claimed_at
        self.meter.finished(self.claimed.job.job_type, self.outcome, seconds)
        _log.info("job ended", outcome=self.outcome, seconds=round(seconds, 3), why=getattr(end, "message", None))

    def _release(self) -> None:
        self.state = "ended"
        self.heartbeat.send_nowait(Released(self.claimed.lease))
        self.claimed.events.close()

    def _end(self, failure: SupervisorError) -> None:
        """End the handler. A lost lease outranks every other reason; else the first counts."""
        if self._ended_by is None or isinstance(failure, LeaseLost):
            self._ended_by = failure
        self._scope.cancel(reason=failure.kind)

    async def _watch_lease(self) -> None:
        while True:
            event = await self.claimed.events.receive()
            if isinstance(event, Beaten):
                self._fence.confirm(event.at)
            else:
                self._end(LeaseLost(event.why))

    async def _watch_drain(self) -> None:
        await self.lifecycle.reached(Phase.CANCELLING)
        self._end(HandedBack("the supervisor is going down"))

    async def _watch_overstay(self) -> None:
        """D17: a handler that does not even end when cancelled takes a slot for ever; the supervisor must go."""
        await trio.sleep_until(self._timeout_at + self.rule.grace_s)
        why = (
            f"{self.claimed.job.job_type.value} job {self.claimed.job.id} hangs {self.rule.grace_s:g} s past its limit"
        )
        self._end(Overstayed(why))
        self.alarm.send_nowait(Escalation("runner", why))

    async def _cut_at_closing(self, scope: trio.CancelScope) -> None:
        await self.lifecycle.reached(Phase.CLOSING)
        scope.cancel(reason="closing")
