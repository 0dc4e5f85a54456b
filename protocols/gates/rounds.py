"""The feedback rounds of one gate as a state machine without I/O (``enrich.md`` 6.4, D42, D44).

The caller evaluates, calls the agent and reads the file; this decides whether another round is due and keeps the
record. One state per gate and run::

    state = begin(gate, budget, look)
    while state.wants_round:
        ... call the agent with bullets(state.open) ...
        state = state.answered(look)      # or .failed(error), or .out_of_time()
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

from attrs import evolve, frozen

from protocols.gates.findings import Finding, Reading, bullets
from protocols.gates.table import Gate


class Stop(StrEnum):
    """Why no round followed."""

    CLEARED = "cleared"
    UNCHANGED = "unchanged"
    """The agent left the file byte for byte as it was."""
    NO_DECREASE = "no-decrease"
    BUDGET = "budget"
    FAILED = "failed"
    """The call timed out, stalled or failed; the bytes from before it are back (D42)."""
    TIME = "time"
    """Too little time was left to start the round (D44)."""


@frozen
class Look:
    """One look at the file: what the gate finds, how many gaps it records (None: it is no YAML), and which bytes it is."""

    reading: Reading
    gaps: int | None
    digest: str


def digest_of(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


@frozen
class RoundRecord:
    """One feedback round. ``stopped`` is None while another follows. ``error`` is set for a failed call alone."""

    round: int
    findings_before: int
    findings_after: int
    markings_before: int | None
    markings_after: int | None
    file_changed: bool
    stopped: Stop | None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "round": self.round,
            "findings_before": self.findings_before,
            "findings_after": self.findings_after,
            "markings_before": self.markings_before,
            "markings_after": self.markings_after,
            "file_changed": self.file_changed,
            "stopped": None if self.stopped is None else self.stopped.value,
        }
        if self.error is not None:
            record["error"] = self.error
        return record


@frozen
class GateState:
    """Where a gate stands. ``seen`` is the newest look; every method returns the next state."""

    gate: Gate
    budget: int
    findings_initial: int
    seen: Look
    rounds: tuple[RoundRecord, ...] = ()

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that are not answered."""
        return self.seen.reading.answerable

    @property
    def stopped(self) -> Stop | None:
        """Why the last round was the last; None before the first, or while another is due."""
        return self.rounds[-1].stopped if self.rounds else None

    @property
    def wants_round(self) -> bool:
        return bool(self.open) and len(self.rounds) < self.budget and self.stopped is None

    @property
    def fails_run(self) -> bool:
        """A hard gate with findings and no round left. A soft gate never fails a run."""
        return self.gate.hard and bool(self.open) and not self.wants_round

    def answered(self, look: Look) -> GateState:
        """After a call that ran to its end."""
        before, after = len(self.seen.reading), len(look.reading)
        changed = look.digest != self.seen.digest
        stop: Stop | None = None
        if not after:
            stop = Stop.CLEARED
        elif not changed:
            stop = Stop.UNCHANGED
        elif after >= before:
            stop = Stop.NO_DECREASE
        elif len(self.rounds) + 1 >= self.budget:
            stop = Stop.BUDGET
        return self._with_round(look, stop, changed=changed)

    def failed(self, error: str) -> GateState:
        """After a call that timed out, stalled or failed, and whose changes were taken back."""
        return self._with_round(self.seen, Stop.FAILED, changed=False, error=error)

    def out_of_time(self) -> GateState:
        """Instead of a call for which too little time is left."""
        return self._with_round(self.seen, Stop.TIME, changed=False)

    def restored(self) -> GateState:
        """After a closing round whose edit was taken back because it made the law worse: as if nothing had changed."""
        return self.answered(self.seen)

    def _with_round(self, look: Look, stop: Stop | None, *, changed: bool, error: str | None = None) -> GateState:
        if not self.wants_round:
            raise ValueError(f"gate {self.gate.name} has no round left")
        record = RoundRecord(
            round=len(self.rounds) + 1,
            findings_before=len(self.seen.reading),
            findings_after=len(look.reading),
            markings_before=self.seen.gaps,
            markings_after=look.gaps,
            file_changed=changed,
            stopped=stop,
            error=error,
        )
        return evolve(self, seen=look, rounds=(*self.rounds, record))

    def to_json(self) -> dict[str, Any]:
        """The gate's part of the job result (``feedback``)."""
        record: dict[str, Any] = {
            "gate": self.gate.name,
            "findings_initial": self.findings_initial,
            "findings_final": len(self.seen.reading),
            "rounds": [done.to_json() for done in self.rounds],
        }
        if self.seen.reading.recorded:
            record["outside_corpus"] = [str(finding) for finding in self.seen.reading.recorded]
        if self.seen.reading.elsewhere:
            record["outside_window"] = [str(finding) for finding in self.seen.reading.elsewhere]
        return record

    def failure_text(self) -> str:
        """Why a hard gate failed the run: how many findings, after how many rounds, and which."""
        count, rounds = len(self.open), len(self.rounds)
        noun = "error" if count == 1 else "errors"
        return f"{count} {self.gate.name} {noun} left after {rounds} feedback round(s):\n{bullets(self.open)}"


def begin(gate: Gate, budget: int, look: Look) -> GateState:
    """The state after the first evaluation. Without findings, or with budget 0, no round is due."""
    return GateState(gate, budget, len(look.reading), look)
