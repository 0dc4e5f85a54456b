"""Whether claims may ask for claude runs at all, and what the last of them counted (D11)."""

from __future__ import annotations

from attrs import define, evolve, field

from protocols.budget import hourly_cap
from schema.queue.terms import BudgetRule, BudgetView


@define
class BudgetGate:
    """Shared by the budget actor, which alone opens and closes it, the claimer, and whoever shows figures to people.

    Closed, as it is until the actor runs and when it has crashed, claims are made with a limit of 0: claude waits and
    nobody else does.
    """

    configured: BudgetRule
    is_open: bool = field(init=False, default=False)
    counted: BudgetView | None = field(init=False, default=None)
    """As of the last claim that met claude jobs, its own runs included; None: nothing counted yet in this clock hour."""

    @property
    def rule(self) -> BudgetRule:
        """What a claim made now goes by."""
        return self.configured if self.is_open else evolve(self.configured, hourly_limit=0)

    @property
    def used(self) -> int:
        return 0 if self.counted is None else self.counted.used

    @property
    def cap(self) -> int:
        """Runs allowed in this clock hour, as last counted; before a count the limit of the day."""
        return hourly_cap(self.rule.hourly_limit, 1, 23) if self.counted is None else self.counted.cap

    @property
    def blocked(self) -> bool:
        """Whether no further claude job would be claimed now."""
        return self.rule.hourly_limit <= 0 or (self.counted is not None and self.counted.blocked)
