"""What must hold after any faults (D18): each job ended once, nobody worked beside a successor, nothing is left behind."""

from __future__ import annotations

import itertools
import math
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from uuid import UUID

from attrs import field, frozen

from supervisor import exitcodes
from tests.faults.evidence import Change, Evidence, Landing, Row
from tests.kit.probe import Entry

TERMINAL = frozenset({"completed", "failed"})
EXCUSES: Mapping[str, frozenset[int]] = {
    "KILL": frozenset({-signal.SIGKILL}),
    # 1: a deaf job or a held loop did not let the drain end; -15: the third one, or one that came before Python was up
    "TERM": frozenset({exitcodes.CLEAN, exitcodes.ESCALATED, -signal.SIGTERM}),
    "INT": frozenset({-signal.SIGINT, exitcodes.INTERRUPTED}),  # the latter: it came before there was anything to drain
    "database away": frozenset({exitcodes.DATABASE_UNREACHABLE}),
    "disk full": frozenset({exitcodes.ESCALATED}),
}
"""What may happen to a supervisor, and how it may end then."""


@frozen
class Verdict:
    """``lost``, ``doubled`` and ``overlapping`` name jobs; ``other`` is everything else that should not be."""

    jobs: int = 0
    executions: int = 0
    taken: int = 0
    """Claims that were handed back, failed, or reaped before the job was done."""
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    overlapping: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(
            f"{name}: {text}"
            for name in ("lost", "doubled", "overlapping", "other")
            for text in getattr(self, name)
        )  # fmt: skip


def judge(evidence: Evidence, *, grace_s: float) -> Verdict:
    """``grace_s``: how long an execution may go on after its process came to life again."""
    executions = executions_of(evidence)
    return Verdict(
        jobs=len(evidence.rows),
        executions=len(executions),
        taken=sum(change.old == "processing" and change.new == "pending" for change in evidence.changes),
        lost=tuple(_lost(evidence)),
        doubled=tuple(_doubled(evidence)),
        overlapping=tuple(_overlapping(evidence, executions, grace_s)),
        other=(
            *_miscounted(evidence, executions),
            *_forged(evidence),
            *_misled(evidence),
            *_bad_ends(evidence),
            *(f"still runs: {what}" for what in evidence.running),
            *([f"{evidence.idle_in_transaction} connections idle in transaction"] * (evidence.idle_in_transaction > 0)),
            *evidence.complaints,
        ),
    )


# --- executions ---------------------------------------------------------------------------------------------------------


@frozen
class Execution:
    """One run of the body of a job. ``ended`` is the end of its process where it noted none, else infinity."""

    job_id: UUID
    lease: UUID
    attempt: int
    pid: int
    began: float
    ended: float
    deaf: bool = field(default=False)
    """Nobody can end its body, but the body cannot write anything either."""


_KINDS = {"transient": "transient", "permanent": "permanent", "crash": "crashed"}

ON_THE_WAY = frozenset({"start", "pushing", "pushed", "unpushed"})
"""Words of the ledger that do not end an execution."""

Claim = tuple[UUID, UUID]
"""A claim statement gives all jobs that it takes one lease token, so a claim is a job and a token."""


def claim_of(one: Entry | Execution | Landing) -> Claim:
    return one.job_id, one.lease


def executions_of(evidence: Evidence) -> list[Execution]:
    ends = {claim_of(entry): entry for entry in evidence.entries if entry.event not in ON_THE_WAY}
    payloads = {row.id: row.payload for row in evidence.rows}
    found = []
    for entry in evidence.entries:
        if entry.event == "start":
            own = ends.get(claim_of(entry))
            end = _death(evidence, entry) if own is None else own.at
            payload = payloads.get(entry.job_id, {})
            deaf = bool(payload.get("deaf") or payload.get("block"))
            found.append(Execution(entry.job_id, entry.lease, entry.attempt, entry.pid, entry.at, end, deaf))
    return found


def _death(evidence: Evidence, entry: Entry) -> float:
    """When the process that wrote ``entry`` ended."""
    for life in evidence.lives:
        if life.pid == entry.pid and life.began <= entry.at <= life.ended:
            return life.ended
    return math.inf


# --- lost and doubled ----------------------------------------------------------------------------------------------------


def _lost(evidence: Evidence) -> Iterator[str]:
    for row in evidence.rows:
        if row.status not in TERMINAL:
            yield f"job {row.id} ({row.law_id}) is {row.status}"
    for law_id, commits in evidence.commits.items():
        if commits == 0:
            yield f"the text of {law_id} never reached the corpus"


def _doubled(evidence: Evidence) -> Iterator[str]:
    ends = Counter(change.job_id for change in evidence.changes if change.new in TERMINAL)
    for row in evidence.rows:
        if row.status in TERMINAL and ends[row.id] != 1:
            yield f"job {row.id} ended {ends[row.id]} times"
        if row.payload.get("settle"):
            marks = evidence.settled.get(row.id, 0)
            if marks != (row.status == "completed"):
                yield f"job {row.id} is {row.status} and was settled {marks} times"
    for law_id, commits in evidence.commits.items():
        if commits > 1:
            yield f"the text of {law_id} was committed {commits} times"


# --- overlapping -----------------------------------------------------------------------------------------------------------


