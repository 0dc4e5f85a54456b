"""Beats all held leases with one statement per tick, and tells each runner what came of its own (D5, D6).

The fence is the runner's: it moves with each ``Beaten``, so that silence from here, for whatever reason, ends the job
in time. One loop does everything, in order: messages that arrived while a beat was under way are read before its
answer is judged, so a job that began its final write meanwhile is never called lost.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from uuid import UUID

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.meter import Meter, NoMeter
from actors.ports.queue import BeatAnswer, QueuePort
from protocols.failures import DatabaseUnavailable, OutcomeUnclear, SupervisorError
from protocols.messages import (
    Beaten,
    ConfirmAnswer,
    ConfirmBeat,
    Finalising,
    HeartbeatMessage,
    Held,
    LeaseEvent,
    LeaseGone,
    NotBeaten,
    Released,
    SuspectToken,
)
from schema.rows import Lease

_log = structlog.get_logger(__name__)


@frozen
class BeatRule:
    """Seconds. ``answer_limit_s`` bounds one beat, so that a silent database cannot eat the ticks to come."""

    interval_s: float = 30
    answer_limit_s: float = 10


@define
class Heartbeat:
    """Fatal for the supervisor: whoever cannot beat hands everything back and goes (D17)."""

    queue: QueuePort
    inbox: trio.MemoryReceiveChannel[HeartbeatMessage]
    rule: BeatRule = BeatRule()
    meter: Meter = field(factory=NoMeter)
    _held: dict[Lease, Held] = field(init=False, factory=dict)
    _finalising: set[Lease] = field(init=False, factory=set)
    _suspects: dict[UUID, float] = field(init=False, factory=dict)
    _fresh_suspects: set[UUID] = field(init=False, factory=set)
    _confirms: list[ConfirmBeat] = field(init=False, factory=list)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. A slow beat does not push the next one: ticks count from the start (QH-03)."""
        origin = trio.current_time()
        task_status.started()
        while True:
            await self.run_once()
            ticks = math.floor((trio.current_time() - origin) / self.rule.interval_s) + 1
            await self._serve_until(origin + ticks * self.rule.interval_s)

    async def run_once(self) -> None:
        """One beat of everything that is held, and one try to release every suspect token."""
        self._read_inbox()
        self._drop_overstayed()
        self._confirms, waiting = [], self._confirms
        answer, sent_at = await self._beat(self._held)
        self._judge(answer, sent_at, waiting)
        await self._release_suspects(tuple(self._suspects))

    @property
    def held(self) -> frozenset[Lease]:
        """The beat set, messages that were not read yet left out."""
        return frozenset(self._held)

    async def _serve_until(self, tick: float) -> None:
        """Take messages, and answer at once those that ask for something, until the next tick."""
        while True:
            await self._serve()  # first, because requests may have arrived while the last beat was under way
            with trio.move_on_at(tick) as rest:
                self._take(await self.inbox.receive())
            if rest.cancelled_caught:
                return
            self._read_inbox()

    async def _serve(self) -> None:
        while self._confirms:
            self._confirms, waiting = [], self._confirms
            answer, sent_at = await self._beat({request.lease for request in waiting} & self._held.keys())
            self._judge(answer, sent_at, waiting)
        if self._fresh_suspects:
            await self._release_suspects(tuple(self._fresh_suspects))

    def _read_inbox(self) -> None:
        while True:
            try:
                self._take(self.inbox.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return

    def _take(self, message: HeartbeatMessage) -> None:
        match message:
            case Held():
                self._held[message.lease] = message
            case Finalising():
                self._finalising.add(message.lease)
            case Released():
                self._held.pop(message.lease, None)
                self._finalising.discard(message.lease)
            case SuspectToken():
                self._suspects[message.token] = message.until
                self._fresh_suspects.add(message.token)
            case ConfirmBeat():
                self._confirms.append(message)

    def _drop_overstayed(self) -> None:
        """D17: a slot that is busy 600 s after its limit is beaten no more; the reaper takes the job."""
        now = trio.current_time()
        for lease in [lease for lease, held in self._held.items() if now >= held.beat_until]:
            _log.error("beat stopped: the job did not end in its time and grace", job_id=str(lease.job_id))
            del self._held[lease]

    async def _beat(self, leases: Collection[Lease]) -> tuple[BeatAnswer | SupervisorError, float]:
        sent_at = trio.current_time()
        if not leases:
            return BeatAnswer(), sent_at
        try:
            with trio.fail_after(self.rule.answer_limit_s):
                answer = await self.queue.beat(tuple(leases))
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            return self._beat_failed(error), sent_at
        except trio.TooSlowError:
            return self._beat_failed(OutcomeUnclear(f"no answer within {self.rule.answer_limit_s:g} s")), sent_at
        self.meter.beaten(len(answer.confirmed), at=sent_at)
        return answer, sent_at

    def _beat_failed(self, error: SupervisorError) -> SupervisorError:
        _log.warning("beat failed", leases=len(self._held), error=error.message)
        self.meter.beat_failed()
        return error

    def _judge(self, answer: BeatAnswer | SupervisorError, sent_at: float, waiting: Collection[ConfirmBeat]) -> None:
        """Tell runners and askers. Reads the inbox first: what it says is newer than the answer."""
        self._read_inbox()
        if isinstance(answer, BeatAnswer):
            for lease in answer.confirmed:
                self._tell(lease, Beaten(sent_at))
            for lease in answer.lost - self._finalising:
                if lease in self._held:
                    _log.warning("lease lost", job_id=str(lease.job_id), claim=lease.attempts)
                    self.meter.lease_lost()
                    self._tell(lease, LeaseGone("the row is held by nobody or by another supervisor"))
                    self._held.pop(lease, None)
        for request in waiting:
            request.reply.send_nowait(self._confirmed(request.lease, answer, sent_at))

    def _confirmed(self, lease: Lease, answer: BeatAnswer | SupervisorError, sent_at: float) -> ConfirmAnswer:
        if lease not in self._held:
            return LeaseGone("the lease is not held any more")
        if not isinstance(answer, BeatAnswer):
            return NotBeaten(answer.message)
        if lease in answer.confirmed:
            return Beaten(sent_at)
        return NotBeaten("the row is locked by another writer")

    def _tell(self, lease: Lease, event: LeaseEvent) -> None:
        held = self._held.get(lease)
        if held is None:
            return
        try:
            held.events.send_nowait(event)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # Nobody works on it, so nobody may keep it alive: the reaper takes it.
            _log.error("held lease without a runner", job_id=str(lease.job_id))
            self._held.pop(lease, None)

    async def _release_suspects(self, tokens: Collection[UUID]) -> None:
        """D7: until a hit, or until no unclear claim can still land."""
        self._fresh_suspects.difference_update(tokens)
        for token in tokens:
            try:
                with trio.move_on_after(self.rule.answer_limit_s) as limit:
                    released = await self.queue.release_tokens((token,), why="the answer to the claim was lost")
            except (DatabaseUnavailable, OutcomeUnclear) as error:
                _log.warning("suspect claim not released yet", error=error.message)
                continue
            if limit.cancelled_caught:
                continue
            if released:
                _log.warning("suspect claim released", jobs=released)
            if released or trio.current_time() >= self._suspects[token]:
                del self._suspects[token]
