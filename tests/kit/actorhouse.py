"""The working actors on the in-memory queue, wired as the supervisor wires them, for tests on a mock clock."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import trio
from attrs import define, field, frozen

from actors.budget import BudgetKeeper
from actors.claimer import Claimer, ClaimRule
from actors.heartbeat import BeatRule, Heartbeat
from actors.jobs.base import Completion, JobHandler, Work
from actors.jobslots import JobSlots
from actors.ports.budgetgate import BudgetGate
from actors.ports.latest import LatestWins
from actors.ports.lifecycle import Lifecycle
from actors.ports.memoryqueue import MemoryQueue
from actors.ports.queue import BudgetRule, ClaimRequest, Want
from actors.ports.slots import RoleSlots, SlotLedger
from actors.progress import ProgressRule, ProgressWriter
from actors.runner import JobRunner, RunRule
from protocols.failures import JsonObject
from protocols.messages import (
    BudgetCounted,
    CancelJob,
    ClaimedJob,
    ClaimerMessage,
    Escalation,
    FlushProgress,
    HeartbeatMessage,
    Held,
    LeaseEvent,
    Phase,
)
from schema.rows import Job, JobRequest, JobType, Lease
from tests.kit.faultyqueue import FaultyQueue

TIMEOUT_S = 1200.0


@frozen
class FunctionHandler:
    """A job type made of one function."""

    function: Callable[[Work], Awaitable[Completion | None]]
    job_type: JobType = JobType.PROBE

    async def run(self, work: Work) -> Completion:
        return await self.function(work) or Completion()


@define
class ActorHouse:
    """Channels, ledger and rules of one supervisor; make only the actors that a test is about."""

    handler: JobHandler = field(factory=lambda: FunctionHandler(_one_second))
    slots_of_role: int = 1
    memory: MemoryQueue = field(factory=MemoryQueue)
    queue: FaultyQueue = field(init=False)
    lifecycle: Lifecycle = field(init=False, factory=Lifecycle)
    ledger: SlotLedger = field(init=False)
    board: LatestWins[Lease, JsonObject] = field(init=False, factory=LatestWins)
    timeouts: Mapping[JobType, float] = field(factory=lambda: {JobType.PROBE: TIMEOUT_S})
    beat_rule: BeatRule = field(factory=BeatRule)
    run_rule: RunRule = field(factory=RunRule)
    gate: BudgetGate = field(factory=lambda: BudgetGate(BudgetRule(hourly_limit=10)))

    def __attrs_post_init__(self) -> None:
        self.queue = FaultyQueue(self.memory)
        self.ledger = SlotLedger((RoleSlots("probe", (JobType.PROBE,), self.slots_of_role),))
        self.lifecycle.advance(Phase.RUNNING)
        self.to_heartbeat, self.heartbeat_inbox = trio.open_memory_channel[HeartbeatMessage](math.inf)
        self.to_claimer, self.claimer_inbox = trio.open_memory_channel[ClaimerMessage](math.inf)
        self.to_budget, self.budget_inbox = trio.open_memory_channel[BudgetCounted](math.inf)
        self.claims_in, self.claims = trio.open_memory_channel[ClaimedJob](0)
        self.to_jobs, self.cancels = trio.open_memory_channel[CancelJob](math.inf)
        self.to_progress, self.progress_inbox = trio.open_memory_channel[FlushProgress](math.inf)
        self.alarm, self.alarms = trio.open_memory_channel[Escalation](math.inf)

    to_heartbeat: trio.MemorySendChannel[HeartbeatMessage] = field(init=False)
    heartbeat_inbox: trio.MemoryReceiveChannel[HeartbeatMessage] = field(init=False)
    to_claimer: trio.MemorySendChannel[ClaimerMessage] = field(init=False)
    claimer_inbox: trio.MemoryReceiveChannel[ClaimerMessage] = field(init=False)
    to_budget: trio.MemorySendChannel[BudgetCounted] = field(init=False)
    budget_inbox: trio.MemoryReceiveChannel[BudgetCounted] = field(init=False)
    claims_in: trio.MemorySendChannel[ClaimedJob] = field(init=False)
    claims: trio.MemoryReceiveChannel[ClaimedJob] = field(init=False)
    to_jobs: trio.MemorySendChannel[CancelJob] = field(init=False)
    cancels: trio.MemoryReceiveChannel[CancelJob] = field(init=False)
    to_progress: trio.MemorySendChannel[FlushProgress] = field(init=False)
    progress_inbox: trio.MemoryReceiveChannel[FlushProgress] = field(init=False)
    alarm: trio.MemorySendChannel[Escalation] = field(init=False)
    alarms: trio.MemoryReceiveChannel[Escalation] = field(init=False)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.queue, self.heartbeat_inbox, self.beat_rule)

    def claimer(self, *, answer_limit_s: float = 15) -> Claimer:
        claim_rule = ClaimRule("test", self.timeouts, grace_s=self.run_rule.grace_s, answer_limit_s=answer_limit_s)
        return Claimer(
            self.queue, self.ledger, claim_rule, self.claimer_inbox, self.to_heartbeat, self.claims_in, self.lifecycle,
            self.gate, self.to_budget,
        )  # fmt: skip

    def budget(self) -> BudgetKeeper:
        return BudgetKeeper(self.gate, self.budget_inbox, self.to_claimer)

    def runner(self, claimed: ClaimedJob) -> JobRunner:
        return JobRunner(
            claimed,
            self.handler,
            self.timeouts[claimed.job.job_type],
            self.queue,
            self.to_heartbeat,
            self.board,
            self.to_progress,
            self.alarm,
            self.lifecycle,
            self.run_rule,
        )

    def job_slots(self, breaker_limit: int = 5) -> JobSlots:
        return JobSlots(self.runner, self.ledger, self.claims, self.cancels, self.to_claimer, self.alarm, breaker_limit)

    def progress(self) -> ProgressWriter:
        return ProgressWriter(self.queue, self.board, self.progress_inbox, self.lifecycle, ProgressRule())

    def add(self, law_id: str = "BWBR0000001", **values: object) -> Job:
        job = self.memory.add(JobRequest(JobType.PROBE, law_id, **values))  # type: ignore[arg-type]
        assert job is not None
        return job

    async def claim(self) -> ClaimedJob:
        """Claim one job as the claimer does, lease in the beat set, without a claimer."""
        asked_at = trio.current_time()
        answer = await self.memory.claim(ClaimRequest(uuid4(), "test", (Want((JobType.PROBE,), 1),)))
        (job,) = answer.jobs
        sender, receiver = trio.open_memory_channel[LeaseEvent](math.inf)
        beat_until = asked_at + self.timeouts[JobType.PROBE] + self.run_rule.grace_s
        self.to_heartbeat.send_nowait(Held(job.lease_held, asked_at, beat_until, sender))
        self.ledger.take("probe")
        return ClaimedJob(job, job.lease_held, "probe", asked_at, receiver)

    @asynccontextmanager
    async def running(self, *, claimer: bool = True) -> AsyncIterator[trio.Nursery]:
        """All working actors; cancelled at the end of the block."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.heartbeat().run)
            await nursery.start(self.progress().run)
            await nursery.start(self.job_slots().run)
            if claimer:
                await nursery.start(self.claimer().run)
            yield nursery
            nursery.cancel_scope.cancel()

    async def ended(self, job_id: UUID) -> Job:
        """Wait until the job is neither pending nor processing."""
        while True:
            job = self.memory.job(job_id)
            if job.completed_at is not None:
                return job
            await trio.sleep(0.25)


async def _one_second(work: Work) -> None:
    await trio.sleep(1)
