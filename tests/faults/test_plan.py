"""A plan follows from its seed, and comes by everything."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.faults.injuries import KINDS, UNITS
from tests.faults.plan import ALWAYS, plan_of

ROOT = Path(__file__).parents[2]


def test_the_same_seed_is_the_same_plan_and_another_is_another() -> None:
    assert plan_of(7, 10, KINDS) == plan_of(7, 10, KINDS)
    assert len({plan_of(seed, 10, KINDS) for seed in range(50)}) == 50


def test_a_long_run_comes_by_every_kind_and_every_number_of_seats() -> None:
    plans = [plan_of(seed, 10, KINDS) for seed in range(30)]
    times = Counter(fault.kind for plan in plans for fault in plan.faults)
    assert set(times) == set(KINDS)
    assert min(times.values()) >= 5
    assert {plan.seats for plan in plans} == {2, 3, 4}
    assert all(fault.seat < plan.seats for plan in plans for fault in plan.faults)


def test_every_round_has_failpoints_on_both_sides_of_a_commit() -> None:
    for seed in range(20):
        points = [fault for fault in plan_of(seed, 10, KINDS).faults if fault.kind in ALWAYS]
        assert {fault.kind for fault in points} == ALWAYS
        assert len({fault.seat for fault in points}) == 2


def test_there_is_a_failpoint_for_every_unit_of_work_of_the_queue() -> None:
    """But for the one that ends a job with a fixed text, after the database refused its own (DB-09)."""
    units = {
        ast.unparse(node.args[0])
        for name in ("pgqueue", "completions")
        for node in ast.walk(ast.parse((ROOT / f"actors/ports/{name}.py").read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"run", "transact", "beat"}
        and ast.unparse(node.func.value) == "self.database"
    }
    modules = {"claim": "claim.claim", "orphans": "reap.orphans", "fail_orphans": "aftercare.fail_orphans"}
    assert {modules.get(unit, unit) for unit in units} == {*UNITS, "outcomes.fail_plainly"}
