"""A claimed job as a handler sees it, without the runner around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from actors.ports.queue import UnitOfWork
from protocols.failures import JsonObject, LeaseLost
from schema.rows import Job, Lease
from tests.kit.jobrows import Rows


@attrs.define
class HeldWork:
    """What the runner gives a handler, without the runner: the lease is written with, never beaten."""

    rows: Rows
    job: Job
    reports: list[JsonObject] = attrs.field(factory=list)
    lost: bool = False
    runs: int = 0

    @property
    def lease(self) -> Lease:
        return self.job.lease_held

    def report(self, document: JsonObject) -> None:
        self.reports.append(document)

    def started(self) -> None:
        self.runs += 1

    async def confirm(self) -> None:
        if self.lost:
            raise LeaseLost("the row was taken")

    async def write(self, unit: UnitOfWork) -> None:
        await self.rows.queue.write(self.lease, unit)

    @asynccontextmanager
    async def effect(self, what: str, *, limit_s: float) -> AsyncIterator[None]:
        await self.confirm()
        yield
