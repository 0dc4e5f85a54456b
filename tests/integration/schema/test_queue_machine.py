"""The real queue against a small model, over random sequences by several workers.

The model is the promise: who holds what, what each report answers, what a row looks like afterwards. Time passes by
moving the stamps of rows into the past, for the model and for the database alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import hypothesis
import pytest
import trio
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from protocols.backoff import retry_backoff
from protocols.failures import LeaseLost, Permanent, Transient
from schema.errors import JobNotWaiting
from schema.requests import cancel
from schema.rows import JobStatus, JobType, Lease
from tests.kit.jobrows import Rows

T = TypeVar("T")
ORPHAN_S = 300.0
SLACK_S = 20.0
"""Model and server measure by different clocks: nothing is asked about moments nearer than this to a limit."""

REPORTS = ("beat", "complete", "fail", "fail", "give up", "hand back", "release", "cancel", "cancel")

WAITING, RUNNING, DONE, FAILED = JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.COMPLETED, JobStatus.FAILED


@define
class ModelJob:
    """What a row must look like. Times are seconds of the model's own clock."""

    law_id: str
    priority: int
    max_attempts: int
    order: int
    status: JobStatus = WAITING
    attempts: int = 0
    releases: int = 0
    due: float = 0
    beaten: float = 0
    lease: Lease | None = None
    cancel_wanted: bool = False
    ends: int = 0
    executions: int = 0

    def again(self, delay_s: float = 0, now: float = 0) -> None:
        self.status, self.lease, self.due = WAITING, None, now + delay_s

    def end(self, status: JobStatus) -> None:
        self.status, self.lease = status, None
        self.ends += 1


@define
class Model:
    now: float = 0
    jobs: dict[UUID, ModelJob] = field(factory=dict)

    def claimable(self) -> list[tuple[UUID, ModelJob]]:
        due = [(id_, job) for id_, job in self.jobs.items() if job.status is WAITING and job.due <= self.now]
        return sorted(due, key=lambda item: (-item[1].priority, item[1].order))

    def fail(self, job: ModelJob, *, terminal: bool) -> None:
        if terminal or job.cancel_wanted or job.attempts >= job.max_attempts:
            job.end(FAILED)
        else:
            job.again(retry_backoff(job.attempts - job.releases), self.now)

    def reap(self, job: ModelJob) -> None:
        if job.cancel_wanted or job.attempts >= job.max_attempts:
            job.end(FAILED)
        else:
            job.again(now=self.now)