def _overlapping(evidence: Evidence, executions: list[Execution], grace_s: float) -> Iterator[str]:
    by_job: dict[UUID, list[Execution]] = defaultdict(list)
    for one in executions:
        by_job[one.job_id].append(one)
    for found in by_job.values():
        found.sort(key=lambda one: one.attempt)
        for one, following in itertools.pairwise(found):
            if one.ended > following.began and not one.deaf and not _excused(evidence, one, following, grace_s):
                yield (
                    f"job {one.job_id}: attempt {one.attempt} worked {one.ended - following.began:.3f} s into attempt "
                    f"{following.attempt}"
                )
    for landing in evidence.landings:
        successors = [one for one in by_job[landing.job_id] if one.began < landing.at]
        last = max(successors, key=lambda one: one.attempt, default=None)
        own = next((one for one in successors if claim_of(one) == claim_of(landing)), None)
        if last is None or own is None:
            yield f"job {landing.job_id}: a push of a claim that never began"
        elif last is not own and not _excused(evidence, own, last, grace_s):
            yield f"job {landing.job_id}: attempt {own.attempt} pushed after attempt {last.attempt} had begun"


def _excused(evidence: Evidence, one: Execution, following: Execution, grace_s: float) -> bool:
    """Whether the process of ``one`` was paused or killed when it lost the job, and stopped soon after it woke up.

    A child of a killed process lives a moment longer than it; the guardian ends it.
    """
    for pause in evidence.pauses:
        if pause.pid == one.pid and one.began <= pause.ended and pause.began <= following.began:
            return one.ended <= pause.ended + grace_s
    return any(
        life.pid == one.pid and life.code < 0 and life.ended <= following.began and one.ended <= life.ended
        for life in evidence.lives
    )


# --- everything else -------------------------------------------------------------------------------------------------------


def _miscounted(evidence: Evidence, executions: list[Execution]) -> Iterator[str]:
    """attempts = executions + claims that came back before they began."""
    claims: Counter[UUID] = Counter()
    ends: dict[Claim, str] = {}
    known: set[Claim] = set()
    for change in evidence.changes:
        if change.new == "processing" and change.new_lease is not None:
            claims[change.job_id] += 1
            known.add((change.job_id, change.new_lease))
        if change.old == "processing" and change.old_lease is not None:
            ends[change.job_id, change.old_lease] = change.new
    for row in evidence.rows:
        if claims[row.id] != row.attempts:
            yield f"job {row.id} counts {row.attempts} attempts after {claims[row.id]} claims"
    started = Counter(claim_of(one) for one in executions)
    probes = {row.id for row in evidence.rows if row.job_type == "probe"}
    for claim in known | started.keys():
        if started[claim] > 1:
            yield f"job {claim[0]}: one claim was executed {started[claim]} times"
        if claim not in known:
            yield f"job {claim[0]} was executed under a claim that the row does not know"
        if started[claim] == 0 and claim[0] in probes and ends.get(claim) == "completed":
            yield f"job {claim[0]} was completed by a claim that never began"


def _forged(evidence: Evidence) -> Iterator[str]:
    """Who ends a claim signs with the lease that the row bore, and no claim begins before the one before it ended."""
    before: dict[UUID, Change] = {}
    for change in evidence.changes:
        if change.signed is not None and change.signed != change.old_lease:
            yield f"job {change.job_id}: the end of a claim was written by another one"
        previous = before.get(change.job_id)
        if previous is not None and previous.new != change.old:
            yield f"job {change.job_id} went from {previous.new} to {change.new} by way of {change.old}"
        if change.new == "processing" and change.old != "pending":
            yield f"job {change.job_id} was claimed while it was {change.old}"
        before[change.job_id] = change


def _misled(evidence: Evidence) -> Iterator[str]:
    """A job ended in another way than it was made for, or a law says something that its job does not."""
    for row in evidence.rows:
        if row.status in TERMINAL and _end(row) not in _right_ends(row):
            yield f"job {row.id} ({row.payload}) ended {row.status} {row.kind}"
        if row.job_type == "harvest" and row.status == "completed" and evidence.laws.get(row.law_id) != "harvested":
            yield f"law {row.law_id} is {evidence.laws.get(row.law_id)} after a completed harvest"
    active = {row.law_id for row in evidence.rows if row.status not in TERMINAL}
    for law_id, status in evidence.laws.items():
        if status in {"queued", "harvesting"} and law_id not in active:
            yield f"law {law_id} is {status}, and nobody works on it"


def _end(row: Row) -> str | None:
    return row.status if row.status == "completed" else row.kind


def _right_ends(row: Row) -> set[str]:
    ends = {_KINDS.get(str(row.payload.get("fail")), "completed")}
    if row.cancel_asked:
        ends.add("cancelled")
    if row.tries < 10:
        ends.add("reaped")  # its holders may all have died (QH-16)
    return ends


def _bad_ends(evidence: Evidence) -> Iterator[str]:
    for life in evidence.lives:
        if not any(life.code in EXCUSES[word] for word in life.planned):
            yield f"supervisor {life.pid} ended with {life.code} after {', '.join(life.planned) or 'nothing'}"


def row_kind(result: object) -> str | None:
    """The kind of failure in a job's result."""
    return str(result["kind"]) if isinstance(result, dict) and "kind" in result else None
