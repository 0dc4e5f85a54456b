"""The queue on PostgreSQL: each call is one unit of work over the database port, and unclear answers are resolved here (D7)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import structlog
import trio
from attrs import define, field

from actors.ports.completions import Completions
from actors.ports.database import Refused, Units
from actors.ports.queue import BeatAnswer, ClaimAnswer, ClaimRequest, ReapRule, UnitOfWork
from protocols.failures import (
    DatabaseUnavailable,
    JsonObject,
    LeaseLost,
    OutcomeUnclear,
    ProviderTrouble,
    SupervisorError,
    Verdict,
    verdict_of,
)
from schema import outcomes, tasks
from schema.aftercare import AftercareRules
from schema.pipelines.aftercare import fail_orphans
from schema.queue import beats, endings
from schema.queue.claim import claim
from schema.queue.endings import Standing
from schema.queue.reap import orphans
from schema.rows import JobStatus, Lease, ReapedJob

T = TypeVar("T")

_log = structlog.get_logger(__name__)

RESOLVE_TRIES: Final = 5
"""How often an unclear final write is looked at again, or repeated, before the caller hears of it."""
RESOLVE_PAUSE_S: Final = 0.2


@define
class PgQueue:
    """A ``QueuePort``. ``database`` may be a shielded view of the port: claims and final writes want one (D8)."""

    database: Units
    rules: AftercareRules = field(factory=AftercareRules)
    _completions: Completions = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._completions = Completions(self.database)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return await self.database.run(claim, request)

    async def release_tokens(self, tokens: Collection[UUID], *, why: str) -> int:
        if not tokens:
            return 0
        released = await self.database.transact(endings.release_tokens, tokens)
        for job in released:
            _log.info("released", job_id=str(job.id), why=why)
        return len(released)

    async def beat(self, leases: Collection[Lease]) -> BeatAnswer:
        confirmed, unbeaten = await self.database.beat(beats.beat, leases)
        return BeatAnswer(confirmed, unbeaten, frozenset(leases) - confirmed - unbeaten)

    async def write_progress(self, documents: Mapping[Lease, JsonObject]) -> None:
        if documents:
            await self.database.run(beats.write_progress, documents)

    async def write(self, lease: Lease, unit: UnitOfWork) -> None:
        await self.database.transact(outcomes.write, lease, unit)

    async def complete(self, lease: Lease, result: JsonObject | None, settle: UnitOfWork | None = None) -> None:
        async def once() -> None:
            if settle is None:
                await self._completions.complete(lease, result)
            else:
                await self.database.transact(outcomes.complete, lease, result, settle)

        async def landed() -> None:
            return None

        await self._resolved(lease, once, landed)

    async def fail(self, lease: Lease, failure: SupervisorError, *, refund: bool = False) -> JobStatus:
        async def once() -> JobStatus:
            return await self.database.transact(outcomes.fail, lease, failure, self.rules, refund=refund)

        async def landed() -> JobStatus:
            return await self.database.run(endings.status_of, lease.job_id)

        if isinstance(failure, ProviderTrouble):
            _log.warning("provider in trouble: no job is taken for it for a while", why=failure.message)
        try:
            return await self._resolved(lease, once, landed)
        except Refused as error:
            # DB-09: an error text that the database refuses must not keep its job running for ever
            _log.exception("failure_not_stored", job_id=str(lease.job_id), kind=failure.kind, sqlstate=error.sqlstate)
            return await self._fail_plainly(lease, verdict_of(failure))

    async def hand_back(self, lease: Lease, *, why: str, refund: bool = False) -> bool:
        async def once() -> bool:
            await self.database.transact(outcomes.hand_back, lease, self.rules, refund=refund)
            return True

        async def landed() -> bool:
            return True

        try:
            return await self._resolved(lease, once, landed)
        except LeaseLost:
            return False

    async def cancel_requests(self, leases: Collection[Lease]) -> frozenset[Lease]:
        return frozenset(await self.database.run(beats.cancel_requests, leases)) if leases else frozenset()

    async def reap(self, rule: ReapRule) -> ReapedJob | None:
        for job_id in await self.database.run(orphans, rule):
            reaped = await self._reap_one(job_id, rule)
            if reaped is not None:
                return reaped
        return None

    async def sweep(self) -> Sequence[tuple[str, int]]:
        orphans_of_pipelines = await self.database.transact(fail_orphans)
        return [*await self.database.transact(tasks.sweep), *orphans_of_pipelines]

    async def _reap_one(self, job_id: UUID, rule: ReapRule) -> ReapedJob | None:
        try:
            return await self.database.transact(outcomes.reap_one, job_id, rule, self.rules)
        except SupervisorError:
            raise
        except Exception:  # noqa: BLE001 - whatever the aftercare of one job type raises
            # One bad row must not stop the rest (QH-12): it leaves processing without its aftercare (D3).
            _log.exception("aftercare_failed", job_id=str(job_id))
            return await self.database.transact(outcomes.reap_one, job_id, rule, self.rules, bare=True)

    async def _fail_plainly(self, lease: Lease, verdict: Verdict) -> JobStatus:
        """The same end with a fixed text and without aftercare: what was refused may have been in either."""

        async def once() -> JobStatus:
            return await self.database.transact(outcomes.fail_plainly, lease, verdict)

        async def landed() -> JobStatus:
            return await self.database.run(endings.status_of, lease.job_id)

        return await self._resolved(lease, once, landed)

    async def _resolved(self, lease: Lease, once: Callable[[], Awaitable[T]], landed: Callable[[], Awaitable[T]]) -> T:
        """Do ``once``; after an unclear commit look whether it landed, and repeat it while the claim is still ours (D7)."""
        for _ in range(RESOLVE_TRIES):
            try:
                return await once()
            except OutcomeUnclear as unclear:
                match await self._standing(lease, unclear):
                    case Standing.LANDED:
                        return await landed()
                    case Standing.LOST:
                        raise LeaseLost(
                            f"job {lease.job_id} was taken away while its last write was unclear"
                        ) from unclear
        raise OutcomeUnclear(f"job {lease.job_id}: no clear answer to its last write in {RESOLVE_TRIES} tries")

    async def _standing(self, lease: Lease, unclear: OutcomeUnclear) -> Standing:
        """Where the claim stands after ``unclear``, which is raised again when the database does not say."""
        for _ in range(RESOLVE_TRIES):
            await trio.sleep(RESOLVE_PAUSE_S)
            with contextlib.suppress(OutcomeUnclear, DatabaseUnavailable):
                return await self.database.run(endings.standing, lease)
        raise unclear
