"""Claims jobs for free slots, and never one more (QH-22).

A claim is in the beat set before anything is awaited after its answer (D17); an answer that was lost makes its token a
suspect (D7). Woken by a notification, a freed slot or the next due time; else polls, backing off only while
notifications are proven to arrive (D9, D10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from uuid import UUID, uuid4

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.budgetgate import BudgetGate
from actors.ports.lifecycle import Lifecycle
from actors.ports.meter import Meter, NoMeter
from actors.ports.queue import BudgetRule, ClaimAnswer, ClaimRequest, QueuePort, Want
from actors.ports.slots import SlotLedger
from protocols.failures import DatabaseUnavailable, OutcomeUnclear, SupervisorError
from protocols.messages import (
    BudgetCounted,
    ClaimedJob,
    ClaimerMessage,
    HeartbeatMessage,
    Held,
    LeaseEvent,
    ListenState,
    Phase,
    Released,
    Reply,
    SuspectToken,
    Wake,
)
from schema.queue.terms import is_counted
from schema.rows import Job, JobType

_log = structlog.get_logger(__name__)

_LEAST_REST_S = 0.1
"""A row that is due but locked by somebody else must not make us spin."""


@frozen
class ClaimRule:
    """Seconds. ``holder`` is written into the rows for people; it decides nothing."""

    holder: str
    timeouts: Mapping[JobType, float]
    poll_s: float = 5
    max_poll_s: float = 60
    answer_limit_s: float = 15
    """More than the statement timeout: past it the answer counts as lost."""
    suspect_s: float = 35
    """Twice the statement timeout, from the end of the answer limit on: until then a lost claim may still land."""
    hand_back_limit_s: float = 3
    grace_s: float = 600
    """How long a job may overstay its time limit before its beat stops (D17)."""
    budget: BudgetRule = field(factory=BudgetRule)
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """(provider, hash) of all that this supervisor holds: with all of a provider's in trouble nothing of it is claimed."""


@define
class Claimer:
    """Ends by itself when the drain begins; what it holds at that moment goes back to pending."""

    queue: QueuePort
    slots: SlotLedger
    rule: ClaimRule
    inbox: trio.MemoryReceiveChannel[ClaimerMessage]
    heartbeat: Reply[HeartbeatMessage]
    hand_over: trio.MemorySendChannel[ClaimedJob]
    lifecycle: Lifecycle
    gate: BudgetGate
    budget: Reply[BudgetCounted]
    meter: Meter = field(factory=NoMeter)
    new_token: Callable[[], UUID] = uuid4
    _proven: bool = field(init=False, default=False)
    _rest_s: float = field(init=False, default=0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Claim until the drain. The first poll is at once."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_at_drain, nursery.cancel_scope)
            while True:
                answer = await self.run_once()
                await self._rest(answer)

    async def run_once(self) -> ClaimAnswer | None:
        """One claim for all free slots, handed over. None: no slot is free, or the database did not answer."""
        wants = self._wants()
        if not wants:
            return None
        token, asked_at = self.new_token(), trio.current_time()
        rule = self.gate.rule
        request = ClaimRequest(token, self.rule.holder, wants, rule, self.rule.credentials)
        answer = await self._ask(request)
        if answer is None:
            return None
        if answer.budget is not None:
            taken = sum(is_counted(job.job_type, job.run_provider, rule) for job in answer.jobs)
            self.budget.send_nowait(BudgetCounted(answer.budget, taken, asked_at))
        # No await from the answer to here, nor inside _hold: the next beat must know these leases.
        await self._hand_over([self._hold(job, asked_at) for job in answer.jobs])
        return answer

    def _wants(self) -> tuple[Want, ...]:
        return tuple(Want(role.job_types, free) for role in self.slots.roles if (free := self.slots.free(role)) > 0)

    async def _ask(self, request: ClaimRequest) -> ClaimAnswer | None:
        """Shielded and bounded (D8): cut short, nobody would know whether the rows are ours."""
        answer = None
        known = False
        try:
            with trio.move_on_after(self.rule.answer_limit_s, shield=True):
                answer = await self.queue.claim(request)
            known = answer is not None
        except DatabaseUnavailable as error:
            known = True
            _log.warning("cannot claim: no database", error=error.message)
        except OutcomeUnclear as error:
            _log.warning("claim without an answer", error=error.message)
        finally:
            self.meter.claim_asked(answered=answer is not None)
            if not known:
                until = trio.current_time() + self.rule.suspect_s
                self.heartbeat.send_nowait(SuspectToken(request.token, until))
        return answer

    def _hold(self, job: Job, asked_at: float) -> ClaimedJob:
        """Into the beat set and onto a slot, in one breath."""
        role = self.slots.role_of(job.job_type)
        # At most one message a beat, and the runner does nothing before reading it: the buffer needs no bound.
        sender, receiver = trio.open_memory_channel[LeaseEvent](math.inf)
        beat_until = asked_at + self.rule.timeouts[job.job_type] + self.rule.grace_s
        self.slots.take(role)
        self.heartbeat.send_nowait(Held(job.lease_held, asked_at, beat_until, sender))
        self.meter.claimed(job.job_type)
        return ClaimedJob(job, job.lease_held, role, asked_at, receiver)

    async def _hand_over(self, claimed: Collection[ClaimedJob]) -> None:
        waiting = list(claimed)
        try:
            while waiting:
                await self.hand_over.send(waiting[0])
                del waiting[0]
        finally:
            if waiting:
                with trio.move_on_after(self.rule.hand_back_limit_s, shield=True):
                    await self._hand_back(waiting)

    async def _hand_back(self, claimed: Collection[ClaimedJob]) -> None:
        """The drain came between claim and hand-over. What cannot be written now is left to the reaper."""
        for item in claimed:
            self.slots.release(item.role)
            self.heartbeat.send_nowait(Released(item.lease))
        for item in claimed:
            try:
                await self.queue.hand_back(item.lease, why="drain", refund=True)
            except SupervisorError as error:
                _log.warning("claim not handed back", job_id=str(item.job.id), error=error.message)

    async def _rest(self, answer: ClaimAnswer | None) -> None:
        """Wait for a reason to claim again, as long as the last answer allows."""
        if self._read_inbox():
            self._rest_s = 0
            return
        with trio.move_on_after(self._how_long(answer)):
            message = await self.inbox.receive()
            self._take(message)
            if self._read_inbox() or isinstance(message, Wake):
                self._rest_s = 0

    def _how_long(self, answer: ClaimAnswer | None) -> float:
        if not self.slots.any_free:
            return math.inf
        if answer is not None and answer.jobs:
            self._rest_s = 0
            return 0
        if answer is not None and not any(self.slots.busy.values()):
            self.slots.idle()
        poll_s = min(self.rule.poll_s, self.rule.max_poll_s)
        self._rest_s = min(max(2 * self._rest_s, poll_s), self.rule.max_poll_s if self._proven else poll_s)
        if answer is None or answer.next_due_s is None:
            return self._rest_s
        return min(self._rest_s, max(answer.next_due_s, _LEAST_REST_S))

    def _read_inbox(self) -> bool:
        """Take everything that waits, so that a burst of reasons makes one claim. True when one was a ``Wake``."""
        woken = False
        while True:
            try:
                message = self.inbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return woken
            self._take(message)
            woken = woken or isinstance(message, Wake)

    def _take(self, message: ClaimerMessage) -> None:
        if isinstance(message, ListenState):
            self._proven = message.proven

    async def _stop_at_drain(self, scope: trio.CancelScope) -> None:
        await self.lifecycle.reached(Phase.DRAINING)
        scope.cancel(reason="drain")