class QueueMachine(RuleBasedStateMachine):
    """Workers are told apart by the leases they hold; a lease that was once given stays in the bundle for ever."""

    rows: Rows
    call: Callable[..., Any]
    leases: Bundle[Lease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.do(self.rows.sql, "TRUNCATE jobs, law_entries CASCADE")

    def do(self, fn: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        async def call() -> T:
            return await fn(*args, **kwargs)

        result: T = trio.from_thread.run(call)
        return result

    def owner(self, lease: Lease) -> ModelJob | None:
        job = self.model.jobs[lease.job_id]
        return job if job.lease == lease else None

    @rule(priority=st.integers(0, 3), max_attempts=st.integers(1, 3), delay_s=st.sampled_from([None, 100.0]))
    def create(self, priority: int, max_attempts: int, delay_s: float | None) -> None:
        self._create(priority, max_attempts, delay_s)

    @initialize(attempts=st.lists(st.integers(1, 3), min_size=3, max_size=5))
    def start_with_some(self, attempts: list[int]) -> None:
        for max_attempts in attempts:
            self._create(1, max_attempts, None)

    @initialize(target=leases)
    def start_with_a_claim(self) -> Any:
        return self._claim(2)

    def _create(self, priority: int, max_attempts: int, delay_s: float | None) -> None:
        order = len(self.model.jobs)
        law_id = f"doc:{order}"
        job = self.do(
            self.rows.add,
            JobType.DOCUMENT_CONVERT,
            law_id,
            {"n": order},
            priority=priority,
            max_attempts=max_attempts,
            delay_s=delay_s,
        )
        due = self.model.now + (delay_s or 0)
        self.model.jobs[job.id] = ModelJob(law_id, priority, max_attempts, order, due=due)

    @rule(target=leases, slots=st.integers(1, 3))
    def claim(self, slots: int) -> Any:
        return self._claim(slots)

    def _claim(self, slots: int) -> Any:
        expected = self.model.claimable()[:slots]
        jobs = self.do(self.rows.claim, JobType.DOCUMENT_CONVERT, slots=slots).jobs
        assert [job.id for job in jobs] == [id_ for id_, _ in expected]
        for job in jobs:
            mine = self.model.jobs[job.id]
            mine.status, mine.lease, mine.beaten = RUNNING, job.lease_held, self.model.now
            mine.attempts += 1
            mine.executions += 1
            mine.cancel_wanted = False
        return multiple(*(job.lease_held for job in jobs))

    def beat(self, lease: Lease) -> None:
        answer = self.do(self.rows.queue.beat, [lease])
        job = self.owner(lease)
        assert answer.confirmed == ({lease} if job else set())
        assert answer.lost == (set() if job else {lease})
        if job:
            job.beaten = self.model.now

    @rule(lease=leases, report=st.sampled_from(REPORTS))
    def report(self, lease: Lease, report: str) -> None:
        """What the holder, or who once was the holder, does with a lease. One rule, so that none is left out for long."""
        match report:
            case "beat":
                self.beat(lease)
            case "complete":
                self.complete(lease)
            case "hand back":
                self.release(lease, by_token=False)
            case "release":
                self.release(lease, by_token=True)
            case "cancel":
                self.cancel(lease.job_id)
            case _:
                self.fail(lease, Permanent("p") if report == "give up" else Transient("t"))

    @rule(seconds=st.sampled_from([25.0, 150.0, 400.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        moments = [job.due for job in self.model.jobs.values() if job.status is WAITING]
        moments += [job.beaten + ORPHAN_S for job in self.model.jobs.values() if job.status is RUNNING]
        while any(abs(moment - self.model.now - seconds) < SLACK_S for moment in moments):
            seconds += SLACK_S
        self.model.now += seconds
        self.do(
            self.rows.sql,
            """
            UPDATE jobs SET started_at = started_at - $1 * interval '1 second',
                heartbeat_at = heartbeat_at - $1 * interval '1 second', scheduled_at = scheduled_at - $1 * interval '1 second'
            """,
            seconds,
        )

    @rule()
    def reap(self) -> None:
        orphans = {
            id_: job
            for id_, job in self.model.jobs.items()
            if job.status is RUNNING and self.model.now - job.beaten > ORPHAN_S
        }
        for job in orphans.values():
            self.model.reap(job)
        reaped = self.do(self.rows.reap_all)
        assert {one.id: one.status for one in reaped} == {id_: job.status for id_, job in orphans.items()}

    def complete(self, lease: Lease) -> None:
        job = self.owner(lease)
        if job is None:
            with pytest.raises(LeaseLost):
                self.do(self.rows.queue.complete, lease, {"by": str(lease.token)})
            return
        self.do(self.rows.queue.complete, lease, {"by": str(lease.token)})
        job.end(DONE)

    def fail(self, lease: Lease, failure: Transient | Permanent) -> None:
        job = self.owner(lease)
        if job is None:
            with pytest.raises(LeaseLost):
                self.do(self.rows.queue.fail, lease, failure)
            return
        self.model.fail(job, terminal=isinstance(failure, Permanent))
        assert self.do(self.rows.queue.fail, lease, failure) is job.status

    def release(self, lease: Lease, *, by_token: bool) -> None:
        held = [j for j in self.model.jobs.values() if j.lease is not None and j.lease.token == lease.token]
        held = held if by_token else [j for j in held if j.lease == lease]
        for job in held:
            job.end(FAILED) if job.cancel_wanted else self._handed_back(job)
        if by_token:
            assert self.do(self.rows.queue.release_tokens, [lease.token], why="unclear") == len(held)
        else:
            assert self.do(self.rows.queue.hand_back, lease, why="drain") is bool(held)

    def _handed_back(self, job: ModelJob) -> None:
        job.again(now=self.model.now)
        job.releases += 1
        job.max_attempts += 1

    def cancel(self, job_id: UUID) -> None:
        job = self.model.jobs[job_id]
        if job.status in {DONE, FAILED}:
            with pytest.raises(JobNotWaiting):
                self.do(self.rows.database.transact, cancel, job_id)
            return
        self.do(self.rows.database.transact, cancel, job_id)
        if job.status is WAITING:
            job.end(FAILED)
        else:
            job.cancel_wanted = True

    @invariant()
    def rows_are_as_promised(self) -> None:
        if not self.model.jobs:
            return
        found = self.do(
            self.rows.sql,
            "SELECT id, status::text, attempts, max_attempts, releases, lease, last_lease, completed_at FROM jobs",
        )
        for row in found:
            job = self.model.jobs[row["id"]]
            assert (row["status"], row["attempts"], row["releases"]) == (job.status, job.attempts, job.releases)
            assert row["max_attempts"] == job.max_attempts
            assert row["lease"] == (None if job.lease is None else job.lease.token)
            assert (row["completed_at"] is not None) is (job.status in {DONE, FAILED})
            assert job.ends <= 1
            assert job.attempts == job.executions
            assert job.attempts - job.releases <= job.max_attempts
        assert len(found) == len(self.model.jobs)


@pytest.mark.claim("S0-003", "S0-007", "S0-011", "S0-018", "S1-043")
@pytest.mark.time_limit(240)
async def test_the_queue_keeps_its_promise_over_any_sequence_of_what_workers_do(rows: Rows) -> None:
    class Machine(QueueMachine):
        pass

    Machine.rows = rows
    settings = hypothesis.settings(
        max_examples=hypothesis.settings().max_examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    await trio.to_thread.run_sync(lambda: run_state_machine_as_test(Machine, settings=settings))
