"""Gates: which checks they run, what belongs to a window, and what they say of real laws."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from protocols.gates.findings import Finding, in_window, reading_of
from protocols.gates.reading import Surroundings
from protocols.gates.reconcile import Counts
from protocols.gates.table import (
    BINDING_GATE,
    CHECKS_GATE,
    CLOSING_GATES,
    GATES,
    MARKING_GATE,
    RECONCILE_GATE,
    SCHEMA_FINAL_GATE,
    SCHEMA_GATE,
    WINDOW_GATES,
    evaluate,
    measure,
)
from protocols.gates.targets import laws_named
from protocols.lawtree import Tree, read_tree
from tests.kit import shared
from tests.unit.gates.laws import FIXTURE, Corpus, computing, entry, law, source

AROUND = Surroundings()


def test_six_gates_run_in_order_and_only_the_schema_is_hard() -> None:
    assert [gate.name for gate in GATES] == ["schema", "checks", "marking", "reconcile", "binding", "schema-final"]
    assert [gate.name for gate in GATES if gate.hard] == ["schema", "schema-final"]
    assert (*WINDOW_GATES, *CLOSING_GATES) == GATES
    assert all(gate.closing == (gate in CLOSING_GATES) for gate in GATES)


@pytest.mark.parametrize(
    ("article", "inside"),
    [("2", True), ("2.1", True), ("2.1.a", True), ("21", False), ("3", False), ("2.2", False), (None, True)],
)
def test_a_finding_belongs_to_a_window_by_number_in_either_direction(article: str | None, inside: bool) -> None:
    assert in_window(Finding("binding", "x", article), {"2.1", "7"}) is inside


def test_a_schema_finding_belongs_to_every_window_and_no_window_is_the_whole_law() -> None:
    assert in_window(Finding("schema", "articles/9: x", "9"), {"1"})
    assert in_window(Finding("binding", "x", "9"), None)


def test_what_nothing_here_can_answer_is_kept_apart_and_doubles_are_dropped() -> None:
    one, outside = Finding("binding", "x", "1"), Finding("outside-corpus", "y", "1")
    reading = reading_of([one, outside, one])
    assert (reading.answerable, reading.recorded) == ((one,), (outside,))
    assert str(one) == "[binding] art. 1: x"
    assert str(Finding("citation", "x")) == "[citation] x"


LAW = law(
    entry("1", model=computing("x", "$a")),
    entry(
        "2",
        model=computing("y", "$b", input=[{"name": "y", "type": "number", "source": {}, "description": "de teller"}]),
    ),
)


def test_window_gates_look_at_the_window_and_closing_gates_at_the_law() -> None:
    assert [found.article for found in evaluate(CHECKS_GATE, source(LAW), AROUND, {"2"}).answerable] == ["2"]
    closing = evaluate(BINDING_GATE, source(LAW), AROUND, {"2"})
    assert [found.article for found in closing.answerable] == ["1", "2"]
    assert [found.check for found in closing.recorded] == ["outside-corpus"]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_file_that_cannot_be_read_is_one_finding_at_every_gate(gate: Any) -> None:
    (found,) = evaluate(gate, b"a: b: c\n", AROUND, {"1"}).answerable
    assert found.check == ("schema" if gate.hard else "parses")
    assert "Line 1 reads: a: b: c" in found.detail


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
@pytest.mark.parametrize(
    "tree",
    [
        {"articles": 5},
        {"articles": [5, None, {"number": [], "text": 5, "machine_readable": []}]},
        law(entry("1", model={"execution": [], "definitions": [], "open_terms": {}, "untranslatables": "x"})),
        law(entry("1", model={"execution": {"input": [{"name": 5, "source": []}], "actions": [{"output": [], "value": {"operation": []}}]}})),
        law(entry("1", model={"markings": [5, {"target": {}, "about": []}], "overrides": [{"law": 5}], "declares": 5})),
    ],
)  # fmt: skip
def test_no_check_stumbles_over_a_shape_that_is_wrong(gate: Any, tree: Tree) -> None:
    evaluate(gate, source(tree), AROUND)


def test_a_law_is_measured_by_schema_errors_and_findings_of_the_soft_gates() -> None:
    assert measure(b"a: b: c", AROUND) is None
    assert measure(FIXTURE.read_bytes(), AROUND) == Counts(0, 3)
    assert measure(source(law()), AROUND) == Counts(0, 0)


def test_the_laws_to_fetch_are_those_that_the_models_name() -> None:
    assert laws_named(read_tree(FIXTURE.read_bytes())) == ("rijwielwet",)
    assert laws_named(law()) == ()


# --- the example laws, as a table that was read and agreed to --------------------------------------------------------

# By file: what each soft gate finds, by check. The schema gate finds nothing: early releases are read by their stand-in.
EXAMPLES: dict[str, dict[str, dict[str, int]]] = {
    "afstemmingsverordening_participatiewet_2015-01-01": {
        "checks": {"definition-type": 3},
        "marking": {"accounted": 1},
    },
    "algemene_wet_bestuursrecht_1994-01-01": {},
    "burgerlijk_wetboek_boek_5_2024-01-01": {},
    "participatiewet_2022-03-15": {
        "checks": {"definition-type": 3, "coverage": 8},
        "marking": {"accounted": 7},
    },
    "regeling_standaardpremie_2025-01-01": {},
    "test_untranslatables_2025-01-01": {},
    "test_value_typing_2023-01-01": {},
    "vreemdelingenwet_2000_2000-11-23": {"checks": {"coverage": 1}, "marking": {"accounted": 1}},
    "wet_inkomstenbelasting_2001_2025-01-01": {
        "checks": {"coverage": 1, "binding": 11},
        "binding": {"binding": 11},
    },
    "wet_op_de_zorgtoeslag_2025-01-01": {
        "checks": {"definition-type": 2, "coverage": 3, "reach": 1, "outside-corpus": 4},
        "marking": {"accounted": 4},
        "binding": {"outside-corpus": 4},
    },
    "wet_open_overheid_2025-02-12": {"checks": {"coverage": 30, "reach": 1}, "marking": {"accounted": 48}},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_findings_over_a_real_law_are_those_that_were_reviewed(name: str) -> None:
    folder = shared.path("data/law-schema/examples")
    corpus = Corpus(*(read_tree(path.read_bytes()) for path in sorted(folder.glob("*.yaml"))))
    content = (folder / f"{name}.yaml").read_bytes()
    found: dict[str, dict[str, int]] = {}
    for gate in (CHECKS_GATE, MARKING_GATE, RECONCILE_GATE, BINDING_GATE):
        reading = evaluate(gate, content, Surroundings(corpus=corpus))
        counted = Counter(finding.check for finding in (*reading.answerable, *reading.recorded))
        if counted:
            found[gate.name] = dict(counted)
    assert found == EXAMPLES[name]
    for gate in (SCHEMA_GATE, SCHEMA_FINAL_GATE):
        assert len(evaluate(gate, content, AROUND)) == 0


def test_every_example_is_in_the_table() -> None:
    assert {path.stem for path in shared.path("data/law-schema/examples").glob("*.yaml")} == set(EXAMPLES)
