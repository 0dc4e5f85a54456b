"""How many more jobs each role may hold, and how this machine bears them. One ledger for claimer and job slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field, frozen

from schema.rows import JobType


@frozen
class RoleSlots:
    """A role with its job types in the order they are served, sharing ``slots`` (``queue.md`` 2.3)."""

    role: str
    job_types: tuple[JobType, ...]
    slots: int


@define
class SlotLedger:
    """A slot is taken in the breath of the claim and released when the job has ended in every way (QH-22)."""

    roles: tuple[RoleSlots, ...]
    strained_in_a_row: int = field(init=False, default=0)
    """Jobs that ended one after the other because this machine is exhausted: what the breaker looks at (D13)."""
    _busy: Counter[str] = field(init=False, factory=Counter)

    def free(self, role: RoleSlots) -> int:
        return max(0, role.slots - self._busy[role.role])

    @property
    def any_free(self) -> bool:
        return any(self.free(role) for role in self.roles)

    @property
    def busy(self) -> Mapping[str, int]:
        return {role.role: self._busy[role.role] for role in self.roles}

    def role_of(self, job_type: JobType) -> str:
        """The role that serves ``job_type``. KeyError for a type that nobody asked for."""
        for role in self.roles:
            if job_type in role.job_types:
                return role.role
        raise KeyError(job_type)

    def take(self, role: str) -> None:
        self._busy[role] += 1

    def release(self, role: str, *, strained: bool = False) -> None:
        """``strained``: the job failed because this machine could not fork, allocate or write."""
        self._busy[role] -= 1
        self.strained_in_a_row = self.strained_in_a_row + 1 if strained else 0

    def idle(self) -> None:
        """A poll found nothing while nothing ran: whatever strained the machine is over."""
        self.strained_in_a_row = 0
