"""THE picture: which actors exist, in which order they start, who restarts them, and the channels between them.

             wake-ups                    claims (buffer 0)            one runner a job
    Listener ---------> Claimer ---------------------------> JobSlots ----------------> actors/jobs/<type>
        |                  | held, suspect                   |   |  |   finalising, released, confirm
        |                  +-----------> Heartbeat <---------+   |  +----------> ProgressWriter (latest wins)
        +-- cancel ---------------------------------------->-----+   alarm ----> the drain

The heartbeat starts first and ends last, so that no claim is ever without beats (SD-03). Heartbeat and job slots are one
group: when either dies, jobs are handed back and the supervisor goes (D17). Everything else is restarted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import trio
from attrs import define, field, frozen

from actors.claimer import Claimer, ClaimRule
from actors.heartbeat import BeatRule, Heartbeat
from actors.jobs.base import JobHandler
from actors.jobslots import JobSlots
from actors.listener import Listener
from actors.ports.database import Subscription
from actors.ports.latest import LatestWins
from actors.ports.lifecycle import Lifecycle
from actors.ports.meter import Meter
from actors.ports.queue import QueuePort
from actors.ports.slots import RoleSlots, SlotLedger
from actors.progress import ProgressWriter
from actors.reaper import Reaper, ReaperRule
from actors.runner import JobRunner, RunRule
from protocols.failures import JsonObject
from protocols.messages import (
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
from supervisor.restart import Actor, Keeper, Policy, RestartRule


@frozen
class Rules:
    """The numbers of all actors; made from the settings in ``supervisor.app``."""

    claim: ClaimRule
    beat: BeatRule
    reap: ReaperRule
    run: RunRule
    breaker_limit: int = 5
    restart: RestartRule = field(factory=RestartRule)


def _inbox(size: float = math.inf) -> tuple[trio.MemorySendChannel[object], trio.MemoryReceiveChannel[object]]:
    return trio.open_memory_channel[object](size)


@define
class House:
    """What the actors are made of: collaborators, and the channels, which live as long as the supervisor does.

    Inboxes have no bound because their senders must never wait (a runner cleaning up, a claim in its first breath) and
    each sender has at most a few messages under way. Claims are handed over, not buffered (QH-22).
    """

    queue: QueuePort
    handlers: Mapping[JobType, JobHandler]
    roles: tuple[RoleSlots, ...]
    rules: Rules
    lifecycle: Lifecycle
    meter: Meter
    subscription: Subscription
    extra: tuple[Row, ...] = ()
    """Actors that only some supervisors have, such as the health server."""
    heartbeat: Inbox[HeartbeatMessage] = field(init=False, factory=lambda: Inbox(math.inf))
    claimer: Inbox[ClaimerMessage] = field(init=False, factory=lambda: Inbox(math.inf))
    claims: Inbox[ClaimedJob] = field(init=False, factory=lambda: Inbox(0))
    cancels: Inbox[CancelJob] = field(init=False, factory=lambda: Inbox(math.inf))
    flushes: Inbox[FlushProgress] = field(init=False, factory=lambda: Inbox(math.inf))
    alarms: Inbox[Escalation] = field(init=False, factory=lambda: Inbox(math.inf))
    board: LatestWins[Lease, JsonObject] = field(init=False, factory=LatestWins)
    slots: SlotLedger = field(init=False)
    jobs: JobSlots = field(init=False)
