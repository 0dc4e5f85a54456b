"""The short run: a few rounds with every kind of fault (``make faults N=300`` plays many). The seed plays it again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.ground import Ground
from tests.faults.harvests import TROUBLES, harvest
from tests.faults.injuries import KINDS
from tests.faults.plan import plan_of
from tests.faults.round import Outcome, play

SEED = int(os.environ.get("SEED", "1"))

SHORT = {
    "supervisors": ["SIGKILL", "SIGTERM", "SIGTERM twice", "SIGTERM thrice", "clock wrong by an hour"],
    "database": ["PostgreSQL immediate stop", "PostgreSQL kill -9", "backend terminated", "no connection to be had"],
    "lines": ["connection cut", "connection stalled", "pool exhausted", "SIGSTOP past the orphan timeout"],
    "jobs": ["agent deaf to SIGTERM", "grandchild holds the pipe", "loop blocked", "job cancelled", "push hung"],
    "commits": ["failpoint before a commit", "failpoint after a commit", "disk full", "PostgreSQL restart"],
}


def told(outcome: Outcome, kinds: list[str]) -> str:
    """How to play it again, and what was wrong."""
    again = f"python -m tests.faults --faults {len(outcome.plan.faults)} --seed {outcome.plan.seed}"
    again += "".join(f" --only '{kind}'" for kind in kinds)
    return "\n".join([again, *outcome.verdict.problems])


@pytest.mark.slow
@pytest.mark.claim("S0-003", "S0-013", "S0-016", "S0-017", "S1-002", "C-029")
@pytest.mark.parametrize("part", SHORT)
def test_no_job_is_lost_doubled_or_worked_on_by_two(battleground: Ground, tmp_path: Path, part: str) -> None:
    kinds = SHORT[part]
    outcome = play(battleground, plan_of(SEED, len(kinds), kinds), tmp_path / "round")
    assert outcome.verdict.problems == (), told(outcome, kinds)
    assert outcome.verdict.jobs > 40
    assert set(outcome.inflicted) | set(outcome.skipped) == set(kinds)


def test_the_short_run_knows_the_kinds_of_the_long_one() -> None:
    assert {kind for kinds in SHORT.values() for kind in kinds} == set(KINDS) - {"PostgreSQL fast stop"}


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES)
def test_real_harvests_end_once_whatever_happens_in_the_middle(
    battleground: Ground, tmp_path: Path, trouble: str
) -> None:
    """The full 2,000 run in ``make faults N=300``."""
    harvested = harvest(battleground, tmp_path / "harvests", 24, [trouble])
    assert harvested.verdict.problems == ()
    assert harvested.complaints == ()
    assert harvested.verdict.jobs == 24
    # a restart of the database costs nobody an attempt; SIGTERM hands back
    assert harvested.most_attempts <= (2 if trouble == "kill -9" else 1)
