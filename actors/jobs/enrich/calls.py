"""The agent calls of one job: their time, their sessions, and a row in the books for each of them (D44, D54)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from uuid import uuid4

import structlog
import trio
from attrs import define, evolve, field

from actors.agent import CallOutcome
from actors.agentcalls import AgentCalls
from actors.jobs.base import Work
from actors.jobs.enrich.lane import Lane, Order
from actors.ports.agentfolders import AttemptFolder, SliceFolder
from actors.ports.agentprocess import AgentRunner
from protocols import sessions
from protocols.agentview import AgentView
from protocols.credentials import Credential
from protocols.enrichresult import AgentCallRecord, AgentUsage
from protocols.failures import DatabaseUnavailable, OutcomeUnclear, ProviderTrouble, SupervisorError
from protocols.sessions import TRANSLATE, Session
from protocols.shares import Shares, round_fits, time_for, translation_fits
from schema.agentcalls import AgentCall, record_call

BOOKING_LIMIT_S = 10.0

_log = structlog.get_logger(__name__)


@define(eq=False)
class JobCalls:
    """Makes the calls of one window. ``deadline``: the moment (of the loop's clock) at which the job's own time is over.

    ``session`` is that of the job's checkout; slices have their own.
    """

    work: Work
    lane: Lane
    folder: AttemptFolder
    runner: AgentRunner
    view: AgentView
    deadline: float
    credential: Credential | None = None
    session: Session = field(factory=lambda: Session(uuid4()))
    records: list[AgentCallRecord] = field(init=False, factory=list)
    started: bool = field(init=False, default=False)
    _calls: AgentCalls = field(init=False)
    _unbooked: list[CallOutcome] = field(init=False, factory=list)
    _booked: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._calls = AgentCalls(
            dialect=self.lane.dialect,
            view=self.view,
            runner=self.runner,
            record=self._unbooked.append,
            limits=self.lane.settings.stall,
            secrets=self.lane.secrets,
        )

    @property
    def shares(self) -> Shares:
        return self.lane.settings.shares

    @property
    def left_s(self) -> float:
        return self.deadline - trio.current_time()

    @property
    def reuse(self) -> sessions.SessionReuse:
        """The mode that is used and recorded."""
        return sessions.effective(self.lane.settings.session_reuse, can_resume=self.lane.dialect.continues_sessions)

    @property
    def may_translate(self) -> bool:
        return translation_fits(self.shares, self.left_s)

    @property
    def may_feed_back(self) -> bool:
        return round_fits(self.shares, self.left_s)

    async def translate(
        self, folders: Sequence[SliceFolder], prompts: Sequence[str], attach: str | None
    ) -> SupervisorError | None:
        """One call a slice, side by side; the failure of the first that failed.

        A single slice opens the session of the job; several have one each that nobody goes on with (D40).
        """
        orders = self.translations(folders, prompts, attach)
        failure = await self._make(orders, TRANSLATE, time_for(self.shares.translate_s, self.left_s))
        if len(folders) == 1:
            self.session = sessions.after(self.session, orders[0].plan, succeeded=failure is None, fresh=uuid4())
        return failure

    def translations(self, folders: Sequence[SliceFolder], prompts: Sequence[str], attach: str | None) -> list[Order]:
        """The calls of :meth:`translate`, not made yet."""
        own = [self.session] if len(folders) == 1 else [Session(uuid4()) for _ in folders]
        plans = [sessions.plan(self.reuse, TRANSLATE, session) for session in own]
        return [Order(*parts, attach) for parts in zip(folders, prompts, plans, strict=True)]

    async def feed_back(self, step: str, prompt: Callable[[bool], str], attach: str | None) -> SupervisorError | None:
        """One round of the gate ``step`` in the job's checkout; its failure. ``prompt`` is told whether it resumes."""
        plan = sessions.plan(self.reuse, step, self.session)
        order = Order(self.folder, prompt(isinstance(plan, sessions.Resume)), plan, attach)
        failure = await self._make([order], step, time_for(self.shares.feedback_s, self.left_s))
        self.session = sessions.after(self.session, plan, succeeded=failure is None, fresh=uuid4())
        return failure

    async def _make(self, orders: Sequence[Order], step: str, limit_s: float) -> SupervisorError | None:
        async with AsyncExitStack() as stack:
            prepared = [
                await stack.enter_async_context(
                    self.lane.slice_call(order, label=step, limit_s=limit_s, credential=self.credential)
                )
                for order in orders
            ]
            if not self.started:
                self.started = True
                self.work.started()
            try:
                ended = await self._calls.run(*prepared)
            finally:
                with trio.move_on_after(BOOKING_LIMIT_S, shield=True):
                    await self.book()
        if isinstance(ended.failure, ProviderTrouble) and self.credential is not None:
            ended.failure.details["credential"] = self.credential.hash
        return ended.failure

    async def book(self) -> None:
        """Write a row for each call that has none yet. While the database is away they wait for the next time."""
        while self._unbooked:
            outcome = self._unbooked[0]
            row = self._row(outcome)
            try:
                await self.work.write(partial(record_call, call=row))
            except (DatabaseUnavailable, OutcomeUnclear) as trouble:
                _log.warning("agent call not booked yet", error=trouble.message)
                return
            del self._unbooked[0]
            self._booked += 1
            self.records.append(_record(outcome, row))

    def _row(self, outcome: CallOutcome) -> AgentCall:
        now, now_utc = trio.current_time(), dt.datetime.now(dt.UTC)
        view, usage = outcome.view, outcome.view.usage
        return AgentCall(
            seq=self._booked,
            provider=self.lane.dialect.name,
            step=outcome.call.label,
            started_at=now_utc - dt.timedelta(seconds=now - view.started_at),
            ended_at=now_utc - dt.timedelta(seconds=now - (view.ended_at or now)),
            verdict=outcome.stopped.value if outcome.stopped and not outcome.verdict.ok else outcome.verdict.kind.value,
            model=view.model,
            slice=outcome.slice,
            resumed=outcome.call.resumed,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cache_read_tokens=None if usage is None else usage.cache_read_tokens,
            cache_write_tokens=None if usage is None else usage.cache_write_tokens,
            usage_complete=outcome.usage_complete,
            cost_millicents=outcome.cost_millicents,
        )


def _record(outcome: CallOutcome, row: AgentCall) -> AgentCallRecord:
    view = outcome.view
    record = AgentCallRecord(step=row.step, verdict=row.verdict, model=row.model, resumed=row.resumed, slice=row.slice)
    return evolve(
        record,
        usage=AgentUsage.of(view.usage, outcome.cost_millicents),
        duration_s=(row.ended_at - row.started_at).total_seconds(),
        turns=view.turns,
        tool_calls=view.tool_calls,
        cut_off_steps=view.cut_off_steps,
    )
