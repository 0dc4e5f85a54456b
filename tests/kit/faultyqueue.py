"""A queue with scripted trouble in front of a real one, for actor tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import trio
from attrs import define, field

from actors.ports.queue import BeatAnswer, ClaimAnswer, ClaimRequest, QueuePort, ReapRule, UnitOfWork
from protocols.failures import DatabaseUnavailable, JsonObject, OutcomeUnclear, SupervisorError
from schema.rows import JobStatus, Lease, ReapedJob

T = TypeVar("T")


@define
class FaultyQueue:
    """Hands every call on to ``real``, unless told otherwise.

    - ``down``: every call, or those named in ``down_for``, fail with DatabaseUnavailable.
    - ``slow_s``: seconds that a call of this name takes before it is handed on.
    - ``unclear``: how often the next calls of this name do their work and then lose the answer.
    - ``after``: called when a call of this name has done its work; what it raises takes the place of the answer.
    - ``calls``: (moment, name) of every call.
    """

    real: QueuePort
    down: bool = False
    down_for: set[str] = field(factory=set)
    slow_s: dict[str, float] = field(factory=dict)
    unclear: dict[str, int] = field(factory=dict)
    after: dict[str, Callable[[], object]] = field(factory=dict)
    calls: list[tuple[float, str]] = field(init=False, factory=list)

    def times(self, name: str) -> list[float]:
        return [at for at, called in self.calls if called == name]

    async def _call(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls.append((trio.current_time(), name))
        await trio.sleep(self.slow_s.get(name, 0))
        if self.down or name in self.down_for:
            raise DatabaseUnavailable("the database is away")
        answer = await call()
        if name in self.after:
            self.after[name]()
        if self.unclear.get(name, 0) > 0:
            self.unclear[name] -= 1
            raise OutcomeUnclear("the answer was lost")
        return answer

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return await self._call("claim", lambda: self.real.claim(request))

    async def release_tokens(self, tokens: Collection[UUID], *, why: str) -> int:
        return await self._call("release_tokens", lambda: self.real.release_tokens(tokens, why=why))

    async def beat(self, leases: Collection[Lease]) -> BeatAnswer:
        return await self._call("beat", lambda: self.real.beat(leases))

    async def write_progress(self, documents: Mapping[Lease, JsonObject]) -> None:
        await self._call("write_progress", lambda: self.real.write_progress(documents))

    async def write(self, lease: Lease, unit: UnitOfWork) -> None:
        await self._call("write", lambda: self.real.write(lease, unit))

    async def complete(self, lease: Lease, result: JsonObject | None, settle: UnitOfWork | None = None) -> None:
        await self._call("complete", lambda: self.real.complete(lease, result, settle))

    async def fail(self, lease: Lease, failure: SupervisorError, *, refund: bool = False) -> JobStatus:
        return await self._call("fail", lambda: self.real.fail(lease, failure, refund=refund))

    async def hand_back(self, lease: Lease, *, why: str, refund: bool = False) -> bool:
        return await self._call("hand_back", lambda: self.real.hand_back(lease, why=why, refund=refund))

    async def cancel_requests(self, leases: Collection[Lease]) -> frozenset[Lease]:
        return await self._call("cancel_requests", lambda: self.real.cancel_requests(leases))

    async def reap(self, rule: ReapRule) -> ReapedJob | None:
        return await self._call("reap", lambda: self.real.reap(rule))

    async def sweep(self) -> Sequence[tuple[str, int]]:
        return await self._call("sweep", self.real.sweep)
