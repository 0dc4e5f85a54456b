"""Short hands for tests of the queue: make rows, claim them, look at them, and play the existing worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from attrs import define, field

from actors.ports.database import Database
from actors.ports.pgqueue import PgQueue
from actors.ports.queue import BudgetRule, ClaimAnswer, ClaimRequest, ReapRule, Want
from protocols.failures import JsonObject
from schema import laws
from schema.connection import Connection
from schema.queue import create_job, get_job
from schema.rows import Job, JobRequest, JobType, LawEntry, LawStatus, ReapedJob

LAW = "BWBR0000001"
OTHER_LAW = "BWBR0000002"


async def _fetch(connection: Connection, query: str, *args: Any) -> Sequence[Mapping[str, Any]]:
    return await connection.fetch(query, *args)


@define
class Rows:
    """A database under test with its queue. Every call is one unit of work."""

    database: Database
    queue: PgQueue = field()

    @queue.default
    def _queue(self) -> PgQueue:
        return PgQueue(self.database)

    async def sql(self, query: str, *args: Any) -> Sequence[Mapping[str, Any]]:
        return await self.database.run(_fetch, query, *args)

    async def value(self, query: str, *args: Any) -> Any:
        rows = await self.sql(query, *args)
        return next(iter(rows[0].values()))

    async def add(
        self, job_type: JobType = JobType.HARVEST, law_id: str = LAW, payload: JsonObject | None = None, **more: Any
    ) -> Job:
        """A pending row. A harvest without payload is for its law."""
        if payload is None and job_type is JobType.HARVEST:
            payload = {"bwb_id": law_id}
        return await self.database.run(create_job, JobRequest(job_type, law_id, payload=payload, **more))

    async def enrich(self, provider: str | None = "opencode", law_id: str = LAW, **more: Any) -> Job:
        payload = {"law_id": law_id, **({} if provider is None else {"provider": provider})}
        return await self.add(JobType.ENRICH, law_id, payload, **more)

    async def claim(
        self, *job_types: JobType, slots: int = 1, budget: BudgetRule | None = None, **more: Any
    ) -> ClaimAnswer:
        """One want with these types (harvest when none is given)."""
        request = ClaimRequest(
            uuid4(), "test", (Want(job_types or (JobType.HARVEST,), slots),), budget or BudgetRule(), **more
        )
        return await self.queue.claim(request)

    async def claimed(self, *job_types: JobType, **more: Any) -> Job:
        """Exactly one job, claimed."""
        [job] = (await self.claim(*job_types, **more)).jobs
        return job

    async def job(self, job_id: UUID) -> Job:
        return await self.database.run(get_job, job_id)

    async def jobs_of(self, law_id: str, job_type: JobType = JobType.HARVEST) -> list[Job]:
        """By age."""
        rows = await self.sql(
            "SELECT id FROM jobs WHERE law_id = $1 AND job_type::text = $2 ORDER BY created_at, id", law_id, job_type
        )
        return [await self.job(row["id"]) for row in rows]

    async def law(self, law_id: str = LAW) -> LawEntry:
        return await self.database.run(laws.get_law, law_id)

    async def set_law(self, status: LawStatus, law_id: str = LAW) -> None:
        await self.database.run(laws.upsert_law, law_id)
        await self.database.run(laws.update_status, law_id, status)

    async def age(self, job_id: UUID, seconds: float) -> None:
        """Let ``seconds`` pass for one row: its claim and its last beat lie further back."""
        await self.sql(
            """
            UPDATE jobs SET started_at = started_at - $2 * interval '1 second',
                            heartbeat_at = heartbeat_at - $2 * interval '1 second' WHERE id = $1
            """,
            job_id,
            float(seconds),
        )

    async def make_due(self, job_id: UUID) -> None:
        """The waiting time of a row is over."""
        await self.sql("UPDATE jobs SET scheduled_at = now() - interval '1 second' WHERE id = $1", job_id)

    async def reap_all(self, rule: ReapRule | None = None) -> list[ReapedJob]:
        found: list[ReapedJob] = []
        while (reaped := await self.queue.reap(rule or ReapRule())) is not None:
            found.append(reaped)
        return found

    # --- an existing worker: it knows no leases -----------------------------------------------------------------------

    async def foreign_claim(self, job_type: JobType = JobType.HARVEST, *, beats: bool = False) -> UUID | None:
        rows = await self.sql(
            f"""
            UPDATE jobs SET status = 'processing', started_at = now(), attempts = attempts + 1
                {", heartbeat_at = now()" if beats else ""}
            WHERE id = (SELECT id FROM jobs WHERE status = 'pending' AND job_type::text = $1
                          AND (scheduled_at IS NULL OR scheduled_at <= now())
                        ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING id
            """,
            job_type.value,
        )
        return rows[0]["id"] if rows else None

    async def foreign_complete(self, job_id: UUID) -> bool:
        return bool(
            await self.sql(
                """
                UPDATE jobs SET status = 'completed', completed_at = now(), result = '{"by": "foreign"}'
                WHERE id = $1 AND status = 'processing' RETURNING id
                """,
                job_id,
            )
        )

    async def foreign_reap(self, job_id: UUID) -> None:
        await self.sql(
            """
            UPDATE jobs SET status = 'pending', result = '{"error": "reaped: job stuck in processing"}'
            WHERE id = $1 AND status = 'processing'
            """,
            job_id,
        )
