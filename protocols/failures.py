"""Failures are types, and the type alone says what happens to job, law and worker (D13, ``queue.md`` 2.9).

Texts are for people. Nothing here, and nothing elsewhere, decides by looking into a text that a law, a user or a
model can influence. ``VERDICTS`` is the one table; ``verdict_of`` reads it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from attrs import evolve, frozen

JsonObject = dict[str, Any]


class JobEnd(StrEnum):
    """What a failure does to the job row."""

    RETRY = "retry"
    """Back to pending with backoff while attempts are left, else failed."""
    TERMINAL = "terminal"
    """Failed at once, whatever attempts are left: a retry cannot help."""
    COMPLETE = "complete"
    """Not a failure of the job: it completes with a result that says why there was nothing to do."""
    HAND_BACK = "hand_back"
    """Back to pending at once, no attempt counted (D12)."""
    ABANDON = "abandon"
    """Write nothing at all: the claim is no longer ours, or must be left to the reaper (D1, D17)."""


class LawEnd(StrEnum):
    """What a *final* failure does to the law (``queue.md`` 2.8 and 2.10)."""

    LADDER = "ladder"
    """``*_failed``, fail count + 1, a new delayed job or exhaustion at the threshold."""
    EXHAUST = "exhaust"
    """``*_failed`` and straight on to ``*_exhausted``; the count does not move."""
    FAILED = "failed"
    """``*_failed`` only: a person must act."""
    NOT_HARVESTABLE = "not_harvestable"
    RESTORE = "restore"
    """The status from before the job (D14)."""
    KEEP = "keep"


@frozen
class Verdict:
    job: JobEnd
    law: LawEnd
    strains_worker: bool = False
    """Counts towards the resource breaker (``WORKER_MAX_CONSECUTIVE_RESOURCE_FAILURES``)."""
    final_if_again: bool = False
    """When the attempt before failed in the same way, no further one can help: the job and its law wait for a person."""

    def after(self, result: object, kind: str) -> Verdict:
        """The verdict on a failure of this ``kind`` when ``result`` is what the attempt before left in the row."""
        again = self.final_if_again and isinstance(result, dict) and result.get("kind") == kind
        return evolve(self, job=JobEnd.TERMINAL, law=LawEnd.FAILED) if again else self


class SupervisorError(Exception):
    """Base of every failure that this product names.

    ``kind`` is the stable machine word in results and logs; ``details`` goes into the job result next to it.
    The message is for people and must already be free of secrets.
    """

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: JsonObject = details

    def to_result(self) -> JsonObject:
        """The job result of this failure: ``{"error": text, "kind": word, ...details}``."""
        return {"error": self.message, "kind": self.kind, **self.details}


class Transient(SupervisorError):
    """May go better next time: network, push, exit code of an agent."""

    kind = "transient"


class Crashed(Transient):
    """An exception nobody foresaw, inside one job. It fails that job and nothing else."""

    kind = "crashed"


class JobTimedOut(Transient):
    """The job passed its own time limit (``WORKER_JOB_TIMEOUT_SECS`` or the override of its type)."""

    kind = "job_timeout"


class PushConflict(Transient):
    """The paths we wrote changed on the remote branch since the base we started from (D39)."""

    kind = "push_conflict"


class NoOutput(Transient):
    """An agent ran to its end and left nothing that counts."""

    kind = "no_output"


class AgentStalled(Transient):
    kind = "stalled"


class AgentTimedOut(Transient):
    kind = "timeout"


class AgentFailed(Transient):
    """The agent CLI reported an error or died."""

    kind = "agent_failed"


class RequestRefused(AgentFailed):
    """The provider calls the request itself wrong. Once may be chance; twice in a row is the same answer again (AG-05)."""

    kind = "bad_request"


class ResourceExhausted(Transient):
    """This machine cannot fork, allocate or write any more; feeds the breaker (D13)."""

    kind = "resource_exhausted"


class DatabaseUnavailable(Transient):
    """The database cannot be reached. Nothing was written."""

    kind = "database_unavailable"


class OutcomeUnclear(Transient):
    """The connection was lost or timed out around a commit: the write may or may not have landed (D7)."""

    kind = "outcome_unclear"


class Permanent(SupervisorError):
    """A retry cannot help; the law is marked failed and waits for a person."""

    kind = "permanent"


class InvalidInput(Permanent):
    """Something a person or another program gave us is malformed. The text says what to give instead."""

    kind = "invalid_input"


class InvalidPayload(InvalidInput):
    """A job whose payload cannot be read. The law was never touched and stays as it is."""

    kind = "invalid_payload"


class LawUnknown(Permanent):
    """The repository has no such law (404 or 410 for its manifest): a retry cannot help (D35)."""

    kind = "law_unknown"


class BaseDrift(Permanent):
    """The base text changed under a running enrichment; see ``enrich LAW --restart`` (D55)."""

    kind = "base_drift"


class ContentFailure(Permanent):
    """The same content will fail the same way: the law is exhausted for this kind of work."""

    kind = "content"


class JobCancelled(Permanent):
    """A person cancelled the job (D26)."""

    kind = "cancelled"


class NotHarvestable(SupervisorError):
    """There is no consolidated text to harvest. ``reason`` is the ``skipped`` object of the job result.

    ``reason["kind"]`` is ``withdrawn``, ``not_yet_in_force`` or ``announced``; ``reason["date"]`` (ISO) where known.
    """

    kind = "not_harvestable"

    def __init__(self, message: str, *, reason: str, date: str | None = None) -> None:
        skipped: JsonObject = {"kind": reason}
        if date is not None:
            skipped["date"] = date
        super().__init__(message, skipped=skipped)

    def to_result(self) -> JsonObject:
        return {"skipped": self.details["skipped"]}


class ProviderTrouble(SupervisorError):
    """The provider, not the law, is the problem: ``reason`` is ``auth``, ``billing`` or ``quota`` (D52)."""

    kind = "provider_trouble"


class HandedBack(SupervisorError):
    """The supervisor gives the job back: drain, or a child lost through no fault of the job."""

    kind = "handed_back"


class LeaseLost(SupervisorError):
    """The claim is not ours any more. Stop, write nothing, push nothing (D1)."""

    kind = "lease_lost"


class Overstayed(LeaseLost):
    """The slot was still busy 600 s after its timeout: left to the reaper, the attempt counts (D17)."""

    kind = "overstayed"


VERDICTS: Mapping[type[BaseException], Verdict] = {
    Transient: Verdict(JobEnd.RETRY, LawEnd.LADDER),
    ResourceExhausted: Verdict(JobEnd.RETRY, LawEnd.LADDER, strains_worker=True),
    RequestRefused: Verdict(JobEnd.RETRY, LawEnd.LADDER, final_if_again=True),
    Permanent: Verdict(JobEnd.TERMINAL, LawEnd.FAILED),
    InvalidPayload: Verdict(JobEnd.TERMINAL, LawEnd.KEEP),
    ContentFailure: Verdict(JobEnd.TERMINAL, LawEnd.EXHAUST),
    JobCancelled: Verdict(JobEnd.TERMINAL, LawEnd.RESTORE),
    NotHarvestable: Verdict(JobEnd.COMPLETE, LawEnd.NOT_HARVESTABLE),
    ProviderTrouble: Verdict(JobEnd.HAND_BACK, LawEnd.RESTORE),
    HandedBack: Verdict(JobEnd.HAND_BACK, LawEnd.RESTORE),
    LeaseLost: Verdict(JobEnd.ABANDON, LawEnd.KEEP),
    BaseException: Verdict(JobEnd.RETRY, LawEnd.LADDER),
}
"""The nearest class in the method resolution order decides."""

_EXHAUSTION_ERRNOS = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT})


def verdict_of(failure: SupervisorError) -> Verdict:
    """What ``failure`` does to job, law and worker."""
    for cls in type(failure).__mro__:
        if cls in VERDICTS:
            return VERDICTS[cls]
    raise AssertionError("unreachable: BaseException is in the table")


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside ``error``, groups unwrapped, in order."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def gravest(error: BaseException) -> BaseException:
    """The leaf of ``error`` that counts: a lost lease, else one of ours, else the first."""
    found = list(leaves(error))
    for wanted in (LeaseLost, JobCancelled, HandedBack, SupervisorError):
        for leaf in found:
            if isinstance(leaf, wanted):
                return leaf
    return found[0] if found else error


def classify(error: BaseException) -> SupervisorError:
    """The failure that ``error`` stands for; groups are unwrapped, and the gravest of several leaves wins.

    ``LeaseLost`` outranks all (nothing may be written), then failures we name, then everything else as ``Crashed``.
    A text of the original is kept for people only.
    """
    named = [leaf for leaf in leaves(error) if isinstance(leaf, SupervisorError)]
    for wanted in (LeaseLost, JobCancelled, HandedBack):
        for failure in named:
            if isinstance(failure, wanted):
                return failure
    others = [leaf for leaf in leaves(error) if not isinstance(leaf, SupervisorError)]
    for other in others:
        if isinstance(other, MemoryError) or (isinstance(other, OSError) and other.errno in _EXHAUSTION_ERRNOS):
            return ResourceExhausted(f"{type(other).__name__}: {other}")
    if named:
        return named[0]
    first = others[0] if others else error
    return Crashed(f"{type(first).__name__}: {first}")
