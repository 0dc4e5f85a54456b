"""What a query module refuses: typed, with a text that says what to do instead."""

from __future__ import annotations

from uuid import UUID

from protocols.failures import InvalidInput, LeaseLost, Permanent


class JobNotFound(InvalidInput):
    """No job row has this id."""

    kind = "job_not_found"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"there is no job {job_id}: see `jobs list`", job_id=str(job_id))


class JobNotProcessing(LeaseLost):
    """The row is not processing, or not under the claim that was named; an unknown id counts as that (``queue.md`` 2.6)."""

    kind = "job_not_processing"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"job {job_id} is not processing under this claim: nothing was written", job_id=str(job_id))


class LeaseNotOurs(InvalidInput):
    """A bare id was given for a row that somebody claimed with a lease: only the claimed ``Job`` proves the claim (D24)."""

    kind = "lease_not_ours"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            f"job {job_id} is held under a lease that claim_job did not make: pass the claimed Job, not its id",
            job_id=str(job_id),
        )


class LawNotFound(InvalidInput):
    """No law entry has this id."""

    kind = "law_not_found"

    def __init__(self, law_id: str) -> None:
        super().__init__(f"there is no law {law_id!r}: see `laws list`", law_id=law_id)


class JobNotWaiting(InvalidInput):
    """The job is in a state in which the request makes no sense; the text names the state."""

    kind = "job_state"


class MigrationRefused(Permanent):
    """The database cannot be migrated as it is. Nothing was changed; the text says what to do."""

    kind = "migration"
