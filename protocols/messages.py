"""The vocabulary of the house: every message that actors send each other, in one place.

Channels carry frozen values. A request carries the ``Reply`` it wants its answer on. Nothing here waits: times are
seconds of the supervisor's own monotonic clock, never of the wall or of the database.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from attrs import field, frozen

if TYPE_CHECKING:  # names only: at run time nothing here depends on the floors above
    from protocols.agentevents import AgentEvent
    from protocols.failures import JsonObject
    from schema.queue.terms import BudgetView
    from schema.rows import Job, JobType, Lease

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Reply(Protocol[T_contra]):
    """Where an answer goes. Sending never waits; the one who asked made the room for it (D22)."""

    def send_nowait(self, value: T_contra, /) -> None: ...


class Source(Protocol[T_co]):
    """Where the receiver of a message reads what follows on it."""

    async def receive(self) -> T_co: ...

    def close(self) -> None: ...


class Phase(IntEnum):
    """The life of a supervisor; it only moves forward (D12)."""

    STARTING = 0
    RUNNING = 1
    DRAINING = 2
    """Nothing is claimed any more; running jobs may finish."""
    CANCELLING = 3
    """Running jobs are given up and handed back."""
    CLOSING = 4
    """Progress is flushed, final writes are over, the heartbeat stops, connections close."""
    GONE = 5


# --- What a runner hears about its lease -----------------------------------------------------------------------------


@frozen
class Beaten:
    """The database confirmed the lease by a beat that was sent at ``at``."""

    at: float


@frozen
class LeaseGone:
    """The database says that the row is not ours any more (D1)."""

    why: str


@frozen
class NotBeaten:
    """No answer about the lease this time: database away, or the row locked by another writer."""

    why: str


LeaseEvent = Beaten | LeaseGone
ConfirmAnswer = Beaten | LeaseGone | NotBeaten


# --- Claimer -> job slots --------------------------------------------------------------------------------------------


@frozen
class ClaimedJob:
    """A job on its way from the claimer to a slot that was free before it was claimed (QH-22).

    ``claimed_at`` is the moment before the claim was sent: fence, time limit and grace count from it (D6).
    """

    job: Job
    lease: Lease
    role: str
    claimed_at: float
    events: Source[LeaseEvent] = field(repr=False)


# --- To the heartbeat ------------------------------------------------------------------------------------------------


@frozen
class Held:
    """Beat this lease from now on, until ``beat_until`` (job timeout + grace, D17). Sent in the breath of the claim."""

    lease: Lease
    claimed_at: float
    beat_until: float
    events: Reply[LeaseEvent] = field(repr=False)


@frozen
class Finalising:
    """The final write is on its way: from here on a beat that misses the row does not mean lost (D5)."""

    lease: Lease


@frozen
class Released:
    """The claim ended, one way or the other. Stop beating."""

    lease: Lease


@frozen
class SuspectToken:
    """Rows may carry this token without anyone knowing: hand them back, again at each beat ``until`` then (D7)."""

    token: UUID = field(repr=False)
    until: float


@frozen
class ConfirmBeat:
    """One beat of one row, now: due right before each effect outside the database (D6)."""

    lease: Lease
    reply: Reply[ConfirmAnswer] = field(repr=False)


HeartbeatMessage = Held | Finalising | Released | SuspectToken | ConfirmBeat


# --- To the claimer --------------------------------------------------------------------------------------------------


@frozen
class Wake:
    """There may be something to claim: a notification, a freed slot, a resumed job type."""

    why: str


@frozen
class ListenState:
    """``proven``: a notification of our own came back lately, so polling may be slow (D10)."""

    proven: bool


ClaimerMessage = Wake | ListenState


# --- To the budget ---------------------------------------------------------------------------------------------------


@frozen
class BudgetCounted:
    """A claim counted claude runs (``view``, before it took any) and took ``taken`` more. It was sent at ``at``."""

    view: BudgetView
    taken: int
    at: float


# --- To the job slots ------------------------------------------------------------------------------------------------


@frozen
class CancelJob:
    """A person cancelled this job (D26). Meant for whichever supervisor holds it; the others ignore it."""

    job_id: UUID
    why: str = "cancelled on request"


# --- To the progress writer ------------------------------------------------------------------------------------------


@frozen
class FlushProgress:
    """Write what is waiting now, before the final write of a job closes its row. Answered whatever came of it."""

    reply: Reply[None] = field(repr=False)


# --- Agents -> the job that runs them (one merged channel for all slices, D45) ----------------------------------------


@frozen
class AgentActive:
    """The agent of a slice wrote something. At most one each 100 ms and slice, whatever it writes (D46)."""

    slice: int


@frozen
class AgentSaid:
    """One event of a slice, in the order of its stream; never one of the many that only say that the model writes."""

    slice: int
    event: AgentEvent


@frozen
class AgentGone:
    """The call of a slice is over and nothing of it runs any more. The last message of its slice."""

    slice: int


AgentMessage = AgentActive | AgentSaid | AgentGone


# --- To the supervisor -----------------------------------------------------------------------------------------------


@frozen
class Escalation:
    """An actor asks for the end of the supervisor: drain, then exit 1.

    ``at_once``: jobs are not given time to finish, because they cannot be kept safe (no heartbeat).
    """

    actor: str
    why: str
    at_once: bool = False


# --- For people ------------------------------------------------------------------------------------------------------


@frozen
class RunningJob:
    """A job as its supervisor sees it. ``age_s`` since the claim; ``limit_s`` left of its time limit.

    ``progress`` is the newest report of the job, None before the first.
    """

    job_id: UUID
    job_type: JobType
    law_id: str
    role: str
    age_s: float
    limit_s: float
    beat_age_s: float
    state: str
    progress: JsonObject | None = None
