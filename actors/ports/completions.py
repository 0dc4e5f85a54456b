"""Completions that have nothing to settle share a statement: one commit for all that end while another is under way.

A commit waits for the disk. Whoever comes first does not wait for others; who comes meanwhile goes with the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import trio
from attrs import define, field

from actors.ports.database import Refused, Units
from protocols.failures import JsonObject, OutcomeUnclear, SupervisorError
from schema.errors import JobNotProcessing
from schema.queue import endings
from schema.rows import Lease

MOST_AT_ONCE: Final = 500


@define(eq=False)
class _Waiting:
    """One completion. ``leads`` is set on waking when it is its turn to write for all that wait."""

    lease: Lease
    result: JsonObject | None
    woken: trio.Event = field(factory=trio.Event)
    leads: bool = False
    failure: Exception | None = None


@define
class Completions:
    """``database`` as for :class:`actors.ports.pgqueue.PgQueue`."""

    database: Units
    _waiting: deque[_Waiting] = field(init=False, factory=deque)
    _under_way: bool = field(init=False, default=False)

    async def complete(self, lease: Lease, result: JsonObject | None) -> None:
        """As ``endings.complete``, with its failures. Cancelled before its statement was sent, nothing was written."""
        own = _Waiting(lease, result)
        if self._under_way:
            await self._wait(own)
        else:
            self._under_way = own.leads = True
        if own.leads:
            try:
                await trio.lowlevel.cancel_shielded_checkpoint()  # who ends in this very moment goes along
                await self._write([own, *self._next()], own)
            finally:
                self._hand_on()
        if own.failure is not None:
            raise own.failure

    async def _wait(self, own: _Waiting) -> None:
        """Until somebody wrote it, or it is the turn of ``own`` to write."""
        self._waiting.append(own)
        try:
            await own.woken.wait()
        except trio.Cancelled:
            if own in self._waiting:
                self._waiting.remove(own)
            if own.leads:
                self._hand_on()
            raise

    def _next(self) -> list[_Waiting]:
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]

    async def _write(self, batch: Sequence[_Waiting], own: _Waiting) -> None:
        """Write all of ``batch``, tell each how it went, wake them. Raises only what interrupts ``own``."""
        try:
            if len(batch) == 1:
                await self.database.run(endings.complete, own.lease, own.result)
                return
            done = await self.database.run(endings.complete_many, {one.lease: one.result for one in batch})
            for one in batch:
                one.failure = None if one.lease in done else JobNotProcessing(one.lease.job_id)
        except Refused as error:
            await self._one_by_one(batch, error)
        except SupervisorError as error:
            for one in batch:
                one.failure = error if one is own else type(error)(error.message, **error.details)
        except BaseException:
            for one in batch:
                one.failure = OutcomeUnclear("the statement was interrupted, the job may be completed")
            raise
        finally:
            for one in batch:
                one.woken.set()

    async def _one_by_one(self, batch: Sequence[_Waiting], refusal: Exception) -> None:
        """The database refused one of them, which must not keep the others from ending."""
        for one in batch:
            try:
                if len(batch) == 1:
                    raise refusal
                await self.database.run(endings.complete, one.lease, one.result)
            except (Refused, SupervisorError) as error:
                one.failure = error

    def _hand_on(self) -> None:
        """The one that waited longest writes next."""
        self._under_way = bool(self._waiting)
        if self._waiting:
            first = self._waiting.popleft()
            first.leads = True
            first.woken.set()
