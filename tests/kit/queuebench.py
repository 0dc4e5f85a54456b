"""A queue under test with the hands to look at its rows and to let time pass, whatever stands behind it."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from attrs import define, field

from actors.ports.memoryqueue import MemoryQueue
from actors.ports.pgqueue import PgQueue
from actors.ports.queue import QueuePort
from schema.rows import Job, JobRequest, JobType
from tests.kit.jobrows import Rows


class Bench(Protocol):
    @property
    def queue(self) -> QueuePort: ...

    async def add(self, law_id: str = "law", **values: Any) -> Job:
        """A pending probe job."""
        ...

    async def job(self, job_id: UUID) -> Job: ...

    async def age(self, job_id: UUID, seconds: float) -> None:
        """Claim and last beat of a claimed row lie this much further back."""
        ...

    async def make_due(self, job_id: UUID) -> None:
        """The waiting time of a row is over."""
        ...

    async def ask_to_cancel(self, job_id: UUID) -> None: ...


@define
class MemoryBench:
    queue: MemoryQueue = field(factory=MemoryQueue)

    async def add(self, law_id: str = "law", **values: Any) -> Job:
        job = self.queue.add(JobRequest(values.pop("job_type", JobType.PROBE), law_id, **values))
        assert job is not None
        return job

    async def job(self, job_id: UUID) -> Job:
        return self.queue.job(job_id)

    async def age(self, job_id: UUID, seconds: float) -> None:
        self.queue.age(job_id, seconds)

    async def make_due(self, job_id: UUID) -> None:
        self.queue.make_due(job_id)

    async def ask_to_cancel(self, job_id: UUID) -> None:
        self.queue.ask_to_cancel(job_id)


@define
class PostgresBench:
    rows: Rows

    @property
    def queue(self) -> PgQueue:
        return self.rows.queue

    async def add(self, law_id: str = "law", **values: Any) -> Job:
        return await self.rows.add(values.pop("job_type", JobType.PROBE), law_id, **values)

    async def job(self, job_id: UUID) -> Job:
        return await self.rows.job(job_id)

    async def age(self, job_id: UUID, seconds: float) -> None:
        await self.rows.age(job_id, seconds)

    async def make_due(self, job_id: UUID) -> None:
        await self.rows.sql(
            "UPDATE jobs SET scheduled_at = now() - interval '1 second' WHERE id = $1 AND scheduled_at IS NOT NULL",
            job_id,
        )

    async def ask_to_cancel(self, job_id: UUID) -> None:
        await self.rows.sql("UPDATE jobs SET cancel_requested_at = now() WHERE id = $1", job_id)
