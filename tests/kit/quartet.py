"""Claim, beat, reap, complete and release by several holders at once, in an order that a seed decides.

Between any two calls everybody waits a random while, so each seed is another interleaving. Holders lose answers, stall
past the orphan timeout and go on all the same, or die. What was *accepted* is written down, and must make sense.
"""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID, uuid4

import trio
from attrs import define, field

from actors.ports.queue import ClaimRequest, ReapRule, Want
from protocols.failures import LeaseLost, Transient
from schema.rows import Job, JobStatus, JobType, Lease
from tests.kit.queuebench import Bench

JOBS = 5
HOLDERS = 3


@define
class Quartet:
    """One run. ``pause_s`` is the longest wait between two calls."""

    bench: Bench
    seed: int
    pause_s: float
    ended: Counter[Lease] = field(init=False, factory=Counter)
    """How often an end of this claim was accepted, by whatever call."""
    completed: Counter[UUID] = field(init=False, factory=Counter)
    claimed: Counter[UUID] = field(init=False, factory=Counter)
    trespasses: list[str] = field(init=False, factory=list)
    """Calls that were accepted although a later claim of the same job had been answered before they began."""
    suspects: list[UUID] = field(init=False, factory=list)
    _random: random.Random = field(init=False)
    _newest: dict[UUID, int] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def play(self) -> list[Job]:
        """All jobs to their end; the rows afterwards."""
        jobs = [await self.bench.add(f"law {n}", max_attempts=12) for n in range(JOBS)]
        async with trio.open_nursery() as nursery:
            for _ in range(HOLDERS):
                nursery.start_soon(self._holder)
            for _ in range(2):
                nursery.start_soon(self._reaper, jobs)
            nursery.start_soon(self._releaser)
            while not all(job.completed_at for job in [await self.bench.job(job.id) for job in jobs]):
                await self._pause()
            nursery.cancel_scope.cancel()
        return [await self.bench.job(job.id) for job in jobs]

    def problems(self, rows: list[Job]) -> list[str]:
        """What does not hold, whatever happened; each with the seed that plays it again."""
        found = [f"{what} by a claim that was over" for what in self.trespasses]
        if not set(self.ended.values()) <= {0, 1}:
            found.append("a claim ended twice")
        for row in rows:
            rules = {
                "completed not exactly once": self.completed[row.id] == (row.status is JobStatus.COMPLETED),
                "still held": row.lease is None and row.claimed_by is None,
                "more attempts than allowed": row.deaths <= 12,
                "a claim that the row does not know": self.claimed[row.id] <= row.attempts,
            }
            found += [f"job {row.id}: {what}" for what, holds in rules.items() if not holds]
        return [f"seed {self.seed}: {problem}" for problem in found]

    async def _holder(self) -> None:
        while True:
            await self._pause()
            token = uuid4()
            answer = await self.bench.queue.claim(ClaimRequest(token, "holder", (Want((JobType.PROBE,), 1),)))
            for job in answer.jobs:
                self._newest[job.id] = job.attempts
            if self._random.random() < 0.15:
                self.suspects.append(token)  # the answer got lost: nobody here knows what was claimed
                continue
            for job in answer.jobs:
                self.claimed[job.id] += 1
                await self._work(job)

    async def _work(self, job: Job) -> None:
        lease = job.lease_held
        for _ in range(self._random.randrange(4)):
            await self._pause()
            stale = self._stale(lease)
            answer = await self.bench.queue.beat([lease])
            self._accepted("beat", stale and lease in answer.confirmed)
            if lease in answer.lost and self._random.random() < 0.5:
                return  # else it is a zombie that goes on regardless
        await self._pause()
        stale = self._stale(lease)
        try:
            how = await self._end(lease)
        except LeaseLost:
            return
        self._accepted(how, stale and how not in {"die", "too late"})

    def _stale(self, lease: Lease) -> bool:
        return self._newest[lease.job_id] > lease.attempts

    def _accepted(self, what: str, trespass: bool) -> None:
        if trespass:
            self.trespasses.append(what)

    async def _end(self, lease: Lease) -> str:
        how = self._random.choices(["complete", "fail", "hand back", "die"], [5, 2, 2, 1])[0]
        match how:
            case "complete":
                await self.bench.queue.complete(lease, {"by": str(lease.token)})
                self.completed[lease.job_id] += 1
                self.ended[lease] += 1
            case "fail":
                await self.bench.queue.fail(lease, Transient("by design"))
                self.ended[lease] += 1
            case "hand back":
                if not await self.bench.queue.hand_back(lease, why="by design"):
                    return "too late"
                self.ended[lease] += 1
        return how

    async def _reaper(self, jobs: list[Job]) -> None:
        """Lets time pass for one row after the other, held by the living or the dead, and reaps."""
        while True:
            await self._pause()
            job = self._random.choice(jobs)
            await self.bench.age(job.id, 301)  # its holder stalled, or is dead
            await self.bench.make_due(job.id)
            await self._pause()
            await self.bench.queue.reap(ReapRule())

    async def _releaser(self) -> None:
        while True:
            await self._pause()
            if self.suspects:
                await self.bench.queue.release_tokens(self.suspects[-3:], why="suspect")

    async def _pause(self) -> None:
        await trio.sleep(self._random.random() * self.pause_s)
