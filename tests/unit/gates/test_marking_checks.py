"""The checks of the gate ``marking``: each has a law that fires it and one that nearly does (D56)."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.gates.citations import citations, cited_in
from protocols.gates.constants import workarounds
from protocols.gates.coverage import accounted
from protocols.gates.crosslaw import references
from protocols.gates.gapchecks import gaps
from protocols.lawtree import Tree
from tests.unit.gates.laws import Corpus, computing, entry, findings, fired, law

# --- accounted -------------------------------------------------------------------------------------------------------


def test_an_entry_that_nobody_decided_about_is_found() -> None:
    assert fired(accounted, entry("2"), entry("3", model={}), entry("4", model=None)) == [
        ("accounted", "2"),
        ("accounted", "3"),
        ("accounted", "4"),
    ]


# EN-02: a window that left most of its articles untouched is not done; what is skipped needs a reason in the report.
def test_a_model_a_skip_with_a_reason_or_nothing_to_model_accounts_for_an_entry() -> None:
    modelled = entry("2", model={"definitions": {"a": "b"}})
    assert (
        fired(
            accounted,
            modelled,
            entry("3"),
            entry("4", "[Red: Vervallen.]"),
            entry("5", "Vervallen"),
            skipped=frozenset({"3"}),
        )
        == []
    )
    assert fired(accounted, entry("5", "Vervallen is de step.")) == [("accounted", "5")]


# --- reference -------------------------------------------------------------------------------------------------------

CITING = "Een step als bedoeld in [artikel 2.1 van de Wegenregeling][ref1].\n\n[ref1]: https://wetten.overheid.nl/BWBR0099003#Artikel2.1"


def test_a_citation_that_the_model_passes_over_is_found_by_name() -> None:
    (found,) = findings(references, law(entry("2", CITING, computing("x", 1))))
    assert (found.check, found.article) == ("reference", "2")
    assert "artikel 2.1 van de Wegenregeling, BWBR0099003" in found.detail


@pytest.mark.parametrize(
    "answer",
    [
        {"execution": {"input": [{"name": "y", "source": {"regulation": "wegenregeling", "output": "y"}}]}},
        {"execution": {"input": [{"name": "y", "source": {"regulation": "BWBR0099003", "output": "y"}}]}},
        {"overrides": [{"law": "wegenregeling", "article": "1", "output": "y"}]},
        {"implements": [{"law": "wegenregeling", "article": "1", "open_term": "y"}]},
        {"open_terms": [{"id": "y", "legal_basis": "artikel 2.1 Wegenregeling"}]},
        {"untranslatables": [{"construct": "BWBR0099003", "reason": "niet nodig"}]},
    ],
)
def test_a_binding_an_override_an_implementation_or_an_open_term_answers_it(answer: Tree) -> None:
    assert fired(references, entry("2", CITING, {"definitions": {"a": "b"}, **answer})) == []


def test_the_law_that_is_named_must_be_the_one_that_is_cited() -> None:
    model = {"overrides": [{"law": "wegenwet", "article": "1", "output": "y"}]}
    assert fired(references, entry("2", CITING, model)) == [("reference", "2")]
    known = Corpus(law(**{"$id": "wegenwet", "bwb_id": "BWBR0099003"}))
    assert fired(references, entry("2", CITING, model), corpus=known) == []
    another = Corpus(law(**{"$id": "wegenregeling", "bwb_id": "BWBR0000001"}))
    named = {"overrides": [{"law": "wegenregeling", "article": "1", "output": "y"}]}
    assert fired(references, entry("2", CITING, named), corpus=another) == [("reference", "2")]


def test_references_count_like_links_and_the_own_law_and_unmodelled_entries_do_not() -> None:
    listed = [{"id": "ref1", "bwb_id": "BWBR0099003"}]
    assert fired(references, entry("2", "Zie ref.", {"definitions": {"a": 1}}, references=listed)) == [
        ("reference", "2")
    ]
    own = "Zie [artikel 1](https://wetten.overheid.nl/BWBR0099007#1)."
    assert fired(references, entry("2", own, {"definitions": {"a": 1}}), entry("3", CITING)) == []


# --- marking ---------------------------------------------------------------------------------------------------------

TEXT = "De prijs is redelijk en billijk voor iedereen."
SOUND = {
    "construct": "redelijk en billijk",
    "reason": "wat redelijk is, is een oordeel van mensen over omstandigheden",
    "suggestion": "een beslissing van het college per geval",
    "legal_text_excerpt": "redelijk en billijk voor iedereen",
}


def told_about(gap: Tree, *, key: str = "untranslatables", version: str = "v0.5.6") -> list[str]:
    tree = law(entry("2", TEXT, {key: [gap]}), version=version)
    return [found.detail.split(": ", 2)[2] for found in findings(gaps, tree)]


def test_a_gap_with_a_reason_and_a_quotation_stands() -> None:
    assert told_about(SOUND) == []
    quoted = {**SOUND, "legal_text_excerpt": "  Redelijk en\nbillijk **voor** iedereen "}
    assert told_about(quoted) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reason": "bij ministeriële regeling worden nadere regels gesteld over de prijs"}, "open_terms"),
        ({"suggestion": "Add a ROUND operation"}, "asks for ROUND"),
        ({"suggestion": "gebruik DATE_DIFF en AGE"}, "asks for AGE, DATE_DIFF"),
        ({"suggestion": "needs a conditional expression"}, "the operation IF"),
        ({"suggestion": "an open term for the council"}, "open_terms"),
        ({"reason": "kan niet"}, "at least 6 words"),
        ({"reason": "redelijk en billijk en redelijk en billijk"}, "at least 6 words"),
        ({"legal_text_excerpt": ""}, "at least 3 words"),
        ({"legal_text_excerpt": "redelijk en"}, "at least 3 words"),
        ({"legal_text_excerpt": "redelijk of billijk voor iedereen"}, "not literally"),
    ],
)
def test_a_gap_in_the_wrong_channel_without_need_or_without_proof_is_found(change: Tree, told: str) -> None:
    (found,) = told_about({**SOUND, **change})
    assert told in found


def test_an_operation_that_the_version_does_not_have_may_be_asked_for() -> None:
    wish = {**SOUND, "suggestion": "Add a ROUND operation"}
    assert told_about(wish, version="v0.5.4") == []
    assert told_about({**SOUND, "suggestion": "Add SUM and FOREACH"}) == []


def test_markings_are_held_to_what_they_have() -> None:
    marking = {
        "about": "redelijk en billijk",
        "resolution": "model",
        "resolved_by": "een uitspraak van het college",
        "legal_text_excerpt": SOUND["legal_text_excerpt"],
    }
    assert told_about(marking, key="markings", version="v0.6.0") == []
    (found,) = told_about({**marking, "resolved_by": "redelijk billijk en"}, key="markings", version="v0.6.0")
    assert "resolved_by" in found


# --- citation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signal",
    [
        "kst-34100-3",
        "Kamerstukken II 2014/15, 34 100",
        "Staatsblad 2005, 12",
        "stcrt-2020-1",
        "ECLI:NL:HR:2015:12",
        "https://zoek.officielebekendmakingen.nl/x",
    ],
)
def test_a_source_that_nobody_provided_is_found_in_models_and_companion_files(signal: str) -> None:
    model = {"untranslatables": [{"reason": f"zie {signal}"}]}
    assert fired(citations, entry("2", model=model)) == [("citation", "2")]
    assert fired(citations, entry("2"), companions={"x.feature": signal}) == [("citation", None)]
    assert fired(citations, entry("2", f"Zie {signal}.", model)) == []
    assert fired(citations, entry("2", model=model), provided=(signal,)) == []


def test_another_number_is_another_source_and_fewer_numbers_are_the_same_one() -> None:
    model = {"definitions": {"bron": "Staatsblad 2005, 13"}}
    assert fired(citations, entry("2", "Staatsblad 2005, 12", model)) == [("citation", "2")]
    assert (
        fired(citations, entry("2", "Staatsblad 2005, 12", {"definitions": {"bron": "het Staatsblad van 2005"}})) == []
    )
    assert fired(citations, entry("2", model={"definitions": {"bron": "de toelichting bij de wet"}})) == []
    assert cited_in("KST-34100-3; stb-2020-1") == {("kst-", "34100", "3"), ("stb-", "2020", "1")}


# --- workaround ------------------------------------------------------------------------------------------------------


def many_cases(count: int) -> Tree:
    return {"operation": "IF", "cases": [{"when": True, "then": number} for number in range(count)]}


def scaled(outer: str, inner: str, one: Any, other: Any) -> Tree:
    return {"operation": outer, "values": [{"operation": inner, "values": ["$x", one]}, other]}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (many_cases(9), 1),
        (many_cases(8), 0),
        (scaled("DIVIDE", "MULTIPLY", 100, 100), 1),
        (scaled("MULTIPLY", "DIVIDE", 100, 100), 1),
        (scaled("DIVIDE", "MULTIPLY", "$HONDERD", 100), 1),
        (
            {
                "operation": "DIVIDE",
                "values": [{"operation": "FLOOR", "value": scaled("MULTIPLY", "ADD", 1, 10), "precision": 0}, 10],
            },
            1,
        ),
        (scaled("DIVIDE", "MULTIPLY", "$percentage", 100), 0),
        (scaled("DIVIDE", "MULTIPLY", 12, 12), 0),
        (scaled("DIVIDE", "MULTIPLY", 100, 1000), 0),
        (999999, 1),
        ("9999-12-31", 1),
        ("1900-01-01", 1),
        (99, 0),
        (88888, 0),
        ("2024-12-31", 0),
    ],
)
def test_expressions_bent_around_the_format_are_found(value: Any, found: int) -> None:
    model = computing("y", value) | {"definitions": {"HONDERD": {"value": 100, "type": "number"}}}
    assert fired(workarounds, entry("2", model=model)) == [("workaround", "2")] * found


def test_a_number_of_nines_that_the_text_has_is_no_stand_in() -> None:
    model = computing("grens", 99999)
    assert fired(workarounds, entry("2", "De grens is € 999,99.", model)) == []
    assert fired(workarounds, entry("2", "De grens is hoog.", model)) == [("workaround", "2")]
