"""The checks of the gate ``checks``: each has a law that fires it and one that nearly does (D56)."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.gates.bindings import bindings
from protocols.gates.constants import UNITS, definition_types, enumerated
from protocols.gates.coverage import coverage, flags_only, unproduced
from protocols.gates.crosslaw import declarations, overrides, promises, units
from protocols.gates.gapchecks import open_terms, reach, targets
from protocols.gates.placement import placements
from protocols.lawtree import Tree
from tests.unit.gates.laws import Corpus, computing, entry, findings, fired, law


def bound(name: str, source: Any, **more: Any) -> Tree:
    return {"name": name, "type": "number", "source": source, **more}


def other(*entries: Tree, **header: Any) -> Tree:
    return law(*entries, **{"$id": "wegenregeling", "bwb_id": "BWBR0099003", **header})


# --- definition-type -------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-101")
@pytest.mark.parametrize("written", [2.5, 40, 0, {"value": 0.025}, {"value": 4000, "type_spec": {"unit": "eurocent"}}])
def test_a_number_without_a_type_is_found(written: Any) -> None:
    assert fired(definition_types, entry("2", model={"definitions": {"TARIEF": written}})) == [("definition-type", "2")]


@pytest.mark.claim("S0-099", "S0-100", "S0-101")
@pytest.mark.parametrize(
    "written",
    [
        {"value": 2.5, "type": "number", "type_spec": {"unit": "percentage"}},
        {"value": 4000, "type": "amount", "type_spec": {"unit": "eurocent"}},
        {"value": 3, "type": "number"},
        "3",
        True,
        None,
        {"value": True},
        [1, 2],
    ],
)
def test_typed_numbers_and_other_constants_are_left_alone(written: Any) -> None:
    assert fired(definition_types, entry("2", model={"definitions": {"TARIEF": written}})) == []


def test_the_finding_names_the_definition_its_value_and_both_repairs() -> None:
    (found,) = findings(definition_types, law(entry("2", model={"definitions": {"TARIEF": {"value": 0.025}}})))
    told = str(found)
    assert told.startswith("[definition-type] art. 2: definition TARIEF is 0.025 without a type")
    assert "factor of 100" in told
    assert "value: 0.025 and a type" in told
    assert "type: amount with unit: eurocent" in told
    assert "do not rescale" in told
    for unit in UNITS:
        assert unit in told


# --- coverage --------------------------------------------------------------------------------------------------------

TWO_LEDEN = "1. De step staat stil.\n2. De step rijdt weg."


@pytest.mark.parametrize("text", [TWO_LEDEN, "1 Een.\n1a Anderhalf.", "De step rijdt, tenzij het regent."])
def test_leden_and_connectives_without_a_model_are_found(text: str) -> None:
    assert fired(coverage, entry("2", text)) == [("coverage", "2")]


@pytest.mark.parametrize(
    "text", ["1. De step rijdt.", "1. Een.\n3. Drie.", "De nochtans lege weg.", "1. Een:\n   2. ingesprongen"]
)
def test_one_lid_without_a_connective_needs_no_model(text: str) -> None:
    assert fired(coverage, entry("2", text)) == []


LIMITED = "De prijs bedraagt ten hoogste 40 euro."


def test_a_connective_needs_a_branch_in_the_model() -> None:
    assert fired(coverage, entry("2", LIMITED, computing("prijs", 40))) == [("coverage", "2")]


@pytest.mark.parametrize(
    "model",
    [
        computing("prijs", {"operation": "MIN", "values": ["$x", 40]}),
        {"untranslatables": [{"legal_text_excerpt": "bedraagt ten hoogste 40 euro"}]},
    ],
)
def test_a_limit_or_a_gap_that_quotes_it_answers_a_connective(model: Tree) -> None:
    assert fired(coverage, entry("2", LIMITED, model)) == []


def test_a_definition_article_needs_no_branch_and_an_override_answers_a_deviation() -> None:
    defined = "In deze wet wordt verstaan onder step: een plank, dan wel een wiel."
    assert fired(coverage, entry("1", defined, {"definitions": {"x": "y"}})) == []
    deviating = "In afwijking van artikel 1 is de prijs nul."
    model = computing("prijs", 0)
    assert fired(coverage, entry("2", deviating, model)) == [("coverage", "2")]
    assert fired(coverage, entry("2", deviating, {**model, "overrides": [{"law": "x"}]})) == []


PERIODIC = "De prijs geldt per kalenderjaar."


def test_a_period_in_the_text_needs_a_name_that_carries_one() -> None:
    assert fired(coverage, entry("2", PERIODIC, computing("prijs", 40))) == [("coverage", "2")]


@pytest.mark.parametrize(
    "parameter",
    [
        {"name": "berekeningsjaar", "type": "number"},
        {"name": "moment", "type": "date"},
        {"name": "x", "type": "number", "temporal": {"type": "period"}},
    ],
)
def test_a_field_for_the_period_answers_it(parameter: Tree) -> None:
    assert fired(coverage, entry("2", PERIODIC, computing("prijs", 40, parameters=[parameter]))) == []


# --- enum-provenance -------------------------------------------------------------------------------------------------


def comparing(value: Any) -> Tree:
    return computing("x", {"operation": "EQUALS", "subject": "$soort", "value": value})


@pytest.mark.parametrize(
    "operation",
    [
        {"operation": "EQUALS", "subject": "$soort", "value": "vrachtwagen"},
        {"operation": "IN", "subject": "$soort", "values": ["step", "vrachtwagen"]},
        {"operation": "IF", "cases": [{"when": True, "then": "vrachtwagen"}]},
        {"operation": "IF", "cases": [], "default": "vrachtwagen"},
        {"operation": "NOT", "value": {"operation": "LIST", "items": ["vrachtwagen"]}},
    ],
)
def test_a_value_that_the_text_does_not_have_is_found_wherever_it_is_enumerated(operation: Tree) -> None:
    assert fired(enumerated, entry("2", "Over een step.", computing("x", operation))) == [("enum-provenance", "2")]


@pytest.mark.parametrize("value", ["step", "Elektrische_Step", "42", "2024-01-01", "$soort", 7, None, "12,5%"])
def test_words_of_any_article_and_numbers_are_no_invention(value: Any) -> None:
    assert fired(enumerated, entry("1", "Een elektrische\nstep."), entry("2", model=comparing(value))) == []


# --- binding, outside-corpus, corpus-defect --------------------------------------------------------------------------


def test_a_name_that_nothing_defines_is_found() -> None:
    (found,) = findings(bindings, law(entry("2", model=computing("x", {"operation": "ADD", "values": ["$y.z", 1]}))))
    assert (found.check, found.article) == ("binding", "2")
    assert "uses $y, which nothing in this entry defines" in found.detail


@pytest.mark.parametrize(
    "execution",
    [
        {"parameters": [{"name": "y", "type": "number"}]},
        {"input": [bound("y", {"description": "de teller"})]},
        {"actions": [{"output": "y", "value": 1}, {"output": "x", "value": "$y"}]},
    ],
)
def test_parameters_inputs_and_steps_define_names(execution: Tree) -> None:
    model = {"execution": {"actions": [{"output": "x", "value": "$y"}], **execution}}
    assert ("binding", "2") not in fired(bindings, entry("2", model=model))


def test_definitions_open_terms_and_the_engine_define_names_and_prose_uses_none() -> None:
    model = {
        "definitions": {"Y": 1},
        "open_terms": [{"id": "term", "type": "number"}],
        "execution": {
            "actions": [
                {
                    "output": "x",
                    "value": {"operation": "ADD", "values": ["$Y", "$term", "$calculation_date.year"]},
                    "legal_basis": {"explanation": "$bedrag is vrij"},
                }
            ]
        },
    }
    assert fired(bindings, entry("2", model=model)) == []


def test_a_name_that_another_entry_defines_is_not_defined_here() -> None:
    there = entry("1", model={"definitions": {"Y": {"value": 1, "type": "number"}}})
    assert fired(bindings, there, entry("2", model=computing("x", "$Y"))) == [("binding", "2")]


@pytest.mark.parametrize("source", [{}, None, {"regulation": ""}, {"parameters": {"a": "1"}}])
def test_an_empty_source_without_description_is_found(source: Any) -> None:
    model = computing("x", 1, input=[bound("y", source)])
    assert fired(bindings, entry("2", model=model)) == [("binding", "2")]


def test_an_input_that_is_described_as_coming_from_outside_is_only_recorded() -> None:
    said = computing("x", 1, input=[bound("y", {"description": "de teller"})])
    assert fired(bindings, entry("2", model=said)) == [("outside-corpus", "2")]
    beside = computing("x", 1, input=[bound("y", {}, description="de teller")])
    assert fired(bindings, entry("2", model=beside)) == [("outside-corpus", "2")]


def test_an_output_of_this_law_must_be_given_by_some_entry() -> None:
    taking = entry("2", model=computing("x", 1, input=[bound("y", {"output": "y"})]))
    assert fired(bindings, taking) == [("binding", "2")]
    assert fired(bindings, taking, entry("3", model=computing("y", 1))) == []


ELSEWHERE = entry("2", model=computing("x", 1, input=[bound("y", {"regulation": "wegenregeling", "output": "y"})]))


def test_an_output_of_another_law_is_looked_up_there() -> None:
    assert fired(bindings, ELSEWHERE, corpus=Corpus(other(entry("1", model=computing("y", 1))))) == []
    lacking = Corpus(other(entry("1", model=computing("z", 1))))
    (found,) = findings(bindings, law(ELSEWHERE), corpus=lacking)
    assert found.check == "binding"
    assert "has no such output; it gives: z" in found.detail
    assert lacking.asked == [("wegenregeling", "2024-02-01")]


@pytest.mark.parametrize(
    ("corpus", "check"),
    [
        (Corpus(), "outside-corpus"),
        (Corpus(other(entry("1"))), "outside-corpus"),
        (Corpus(other(entry("1", model={}))), "outside-corpus"),
        (Corpus(broken="wegenregeling"), "corpus-defect"),
    ],
)
def test_a_law_that_cannot_be_looked_into_is_recorded_and_never_put_to_the_agent(corpus: Corpus, check: str) -> None:
    assert fired(bindings, ELSEWHERE, corpus=corpus) == [(check, "2")]


def test_a_source_that_names_a_law_and_no_output_is_found() -> None:
    model = computing("x", 1, input=[bound("y", {"regulation": "wegenregeling"})])
    assert fired(bindings, entry("2", model=model), corpus=Corpus()) == [("binding", "2")]


def test_the_own_law_may_be_named_as_regulation() -> None:
    model = computing("x", 1, input=[bound("y", {"regulation": "stepwet", "output": "y"})])
    assert fired(bindings, entry("2", model=model), entry("3", model=computing("y", 1))) == []
    assert fired(bindings, entry("2", model=model)) == [("binding", "2")]


def test_parameters_of_a_source_use_names_too() -> None:
    source = {"output": "y", "parameters": {"bsn": "$bsn"}}
    giving = entry("3", model=computing("y", 1))
    assert fired(bindings, entry("2", model=computing("x", 1, input=[bound("y", source)])), giving) == [
        ("binding", "2")
    ]


# --- override, unit, promise, declares -------------------------------------------------------------------------------


def overriding(article: str, output: str = "termijn", where: str = "wegenregeling") -> Tree:
    return entry("9", model={"overrides": [{"law": where, "article": article, "output": output}]})


@pytest.mark.parametrize(
    ("article", "output", "told"),
    [
        ("2", "termijn", "no entry 2, only its parts 2.1; termijn is given by 2.1"),
        ("7", "termijn", "no entry 7; termijn is given by 2.1"),
        ("2.1", "bedrag", "gives no output bedrag"),
    ],
)
def test_an_override_of_what_is_not_there_has_no_effect(article: str, output: str, told: str) -> None:
    corpus = Corpus(other(entry("2.1", model=computing("termijn", 6))))
    (found,) = findings(overrides, law(overriding(article, output)), corpus=corpus)
    assert found.check == "override"
    assert told in found.detail
    assert "no effect" in found.detail


def test_an_override_that_names_the_entry_exactly_is_right() -> None:
    corpus = Corpus(other(entry("2.1", model=computing("termijn", 6))))
    assert fired(overrides, overriding("2.1"), corpus=corpus) == []
    assert fired(overrides, overriding("1", "x", "stepwet"), entry("1", model=computing("x", 1))) == []


def test_an_override_into_a_law_that_is_not_there_is_only_recorded() -> None:
    assert fired(overrides, overriding("2.1"), corpus=Corpus()) == [("outside-corpus", "9")]


def with_unit(name: str, unit: str | None) -> Tree:
    return {"name": name, "type": "amount", **({"type_spec": {"unit": unit}} if unit else {})}


@pytest.mark.parametrize(
    ("here", "there", "found"), [("euro", "eurocent", 1), ("euro", "euro", 0), (None, "euro", 0), ("euro", None, 0)]
)
def test_units_on_both_sides_of_a_binding_must_agree(here: str | None, there: str | None, found: int) -> None:
    source = {"source": {"regulation": "wegenregeling", "output": "y"}}
    taking = entry("2", model={"execution": {"input": [with_unit("y", here) | source]}})
    giving = {"execution": {"output": [with_unit("y", there)], "actions": [{"output": "y", "value": 1}]}}
    assert fired(units, taking, corpus=Corpus(other(entry("1", model=giving)))) == [("unit", "2")] * found


def promising(description: str) -> Tree:
    output = {"name": "y", "type": "number", "description": description}
    return entry("1", model={"execution": {"output": [output], "actions": [{"output": "y", "value": 1}]}})


def test_a_description_that_promises_use_by_an_article_is_held_to_it() -> None:
    idle = entry("3.a", model=computing("x", 1))
    using = entry("3.a", model=computing("x", 1, input=[bound("z", {"output": "y"})]))
    assert fired(promises, promising("wordt gebruikt in artikel 3"), idle) == [("promise", "1")]
    assert fired(promises, promising("wordt gebruikt in artikel 3"), using) == []
    assert fired(promises, promising("volgt uit artikel 3"), idle) == []
    assert fired(promises, promising("gebruikt in artikel 3 van de Wegenwet"), idle) == []


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"name": "Stepwet"}, 0),
        ({"name": "Fietswet"}, 1),
        ({"officiele_titel": "x"}, 1),
        ([{"property": "name", "value": "Fietswet"}], 1),
        (["name"], 0),
        (["eli"], 1),
        (None, 0),
    ],
)
def test_what_an_entry_declares_must_be_what_the_header_says(declared: Any, found: int) -> None:
    told = fired(declarations, entry("8", model={"declares": declared}), header={"name": "Stepwet"})
    assert told == [("declares", "8")] * found


# --- contradiction, target, open-term, flag-only, unproduced, reach --------------------------------------------------


@pytest.mark.parametrize(
    ("target", "check"),
    [
        (["x"], "contradiction"),
        (["onbekend"], "target"),
        ("$onbekend.deel", "target"),
        (["y"], None),
        ([], None),
        (5, None),
    ],
)
def test_the_target_of_a_marking_is_declared_and_not_computed(target: Any, check: str | None) -> None:
    model = computing("x", 1, parameters=[{"name": "y", "type": "number"}])
    model["markings"] = [{"about": "z", "target": target}]
    assert fired(targets, entry("2", model=model)) == ([(check, "2")] if check else [])


def test_an_open_term_must_say_who_fills_it_in_the_keys_of_its_version() -> None:
    def with_term(**more: Any) -> Tree:
        return entry("2", model={"open_terms": [{"id": "prijs", "type": "amount", **more}]})

    assert fired(open_terms, with_term(description="later")) == [("open-term", "2")]
    assert fired(open_terms, with_term(delegated_to="gemeenteraad")) == []
    assert fired(open_terms, with_term(legal_basis="artikel 2")) == []
    newer = law(with_term(legal_basis="artikel 2"), version="v0.6.0")
    assert "decided_per_case_by" in findings(open_terms, newer)[0].detail
    assert findings(open_terms, law(with_term(decided_per_case_by="college"), version="v0.6.0")) == []


GAP = {"construct": "redelijk", "reason": "wat redelijk is, is een oordeel van mensen"}


@pytest.mark.parametrize("flags", [{"untranslatables": [GAP]}, {"open_terms": [{"id": "x"}]}, {"markings": [GAP]}])
def test_a_model_that_is_only_a_flag_is_found(flags: Tree) -> None:
    assert fired(flags_only, entry("2", model=flags)) == [("flag-only", "2")]
    assert fired(flags_only, entry("2", model={**flags, "execution": {"parameters": [{"name": "x"}]}})) == [
        ("flag-only", "2")
    ]


@pytest.mark.parametrize("logic", [computing("x", 1), {"definitions": {"a": "b"}}, {"implements": [{"law": "x"}]}])
def test_logic_beside_a_flag_is_enough(logic: Tree) -> None:
    assert fired(flags_only, entry("2", model={"untranslatables": [GAP], **logic})) == []
    assert fired(flags_only, entry("2", model={})) == []


def test_outputs_that_nothing_computes_are_found() -> None:
    declared = {"execution": {"output": [{"name": "x", "type": "number"}]}}
    assert fired(unproduced, entry("2", model=declared)) == [("unproduced", "2")]
    assert fired(unproduced, entry("2", model={**declared, "open_terms": [{"id": "x"}]})) == []
    assert fired(unproduced, entry("2", model=computing("x", 1))) == []


REACHING = "In deze wet en de daarop berustende bepalingen wordt verstaan onder step: een plank."


def test_definitions_that_reach_further_are_quoted_as_a_gap() -> None:
    model = {"definitions": {"step": "een plank"}}
    assert fired(reach, entry("1", REACHING, model)) == [("reach", "1")]
    gap = {"legal_text_excerpt": "deze wet en de daarop\n  berustende bepalingen"}
    assert fired(reach, entry("1", REACHING, {**model, "untranslatables": [gap]})) == []
    assert fired(reach, entry("1", REACHING)) == []
    assert fired(reach, entry("1", "In deze wet wordt verstaan onder step: een plank.", model)) == []


# --- placement -------------------------------------------------------------------------------------------------------


def test_a_source_under_a_parameter_is_found() -> None:
    parameter = {"name": "y", "type": "number"}
    assert fired(placements, entry("2", model=computing("x", 1, parameters=[{**parameter, "source": {}}]))) == [
        ("placement", "2")
    ]
    assert fired(placements, entry("2", model=computing("x", 1, parameters=[parameter]))) == []


@pytest.mark.parametrize(
    ("source", "description", "found"),
    [
        ({}, "inkomen volgens de Wet inkomstenbelasting 2001", 1),
        ({"description": "uit de Zorgverzekeringswet"}, "", 1),
        ({"regulation": "wegenregeling", "output": "y"}, "uit de Wegenregeling", 0),
        ({}, "opgegeven door de aanvrager in deze wet", 0),
    ],
)
def test_a_law_that_only_the_description_names_is_found(source: Tree, description: str, found: int) -> None:
    model = computing("x", 1, input=[bound("y", source, description=description)])
    assert fired(placements, entry("2", model=model)) == [("placement", "2")] * found
