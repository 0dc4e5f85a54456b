"""THE picture: which actors exist, in which order they start, who restarts them, and the channels between them.

    Listener --wake--> Claimer --claims (handed over, no buffer)--> JobSlots --one runner a job--> actors/jobs/<type>
       |                  | counts ^ the gate for claude              ^  | finalising, released, confirm
       |                  +------> Budget                             |  |
       |                  | held, suspect                             |  |
       |                  +-----------------> Heartbeat <-------------|--+ ---flush---> ProgressWriter
       +-----------cancel---------------------------------------------+    (anyone) ---alarm---> the drain

The heartbeat starts first and ends last, so that no claim is ever without beats (SD-03). Heartbeat and job slots are one
group: when either dies, the jobs are handed back and the supervisor goes (D17). Everything else is restarted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

import structlog
import trio
from attrs import define, field, frozen

from actors.budget import BudgetKeeper
from actors.claimer import Claimer
from actors.heartbeat import Heartbeat
from actors.jobs.base import JobHandler
from actors.jobslots import JobSlots
from actors.listener import Listener
from actors.ports.budgetgate import BudgetGate
from actors.ports.database import Subscription
from actors.ports.latest import LatestWins
from actors.ports.lifecycle import Lifecycle
from actors.ports.meter import Meter
from actors.ports.queue import QueuePort
from actors.ports.slots import RoleSlots, SlotLedger
from actors.progress import ProgressWriter
from actors.reaper import Reaper
from actors.runner import JobRunner
from protocols.failures import JsonObject
from protocols.messages import (
    BudgetCounted,
    CancelJob,
    ClaimedJob,
    ClaimerMessage,
    Escalation,
    FlushProgress,
    HeartbeatMessage,
    Phase,
)
from schema.rows import JobType, Lease
from supervisor.drain import Drain, Ends
from supervisor.restart import Actor, Keeper, Policy
from supervisor.rules import Rules

_log = structlog.get_logger(__name__)
T = TypeVar("T")


@define
class Inbox(Generic[T]):
    """A channel that lives as long as the supervisor: actors come and go, what was sent to them stays."""

    size: float = math.inf
    send: trio.MemorySendChannel[T] = field(init=False)
    receive: trio.MemoryReceiveChannel[T] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.send, self.receive = trio.open_memory_channel[T](self.size)


@define
class House:
    """What actors are made of. Inboxes have no bound, since their senders must never wait and have few messages under way."""

    queue: QueuePort
    handlers: Mapping[JobType, JobHandler]
    roles: tuple[RoleSlots, ...]
    rules: Rules
    lifecycle: Lifecycle
    meter: Meter
    subscription: Subscription
    heartbeat: Inbox[HeartbeatMessage] = field(init=False, factory=Inbox)
    claimer: Inbox[ClaimerMessage] = field(init=False, factory=Inbox)
    budget: Inbox[BudgetCounted] = field(init=False, factory=Inbox)
    claims: Inbox[ClaimedJob] = field(init=False, factory=partial(Inbox, 0))  # handed over, never buffered (QH-22)
    cancels: Inbox[CancelJob] = field(init=False, factory=Inbox)
    flushes: Inbox[FlushProgress] = field(init=False, factory=Inbox)
    alarms: Inbox[Escalation] = field(init=False, factory=Inbox)
    board: LatestWins[Lease, JsonObject] = field(init=False, factory=LatestWins)
    gate: BudgetGate = field(init=False)
    slots: SlotLedger = field(init=False)
    jobs: JobSlots = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.gate = BudgetGate(self.rules.claim.budget)
        self.slots = SlotLedger(self.roles)
        self.jobs = JobSlots(
            self.runner, self.slots, self.claims.receive, self.cancels.receive, self.claimer.send, self.alarms.send,
            self.rules.breaker_limit,
        )  # fmt: skip

    def runner(self, claimed: ClaimedJob) -> JobRunner:
        job_type = claimed.job.job_type
        return JobRunner(
            claimed, self.handlers[job_type], self.rules.claim.timeouts[job_type], self.queue, self.heartbeat.send,
            self.board, self.flushes.send, self.alarms.send, self.lifecycle, self.rules.run, self.meter,
        )  # fmt: skip


@frozen
class Row:
    """``about`` says what the actor does, to people who look at a running supervisor. The drain waits for one that ``serves``."""

    name: str
    policy: Policy
    make: Callable[[House], Actor]
    about: str = ""
    serves: bool = False


# fmt: off
TREE: tuple[Row, ...] = (  # in the order they start; they end in the order of `Ends`, the rest together
    Row("heartbeat", Policy.FATAL, lambda h: Heartbeat(h.queue, h.heartbeat.receive, h.rules.beat, h.meter),
        "keeps the leases of running jobs alive"),
    Row("reaper", Policy.PERMANENT, lambda h: Reaper(h.queue, h.rules.reap, h.meter),
        "takes jobs from dead supervisors"),
    Row("progress", Policy.PERMANENT, lambda h: ProgressWriter(h.queue, h.board, h.flushes.receive, h.lifecycle),
        "writes how far jobs are"),
    Row("jobs", Policy.FATAL, lambda h: h.jobs, "runs the claimed jobs"),
    Row("listener", Policy.PERMANENT,
        lambda h: Listener(h.subscription, h.claimer.send, h.cancels.send, lambda: h.jobs.leases, h.queue),
        "hears of new jobs and of cancels"),
    Row("budget", Policy.PERMANENT, lambda h: BudgetKeeper(h.gate, h.budget.receive, h.claimer.send),
        "lets claude jobs be claimed, says when their hour is used up"),
    Row("claimer", Policy.PERMANENT,
        lambda h: Claimer(h.queue, h.slots, h.rules.claim, h.claimer.receive, h.heartbeat.send, h.claims.send,
                          h.lifecycle, h.gate, h.budget.send, h.meter),
        "takes jobs for free slots"),
)
# fmt: on


@define
class Tree:
    """The actors of ``rows``, kept as their policies say, until the drain has ended them."""

    house: House
    drain: Drain
    rows: tuple[Row, ...] = TREE
    keepers: dict[str, Keeper] = field(init=False)

    def __attrs_post_init__(self) -> None:
        house = self.house
        self.keepers = {
            row.name: Keeper(
                row.name, row.policy, partial(row.make, house), house.alarms.send, house.lifecycle, house.rules.restart, house.meter
            )
            for row in self.rows
        }  # fmt: skip

    @property
    def about(self) -> dict[str, str]:
        """What each actor does."""
        return {row.name: row.about for row in self.rows}

    async def run(self) -> None:
        """Start all in order, then wait for the drain. An actor that cannot start ends the start with its error."""
        done = {name: keeper.done for name, keeper in self.keepers.items()}
        serving = tuple(done[row.name] for row in self.rows if row.serves)
        ends = Ends(done["claimer"], self.house.claims.send.close, done["jobs"], done["progress"], serving)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear_alarms, name="tree:alarms")
            for name, keeper in self.keepers.items():
                await nursery.start(keeper.run, name=name)
            self.house.lifecycle.advance(Phase.RUNNING)
            _log.info("ready to claim", slots={role.role: role.slots for role in self.house.roles})
            await self.drain.conduct(ends)
            nursery.cancel_scope.cancel(reason="closing")

    async def _hear_alarms(self) -> None:
        async for alarm in self.house.alarms.receive:
            self.drain.on_escalation(alarm)
