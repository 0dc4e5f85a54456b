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
    "supervisors and jobs": [
        "SIGKILL",
        "SIGTERM",
        "SIGTERM twice",
        "SIGTERM thrice",
        "SIGSTOP past the orphan timeout",
        "clock wrong by an hour",
        "failpoint after a commit",
        "agent deaf to SIGTERM",
        "grandchild holds the pipe",
        "loop blocked",
        "job cancelled",
    ],
    "database, lines and remote": [
        "PostgreSQL immediate stop",
        "PostgreSQL kill -9",
        "PostgreSQL restart",
        "backend terminated",
        "pool exhausted",
        "no connection to be had",
        "connection cut",
        "connection stalled",
        "failpoint before a commit",
        "disk full",
        "push hung",
    ],
}
GAP_S = 0.7


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
    outcome = play(battleground, plan_of(SEED, len(kinds), kinds, GAP_S), tmp_path / "round")
    assert outcome.verdict.problems == (), told(outcome, kinds)
    assert outcome.verdict.jobs > 40
    assert set(outcome.inflicted) | set(outcome.skipped) == set(kinds)


def test_the_short_run_knows_the_kinds_of_the_long_one() -> None:
    assert {kind for kinds in SHORT.values() for kind in kinds} == set(KINDS) - {"PostgreSQL fast stop"}


@pytest.mark.slow
def test_real_harvests_end_once_whatever_happens_in_the_middle(battleground: Ground, tmp_path: Path) -> None:
    """The full 2,000 run in ``make faults N=300``."""
    harvested = harvest(battleground, tmp_path / "harvests", 32, list(TROUBLES))
    assert harvested.verdict.problems == ()
    assert harvested.complaints == ()
    assert harvested.verdict.jobs == 32
    assert harvested.most_attempts <= 2  # kill -9 costs one; SIGTERM and a restart of the database cost nothing
