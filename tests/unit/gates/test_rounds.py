"""The rounds of a gate: when another is due, why none is, and what is written down (``enrich.md`` 6.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.gates.feedback import Rounds, parse_rounds
from protocols.gates.findings import Finding, Reading
from protocols.gates.rounds import GateState, Look, Stop, begin, digest_of
from protocols.gates.table import CHECKS_GATE, GATES, SCHEMA_GATE, Gate


def look(findings: int, digest: str = "a", gaps: int | None = 0, recorded: int = 0) -> Look:
    return Look(
        Reading(
            tuple(Finding("binding", f"f{number}") for number in range(findings)),
            tuple(Finding("outside-corpus", f"o{number}") for number in range(recorded)),
        ),
        gaps,
        digest,
    )


def state(findings: int = 3, budget: int = 2, gate: Gate = CHECKS_GATE, **more: int) -> GateState:
    return begin(gate, budget, look(findings, **more))  # type: ignore[arg-type]


def test_a_silent_gate_and_a_gate_without_budget_run_no_round() -> None:
    assert not state(0).wants_round
    assert not state(3, budget=0).wants_round
    assert state(3, budget=0).to_json() == {"gate": "checks", "findings_initial": 3, "findings_final": 3, "rounds": []}


def test_what_nothing_here_can_answer_is_recorded_and_never_asked() -> None:
    begun = state(0, recorded=2)
    assert not begun.wants_round
    assert begun.to_json()["outside_corpus"] == ["[outside-corpus] o0", "[outside-corpus] o1"]


@pytest.mark.claim("S0-102")
@pytest.mark.parametrize(
    ("after", "stopped"),
    [
        (look(0, "b"), Stop.CLEARED),
        (look(3, "a"), Stop.UNCHANGED),
        (look(3, "b"), Stop.NO_DECREASE),
        (look(4, "b"), Stop.NO_DECREASE),
        (look(2, "b"), None),
    ],
)
def test_a_round_ends_the_gate_or_leads_to_the_next(after: Look, stopped: Stop | None) -> None:
    begun = state(3)
    assert begun.wants_round
    done = begun.answered(after)
    assert done.stopped is stopped
    assert done.wants_round is (stopped is None)
    assert done.rounds[0].file_changed is (after.digest != "a")


def test_the_last_round_of_the_budget_says_so() -> None:
    done = state(3).answered(look(2, "b")).answered(look(1, "c"))
    assert [record.stopped for record in done.rounds] == [None, Stop.BUDGET]
    assert not done.wants_round


def test_a_round_is_written_down_with_findings_and_gaps_side_by_side() -> None:
    begun = begin(CHECKS_GATE, 2, look(3, "a", gaps=None))
    done = begun.answered(look(1, "b", gaps=5)).failed("claude timed out after 430s")
    assert done.to_json() == {
        "gate": "checks",
        "findings_initial": 3,
        "findings_final": 1,
        "rounds": [
            {
                "round": 1,
                "findings_before": 3,
                "findings_after": 1,
                "markings_before": None,
                "markings_after": 5,
                "file_changed": True,
                "stopped": None,
            },
            {
                "round": 2,
                "findings_before": 1,
                "findings_after": 1,
                "markings_before": 5,
                "markings_after": 5,
                "file_changed": False,
                "stopped": "failed",
                "error": "claude timed out after 430s",
            },
        ],
    }


def test_a_failed_call_a_taken_back_edit_and_too_little_time_end_the_gate() -> None:
    for done, stop in (
        (state().failed("x"), Stop.FAILED),
        (state().out_of_time(), Stop.TIME),
        (state().restored(), Stop.UNCHANGED),
    ):
        assert done.stopped is stop
        assert not done.wants_round
        assert done.open == state().open
        with pytest.raises(ValueError, match="no round left"):
            done.answered(look(0))


# EN-01: only a hard gate decides about the run, by its type and never by a text.
def test_findings_that_survive_fail_the_run_at_a_hard_gate_alone() -> None:
    assert not state(1, gate=CHECKS_GATE).failed("x").fails_run
    hard = state(1, gate=SCHEMA_GATE, budget=1)
    assert not hard.fails_run
    assert hard.failed("x").fails_run
    assert hard.answered(look(1, "b")).fails_run
    assert not hard.answered(look(0, "b")).fails_run
    assert state(1, gate=SCHEMA_GATE, budget=0).fails_run
    text = hard.answered(look(2, "b")).failure_text()
    assert text == "2 schema errors left after 1 feedback round(s):\n- [binding] f0\n- [binding] f1"


@given(budget=st.integers(0, 5), counts=st.lists(st.integers(0, 6), min_size=12, max_size=12), data=st.data())
def test_a_gate_ends_within_its_budget_whatever_the_agent_does(
    budget: int, counts: list[int], data: st.DataObject
) -> None:
    current = begin(CHECKS_GATE, budget, look(counts[0]))
    for number, count in enumerate(counts[1:]):
        if not current.wants_round:
            break
        current = current.answered(look(count, data.draw(st.sampled_from(["a", f"d{number}"]))))
    assert not current.wants_round
    assert len(current.rounds) <= budget
    assert all(record.stopped is None for record in current.rounds[:-1])
    if current.rounds:
        assert current.stopped is not None
    befores = [record.findings_before for record in current.rounds]
    assert befores == sorted(befores, reverse=True)


def test_the_same_bytes_have_the_same_digest() -> None:
    assert digest_of(b"a") == digest_of(b"a") != digest_of(b"b")


# --- ENRICH_FEEDBACK_ROUNDS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Rounds()),
        (" ", Rounds()),
        ("0", Rounds(0, 0, 0, 0)),
        ("2", Rounds(2, 2, 2, 2)),
        ("2,schema=1", Rounds(1, 2, 2, 2)),
        ("schema=1, 2", Rounds(2, 2, 2, 2)),
        (" checks = 3 ,binding=0", Rounds(1, 3, 1, 1, 0)),
        ("marking=2,reconcile=4,marking=5", Rounds(1, 1, 5, 4)),
    ],
)
def test_the_grammar_of_the_rounds(text: str, expected: Rounds) -> None:
    assert parse_rounds(text) == (expected, None)


@pytest.mark.parametrize(
    "text", ["x", "-1", "1.5", "21", "2,", ",", "schema=", "=1", "schema-final=1", "reverse=1", "3,checks=x", "²"]
)
def test_a_setting_that_cannot_be_read_is_told_and_never_half_used(text: str) -> None:
    rounds, warning = parse_rounds(text)
    assert rounds == Rounds()
    assert warning is not None
    assert "ENRICH_FEEDBACK_ROUNDS" in warning


def test_the_closing_gates_have_budgets_too() -> None:
    rounds = Rounds(schema=1, checks=2, marking=3, reconcile=4)
    assert [rounds.of(gate.name) for gate in GATES] == [1, 2, 3, 4, 2, 1]
    assert rounds.possible == 13
    assert Rounds(checks=2, binding=0).of("binding") == 0
    assert Rounds().possible == 6
