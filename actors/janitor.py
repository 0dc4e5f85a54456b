"""Deletes jobs that ended long ago: a pass now and then, in batches so small that nobody notices (``JOBS_RETENTION_DAYS``)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from uuid import UUID

import structlog
import trio
from attrs import define, field, frozen

from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from schema.retention import Batch

_log = structlog.get_logger(__name__)


@frozen
class JanitorRule:
    """Seconds. ``pass_s`` is the rest between two passes, ``batch_s`` between two batches of one pass.

    ``jitter``: supervisors that started together must not all walk at once; a rest is up to this part of it longer or shorter.
    """

    pass_s: float = 3600
    batch_s: float = 0.2
    trouble_s: float = 60
    jitter: float = 0.5


@define
class Janitor:
    """``prune(after)`` is one batch: see ``schema.retention.prune_jobs``."""

    prune: Callable[[UUID | None], Awaitable[Batch]]
    rule: JanitorRule = field(factory=JanitorRule)
    deleted: int = field(init=False, default=0)
    """In all passes so far."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. The first pass is a while after the start: a supervisor has more urgent things to do then."""
        task_status.started()
        while True:
            await trio.sleep(self.rule.pass_s * random.uniform(1 - self.rule.jitter, 1 + self.rule.jitter))
            await self.run_once()

    async def run_once(self) -> int:
        """One pass over the whole table. How many jobs were deleted. What went wrong is tried again where it stopped."""
        deleted, after = 0, None
        while True:
            try:
                batch = await self.prune(after)
            except (DatabaseUnavailable, OutcomeUnclear) as error:
                _log.warning("janitor meets no database", error=error.message)
                await trio.sleep(self.rule.trouble_s)
                continue
            deleted += batch.deleted
            self.deleted += batch.deleted
            if batch.last is None and not batch.busy:
                break
            after = batch.last
            await trio.sleep(self.rule.batch_s)
        if deleted:
            _log.info("old jobs deleted", jobs=deleted)
        return deleted
