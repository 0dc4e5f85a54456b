"""The figures of a run, as tables for the terminal and for the docs."""

from __future__ import annotations

from collections import Counter

from attrs import define, field
from rich.console import Console
from rich.table import Table

from tests.faults.harvests import Harvested
from tests.faults.injuries import KINDS, UNITS
from tests.faults.round import Outcome


@define
class Figures:
    """Grows round by round."""

    rounds: int = 0
    jobs: int = 0
    executions: int = 0
    taken: int = 0
    lost: int = 0
    doubled: int = 0
    overlapping: int = 0
    other: int = 0
    seconds: float = 0
    inflicted: Counter[str] = field(factory=Counter)
    skipped: dict[str, str] = field(factory=dict)
    points: Counter[str] = field(factory=Counter)

    def add(self, outcome: Outcome) -> None:
        verdict = outcome.verdict
        self.rounds += 1
        self.jobs += verdict.jobs
        self.executions += verdict.executions
        self.taken += verdict.taken
        self.lost += len(verdict.lost)
        self.doubled += len(verdict.doubled)
        self.overlapping += len(verdict.overlapping)
        self.other += len(verdict.other)
        self.seconds += outcome.seconds
        self.inflicted += outcome.inflicted
        self.points += outcome.points
        self.skipped |= outcome.skipped

    def show(self, console: Console) -> None:
        faults = Table("fault", "times", title=f"{self.inflicted.total()} faults in {self.rounds} rounds")
        faults.columns[1].justify = "right"
        for kind in KINDS:
            times = self.inflicted[kind]
            faults.add_row(kind, str(times) if times or kind not in self.skipped else f"- ({self.skipped[kind]})")
        console.print(faults)
        hit = sorted(self.points)
        console.print(f"failpoints that did their work: {len(hit)} of {2 * len(UNITS)}: {', '.join(hit) or 'none'}")
        sums = Table(
            "jobs", "executions", "claims that came back", "lost", "doubled", "overlapping", "other", "minutes"
        )
        sums.add_row(
            str(self.jobs), str(self.executions), str(self.taken), str(self.lost), str(self.doubled),
            str(self.overlapping), str(self.other), f"{self.seconds / 60:.1f}",
        )  # fmt: skip
        console.print(sums)


def line_of(outcome: Outcome, number: int, rounds: int) -> str:
    verdict = outcome.verdict
    return (
        f"round {number} of {rounds}: seed {outcome.plan.seed}, {outcome.plan.seats} supervisors, "
        f"{outcome.inflicted.total()} faults, {verdict.jobs} jobs, {verdict.executions} executions, "
        f"{'all well' if not verdict.problems else f'{len(verdict.problems)} PROBLEMS'}, {outcome.seconds:.0f} s"
    )


def line_of_harvests(harvested: Harvested, what: str) -> str:
    problems = [*harvested.verdict.problems, *harvested.complaints]
    return (
        f"{harvested.laws} real harvests by two supervisors, {what}: each ended once, at most {harvested.most_attempts} "
        f"attempts, {'all well' if not problems else f'{len(problems)} PROBLEMS'}, {harvested.seconds:.0f} s"
    )
