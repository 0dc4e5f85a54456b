"""What a job type is: one handler, given the work and the means to speak to the rest of the house."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from attrs import frozen

from actors.ports.queue import UnitOfWork
from protocols.failures import JsonObject
from schema.rows import Job, JobType, Lease


@frozen
class Completion:
    """A job that ended well. ``settle`` runs in the completing transaction: law status, follow-ups, tasks."""

    result: JsonObject | None = None
    settle: UnitOfWork | None = None


class Work(Protocol):
    """One claimed job, as its handler sees it."""

    @property
    def job(self) -> Job: ...

    @property
    def lease(self) -> Lease: ...

    def report(self, document: JsonObject) -> None:
        """Latest-wins progress, written with the next batch; never blocks."""
        ...

    async def confirm(self) -> None:
        """One confirmed beat of this row, due right before each effect outside the database (D6). LeaseLost if gone."""
        ...

    def effect(self, what: str, *, limit_s: float) -> AbstractAsyncContextManager[None]:
        """Around each effect outside the database: confirms, then bounds the body (D6, D44).

        ``async with work.effect("git push", limit_s=300): ...``. Transient past ``limit_s``; LeaseLost when the last
        confirmed beat is older than half the fence. A late landing must still be harmless by content.
        """
        ...

    async def write(self, unit: UnitOfWork) -> None:
        """A fenced write in the middle of the job (D1). LeaseLost if gone."""
        ...

    def started(self) -> None:
        """From here on the claim counts as a run: handed back before, it refunds budget (D11)."""
        ...


class JobHandler(Protocol):
    """Runs one job type. Raise a ``SupervisorError`` to say how it failed; anything else becomes ``Crashed``.

    ``run`` is cancelled at the job's time limit, at a lost lease, a cancel or a drain: clean up, shielded and bounded.
    """

    @property
    def job_type(self) -> JobType: ...

    async def run(self, work: Work) -> Completion: ...
