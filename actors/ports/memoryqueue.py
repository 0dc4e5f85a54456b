"""The queue without a database: the twin of ``pgqueue`` for tests on a mock clock (D22).

Same answers, same order, same fences; one conformance suite holds both. Time is trio's clock. What it leaves out stands
with other tables: law status, tasks and budget counts. Units of work get a connection that only records.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import trio
from attrs import define, evolve, field

from actors.ports.queue import BeatAnswer, ClaimAnswer, ClaimRequest, ReapRule, UnitOfWork, Want
from protocols.backoff import retry_backoff
from protocols.failures import JobCancelled, JobEnd, JsonObject, LeaseLost, SupervisorError, verdict_of
from schema.rows import ACTIVE_STATUSES, Job, JobRequest, JobStatus, JobType, Lease, ReapedJob

_EPOCH = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)


@define
class RecordingConnection:
    """Keeps the statements of units of work that were committed; answers with nothing."""

    statements: list[tuple[str, tuple[Any, ...]]] = field(factory=list)

    async def execute(self, query: str, *args: Any) -> str:
        self.statements.append((query, args))
        return "OK"

    async def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None:
        self.statements.append((query, tuple(args)))

    async def fetch(self, query: str, *args: Any) -> Sequence[Mapping[str, Any]]:
        self.statements.append((query, args))
        return []

    async def fetchrow(self, query: str, *args: Any) -> Mapping[str, Any] | None:
        self.statements.append((query, args))
        return None

    async def fetchval(self, query: str, *args: Any) -> Any:
        self.statements.append((query, args))
        return None

    def transaction(self, *, isolation: Any = None) -> AbstractAsyncContextManager[Any]:
        return self._savepoint()

    def is_in_transaction(self) -> bool:
        return True

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[None]:
        kept = len(self.statements)
        try:
            yield
        except BaseException:
            del self.statements[kept:]
            raise


@define
class MemoryQueue:
    """A ``QueuePort``. ``on_pending`` is called for each row that becomes claimable now, as the trigger notifies (D10)."""

    on_pending: Callable[[], object] = lambda: None
    statements: list[tuple[str, tuple[Any, ...]]] = field(init=False, factory=list)
    """What committed units of work said to their connection."""
    _jobs: dict[UUID, Job] = field(init=False, factory=dict)

    # --- outside the port: how rows come in, and how tests look at them -----------------------------------------------

    def add(self, request: JobRequest) -> Job | None:
        """A new pending row; None where an active one of the same law stands in its way (``queue.md`` 2.1)."""
        if any(_same_work(job, request) for job in self._jobs.values() if job.status in ACTIVE_STATUSES):
            return None
        now = self._now()
        due = None if request.delay_s is None else now + dt.timedelta(seconds=request.delay_s)
        job = Job(
            id=uuid4(),
            job_type=request.job_type,
            law_id=request.law_id,
            status=JobStatus.PENDING,
            priority=request.priority,
            attempts=0,
            max_attempts=request.max_attempts,
            created_at=now,
            updated_at=now,
            payload=request.payload,
            scheduled_at=due,
            traject_ref=request.traject_ref,
        )
        self._store(job)
        return job

    def job(self, job_id: UUID) -> Job:
        return self._jobs[job_id]

    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    def age(self, job_id: UUID, seconds: float) -> None:
        """Let ``seconds`` pass for one row: its claim and its last beat lie further back."""
        job, back = self._jobs[job_id], dt.timedelta(seconds=seconds)
        if job.started_at is not None and job.heartbeat_at is not None:
            self._store(evolve(job, started_at=job.started_at - back, heartbeat_at=job.heartbeat_at - back))

    def make_due(self, job_id: UUID) -> None:
        """The waiting time of a row is over."""
        job = self._jobs[job_id]
        if job.scheduled_at is not None:
            self._store(evolve(job, scheduled_at=self._now()))

    def steal(self, job_id: UUID) -> None:
        """What a person with SQL does: the row gets a claim of somebody else's."""
        job = self._jobs[job_id]
        self._store(evolve(job, lease=uuid4(), claimed_by="somebody", attempts=job.attempts + 1))

    def ask_to_cancel(self, job_id: UUID) -> None:
        """What ``jobs cancel`` does to a running job (D26)."""
        self._store(evolve(self._jobs[job_id], cancel_requested_at=self._now()))

    # --- the port ---------------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        await trio.lowlevel.checkpoint()
        self._promote({job_type for want in request.wants for job_type in want.job_types})
        claimed = [self._claim_row(job, request) for want in request.wants for job in self._pick(want)]
        return ClaimAnswer(tuple(claimed), self._next_due_s(request))

    async def release_tokens(self, tokens: Collection[UUID], *, why: str) -> int:
        await trio.lowlevel.checkpoint()
        held = [job for job in self._processing() if job.lease in tokens]
        for job in held:
            self._hand_back(job)
        return len(held)

    async def beat(self, leases: Collection[Lease]) -> BeatAnswer:
        await trio.lowlevel.checkpoint()
        ours = frozenset(lease for lease in leases if self._holds(lease))
        for lease in ours:
            self._store(evolve(self._jobs[lease.job_id], heartbeat_at=self._now()))
        return BeatAnswer(confirmed=ours, lost=frozenset(leases) - ours)

    async def write_progress(self, documents: Mapping[Lease, JsonObject]) -> None:
        await trio.lowlevel.checkpoint()
        for lease, document in documents.items():
            if self._holds(lease):
                self._store(evolve(self._jobs[lease.job_id], progress=document))

    async def write(self, lease: Lease, unit: UnitOfWork) -> None:
        await trio.lowlevel.checkpoint()
        await self._do(self._prove(lease), unit)

    async def complete(self, lease: Lease, result: JsonObject | None, settle: UnitOfWork | None = None) -> None:
        await trio.lowlevel.checkpoint()
        job = self._prove(lease)
        if settle is not None:
            await self._do(job, settle)
        self._close(job, JobStatus.COMPLETED, result)

    async def fail(self, lease: Lease, failure: SupervisorError, *, refund: bool = False) -> JobStatus:
        await trio.lowlevel.checkpoint()
        job = self._prove(lease)
        end = verdict_of(failure).after(job.result, failure.kind).job
        if end is JobEnd.ABANDON:
            raise ValueError(f"{failure.kind} means: write nothing")
        if end is JobEnd.HAND_BACK:
            self._hand_back(job)
        elif end is JobEnd.COMPLETE:
            self._close(job, JobStatus.COMPLETED, failure.to_result())
        elif end is JobEnd.RETRY and job.attempts < job.max_attempts and job.cancel_requested_at is None:
            due = self._now() + dt.timedelta(seconds=retry_backoff(job.deaths))
            self._reopen(evolve(job, result=failure.to_result(), scheduled_at=due))
        else:
            self._close(job, JobStatus.FAILED, failure.to_result())
        return self._jobs[job.id].status

    async def hand_back(self, lease: Lease, *, why: str, refund: bool = False) -> bool:
        await trio.lowlevel.checkpoint()
        if not self._holds(lease):
            return False
        self._hand_back(self._jobs[lease.job_id])
        return True

    async def cancel_requests(self, leases: Collection[Lease]) -> frozenset[Lease]:
        await trio.lowlevel.checkpoint()
        held = (lease for lease in leases if self._holds(lease))
        return frozenset(lease for lease in held if self._jobs[lease.job_id].cancel_requested_at is not None)

    async def reap(self, rule: ReapRule) -> ReapedJob | None:
        await trio.lowlevel.checkpoint()
        orphans = [job for job in self._processing() if self._is_orphan(job, rule)]
        if not orphans:
            return None
        orphan = min(orphans, key=lambda job: (job.started_at, job.id))
        result: JsonObject = {"error": "reaped: job stuck in processing", "kind": "reaped"}
        if orphan.cancel_requested_at is not None:
            result = JobCancelled("cancelled on request; its worker had died").to_result()
        if orphan.attempts < orphan.max_attempts and orphan.cancel_requested_at is None:
            self._reopen(evolve(orphan, result=result, scheduled_at=None))
        else:
            self._close(orphan, JobStatus.FAILED, result)
        job = self._jobs[orphan.id]
        return ReapedJob(job.id, job.job_type, job.law_id, job.status, job.priority, job.attempts, job.payload)

    async def sweep(self) -> Sequence[tuple[str, int]]:
        await trio.lowlevel.checkpoint()
        return ()

    # --- rows -------------------------------------------------------------------------------------------------------

    def _now(self) -> dt.datetime:
        return _EPOCH + dt.timedelta(seconds=trio.current_time())

    def _store(self, job: Job) -> None:
        before = self._jobs.get(job.id)
        self._jobs[job.id] = evolve(job, updated_at=self._now())
        claimable = job.status is JobStatus.PENDING and job.scheduled_at is None
        if claimable and (before is None or before.status is not JobStatus.PENDING or before.scheduled_at is not None):
            self.on_pending()

    def _processing(self) -> Iterator[Job]:
        return (job for job in tuple(self._jobs.values()) if job.status is JobStatus.PROCESSING)

    def _promote(self, job_types: Collection[JobType]) -> None:
        for job in tuple(self._jobs.values()):
            if job.status is not JobStatus.PENDING or job.job_type not in job_types:
                continue
            if job.scheduled_at is not None and job.scheduled_at <= self._now():
                self._store(evolve(job, scheduled_at=None))

    def _pick(self, want: Want) -> Sequence[Job]:
        """In the order of the types; within one: priority, age, id."""
        ready = [
            job
            for job in self._jobs.values()
            if job.status is JobStatus.PENDING and job.scheduled_at is None and job.job_type in want.job_types
        ]
        ready.sort(key=lambda job: (want.job_types.index(job.job_type), -job.priority, job.created_at, job.id))
        return ready[: want.slots]

    def _claim_row(self, job: Job, request: ClaimRequest) -> Job:
        now = self._now()
        claimed = evolve(
            job,
            status=JobStatus.PROCESSING,
            started_at=now,
            heartbeat_at=now,
            attempts=job.attempts + 1,
            cancel_requested_at=None,
            lease=request.token,
            claimed_by=request.holder,
        )
        self._store(claimed)
        return self._jobs[job.id]

    def _next_due_s(self, request: ClaimRequest) -> float | None:
        wanted = {job_type for want in request.wants for job_type in want.job_types}
        due = [
            job.scheduled_at
            for job in self._jobs.values()
            if job.status is JobStatus.PENDING and job.scheduled_at is not None and job.job_type in wanted
        ]
        return max(0.0, (min(due) - self._now()).total_seconds()) if due else None

    def _holds(self, lease: Lease) -> bool:
        job = self._jobs.get(lease.job_id)
        return (
            job is not None
            and job.status is JobStatus.PROCESSING
            and job.lease == lease.token
            and job.attempts == lease.attempts
        )

    def _prove(self, lease: Lease) -> Job:
        if not self._holds(lease):
            raise LeaseLost("the row is not ours any more")
        return self._jobs[lease.job_id]

    async def _do(self, job: Job, unit: UnitOfWork) -> None:
        connection = RecordingConnection()
        await unit(connection, job)
        self.statements += connection.statements

    def _close(self, job: Job, status: JobStatus, result: JsonObject | None) -> None:
        ended = evolve(job, status=status, result=result, completed_at=self._now(), scheduled_at=None)
        self._store(evolve(ended, lease=None, claimed_by=None, heartbeat_at=None))

    def _reopen(self, job: Job) -> None:
        self._store(evolve(job, status=JobStatus.PENDING, lease=None, claimed_by=None, heartbeat_at=None))

    def _hand_back(self, job: Job) -> None:
        """D12: the claim never counted, and no error text stays. A job that is to be cancelled does not come back (D26)."""
        if job.cancel_requested_at is not None:
            self._close(job, JobStatus.FAILED, JobCancelled("cancelled on request").to_result())
            return
        refunded = evolve(job, releases=job.releases + 1, max_attempts=job.max_attempts + 1)
        self._reopen(evolve(refunded, scheduled_at=None, result=None))

    def _is_orphan(self, job: Job, rule: ReapRule) -> bool:
        assert job.started_at is not None
        foreign = job.lease is None and (job.heartbeat_at is None or job.heartbeat_at <= job.started_at)
        limit_s = rule.foreign_orphan_timeout_s if foreign else rule.orphan_timeout_s
        last = max(job.started_at, job.heartbeat_at or job.started_at)
        return (self._now() - last).total_seconds() > limit_s


def _same_work(job: Job, request: JobRequest) -> bool:
    """The two partial unique indexes of ``queue.md`` 1.2; a missing provider never conflicts."""
    if job.job_type != request.job_type or job.law_id != request.law_id:
        return False
    if job.job_type is JobType.HARVEST:
        return True
    if job.job_type is not JobType.ENRICH:
        return False
    provider = (job.payload or {}).get("provider")
    same_provider = provider is not None and provider == (request.payload or {}).get("provider")
    return same_provider and (job.traject_ref or "") == (request.traject_ref or "")
