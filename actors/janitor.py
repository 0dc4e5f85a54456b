"""Deletes what nobody wants any more, a pass now and then, in batches so small that nobody notices.

Jobs that ended long ago (``JOBS_RETENTION_DAYS``); and stored results of runs: the expired, those of deleted runs, and what
dead claims left half done (``pipelines.md`` 7, D65).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.database import Units
from protocols.failures import DatabaseUnavailable, OutcomeUnclear, SupervisorError
from schema.pipelines import periodic, tombstones
from schema.pipelines.tombstones import Tombstone
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

    async def rest(self) -> None:
        """Between two passes, and before the first."""
        await trio.sleep(self.pass_s * random.uniform(1 - self.jitter, 1 + self.jitter))


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
            await self.rule.rest()
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


class ResultStore(Protocol):
    """Where results lie."""

    @property
    def backend_name(self) -> str: ...

    async def delete(self, key: str) -> None:
        """What is not there is fine. ``SupervisorError`` when it may be there still."""
        ...

    async def sweep_parts(self) -> int:
        """Remove what killed uploads left behind; how many."""
        ...


@define
class ResultJanitor:
    """Stored results, and the schedules of connectors, once in a while. Any number may work on one database and one store.

    The row goes before the object: a run loses its key in the transaction that leaves a tombstone, and the tombstone goes
    when the object is gone. So whatever dies in between, an object that nobody can reach is still known.
    """

    database: Units
    open_store: Callable[[], Awaitable[ResultStore]]
    rule: JanitorRule = field(factory=lambda: JanitorRule(pass_s=900))
    batch: int = 100
    expired: int = field(init=False, default=0)
    """In all passes so far, as the other counts."""
    removed: int = field(init=False, default=0)
    failed: int = field(init=False, default=0)
    """Removals that the store would not do; they are tried again."""
    swept: int = field(init=False, default=0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. InvalidInput when the store cannot be used."""
        store = await self.open_store()
        task_status.started()
        while True:
            await self.rule.rest()
            await self.run_once(store)

    async def run_once(self, store: ResultStore) -> None:
        """One pass. Each part is for itself: what goes wrong in one is logged and left to the next pass."""
        parts = (self._expire, self._repair, lambda: self._bury(store), lambda: self._sweep(store))
        for part in parts:
            try:
                await part()
            except (DatabaseUnavailable, OutcomeUnclear) as error:
                _log.warning("janitor meets no database", error=error.message)
                return
            except Exception:  # noqa: BLE001 - the other parts, and the next pass, may go better
                _log.exception("janitor failed")

    async def _expire(self) -> None:
        """Runs lose results that are past their time (``PIPELINE_RESULT_RETENTION_DAYS``)."""
        while True:
            expired = await self.database.transact(tombstones.expire_results, limit=self.batch)
            self.expired += expired
            if expired < self.batch:
                return
            await trio.sleep(self.rule.batch_s)

    async def _repair(self) -> None:
        """Schedules of connectors that do not agree with the pipelines there are: a defect, or a hand in the tables."""
        for connector_id, change in await self.database.transact(periodic.repair):
            _log.warning("schedule of a connector repaired", connector_id=connector_id, suppressed=change.suppressed)

    async def _bury(self, store: ResultStore) -> None:
        """Objects with a tombstone, until there are none or the store is in trouble."""
        before = self.removed
        while True:
            if not await self._bury_batch(store):
                break
            await trio.sleep(self.rule.batch_s)
        if self.removed > before:
            _log.info("results deleted", results=self.removed - before)

    async def _bury_batch(self, store: ResultStore) -> bool:
        """Whether there may be more to do now."""
        stones = await self.database.run(tombstones.removable, backend=store.backend_name, limit=self.batch)
        for stone in stones:
            if not await self._remove(store, stone):
                return False
        return len(stones) == self.batch

    async def _remove(self, store: ResultStore, stone: Tombstone) -> bool:
        """False: not now. Those that failed come last in the next pass, so one bad key never keeps the others."""
        try:
            await store.delete(stone.key)
        except SupervisorError as error:
            self.failed += 1
            await self.database.run(tombstones.not_removed, stone.id)
            _log.warning("a result could not be deleted", key=stone.key, tries=stone.attempts + 1, error=error.message)
            return False
        await self.database.run(tombstones.removed, stone.id)
        self.removed += 1
        return True

    async def _sweep(self, store: ResultStore) -> None:
        self.swept += await store.sweep_parts()
