"""What is known after a round: gathered by the arena, judged by the checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from attrs import field, frozen

from tests.kit.probe import Entry


@frozen
class Change:
    """One change of status or holder of a job row, as a trigger saw it."""

    job_id: UUID
    old: str
    new: str
    attempts: int
    old_lease: UUID | None
    new_lease: UUID | None
    signed: UUID | None
    """``last_lease``, when this write set it: the claim that ended itself."""


@frozen
class Row:
    """A job at the end."""

    id: UUID
    job_type: str
    law_id: str
    status: str
    kind: str | None
    """Of its failure."""
    attempts: int
    payload: Mapping[str, object]
    tries: int = 3
    """How many it may use up before it fails."""
    cancel_asked: bool = False


@frozen
class Life:
    """One supervisor process, on the monotonic clock. ``planned``: signals that it got from us."""

    pid: int
    began: float
    ended: float
    code: int
    planned: tuple[str, ...] = ()


@frozen
class Pause:
    """A process that could do nothing from ``began`` to ``ended``: stopped, or its loop was held."""

    pid: int
    began: float
    ended: float


@frozen
class Landing:
    """A ref of a claim arrived on the remote."""

    job_id: UUID
    lease: UUID
    at: float


@frozen
class Evidence:
    rows: Sequence[Row]
    changes: Sequence[Change]
    """In the order in which they were committed, job by job."""
    entries: Sequence[Entry]
    lives: Sequence[Life] = ()
    pauses: Sequence[Pause] = ()
    landings: Sequence[Landing] = ()
    settled: Mapping[UUID, int] = field(factory=dict)
    """How often the completing transaction of a job left its mark."""
    laws: Mapping[str, str] = field(factory=dict)
    commits: Mapping[str, int] = field(factory=dict)
    """By law, how many commits of the corpus changed its text."""
    running: Sequence[str] = ()
    """Processes that should be gone."""
    idle_in_transaction: int = 0
    complaints: Sequence[str] = ()
    """Log lines that no fault explains."""
