"""The mechanical half of the closing pass: what it binds, what it refuses, and that nothing else of the file moves."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.gates.reading import LawReading, Surroundings
from protocols.gates.reconcile import Counts, Reconciled, keeps, leads, reconcile
from protocols.gates.table import measure
from protocols.lawtree import Tree, read_tree
from tests.unit.gates.laws import computing, entry, law, schema_url, source

AROUND = Surroundings()

LAW = f"""\
$schema: {schema_url()}
$id: stepwet
regulatory_layer: WET
publication_date: '2024-01-02'
bwb_id: BWBR0099007
url: https://example.org/w
articles:
  - number: '1'
    text: De prijs is het tarief.
    url: https://example.org/w#1
    machine_readable:
      execution:
        parameters:
          - name: bsn
            type: string
        # wat de één geeft …
        input:
          - name: tarief  # … neemt de ander
            type: number
            @SOURCE@
        output:
          - name: prijs
            type: number
        actions:
          - output: prijs
            value: $tarief
  - number: '2'
    text: Het tarief is 3.
    url: https://example.org/w#2
    machine_readable:
      execution:
        parameters:
          - {{name: bsn, type: string}}
        output:
          - {{name: tarief, type: number}}
        actions:
          - {{output: tarief, value: 3}}
"""
NO_SOURCE = LAW.replace("            @SOURCE@\n", "")
BOUND = "source: {output: tarief, parameters: {bsn: $bsn}}"


def worth(content: bytes) -> Counts | None:
    return measure(content, AROUND)


def reconciled(text: str) -> Reconciled:
    return reconcile(text.encode(), worth)


def test_an_input_without_a_source_is_bound_under_its_name_and_the_rest_stays_byte_for_byte() -> None:
    done = reconciled(NO_SOURCE)
    assert done.bound == ("tarief",)
    assert done.source.decode() == NO_SOURCE.replace("de ander\n", f"de ander\n            {BOUND}\n")


@pytest.mark.parametrize(
    "empty", ["source: {}", "source:", "source: null", "source: ~", "source: { }", "source :   {}"]
)
def test_an_empty_source_is_written_over(empty: str) -> None:
    done = reconciled(LAW.replace("@SOURCE@", empty))
    assert done.source.decode() == LAW.replace("@SOURCE@", BOUND)


def test_flow_style_line_ends_and_a_byte_order_mark_are_kept() -> None:
    flow = NO_SOURCE.replace(
        "          - name: tarief  # … neemt de ander\n            type: number\n",
        "          - {name: tarief, type: number}\n",
    )
    assert f"{{name: tarief, {BOUND}, type: number}}" in reconciled(flow).source.decode()
    windows = NO_SOURCE.replace("\n", "\r\n")
    assert reconciled(windows).source.decode() == windows.replace(
        "de ander\r\n", f"de ander\r\n            {BOUND}\r\n"
    )
    marked = reconcile(b"\xef\xbb\xbf" + NO_SOURCE.encode(), worth)
    assert marked.source == b"\xef\xbb\xbf" + reconciled(NO_SOURCE).source


@pytest.mark.parametrize("full", ["source: {output: x}", "source: {description: elders}", "source: {regulation: x}"])
def test_a_source_with_any_content_is_left_alone(full: str) -> None:
    text = LAW.replace("@SOURCE@", full)
    assert reconciled(text) == Reconciled(text.encode())


def test_a_connected_law_and_an_unreadable_one_are_left_alone() -> None:
    text = LAW.replace("@SOURCE@", BOUND)
    assert reconciled(text) == Reconciled(text.encode())
    assert reconciled("a: b: c\n") == Reconciled(b"a: b: c\n")


def test_nothing_is_written_without_improvement() -> None:
    assert reconcile(NO_SOURCE.encode(), lambda _: Counts(1, 1)) == Reconciled(NO_SOURCE.encode())
    rising = iter([Counts(1, 1), Counts(0, 2)])
    assert reconcile(NO_SOURCE.encode(), lambda _: next(rising)) == Reconciled(NO_SOURCE.encode())
    better = iter([Counts(1, 1), Counts(1, 0)])
    assert reconcile(NO_SOURCE.encode(), lambda _: next(better)).bound == ("tarief",)


# --- leads -----------------------------------------------------------------------------------------------------------


def taking(number: str, name: str, *parameters: str, value: Any = 1, output: str = "") -> Tree:
    execution: Tree = {"input": [{"name": name, "type": "number", "source": {}}]}
    if parameters:
        execution["parameters"] = [{"name": parameter, "type": "string"} for parameter in parameters]
    return entry(number, model=computing(output or f"x{number}", value, **execution))


def told(*entries: Tree) -> list[str]:
    return [str(found) for found in leads(LawReading(law(*entries), AROUND))]


def untouched(*entries: Tree) -> bool:
    content = source(law(*entries))
    return reconcile(content, worth).source == content


def test_two_producers_are_a_lead() -> None:
    entries = (taking("1", "y"), entry("2", model=computing("y", 1)), entry("3", model=computing("y", 2)))
    (found,) = told(*entries)
    assert found.startswith("[reconcile] art. 1: input y is an output of several entries (art. 2, 3)")
    assert untouched(*entries)


def test_a_parameter_that_cannot_be_given_is_a_lead_and_an_input_can_give_one() -> None:
    giving = entry("2", model=computing("y", 1, parameters=[{"name": "bsn", "type": "string"}]))
    (found,) = told(taking("1", "y"), giving)
    assert "needs bsn, and this entry has no such parameter or input" in found
    assert untouched(taking("1", "y"), giving)
    with_input = taking("1", "y")
    with_input["machine_readable"]["execution"]["input"].append(
        {"name": "bsn", "type": "string", "source": {"description": "x"}}
    )
    assert told(with_input, giving) == []
    assert not untouched(with_input, giving)


def test_a_circle_is_a_lead_and_is_never_written() -> None:
    entries = (taking("1", "y", output="x"), taking("2", "x", output="y"))
    content = source(law(*entries))
    assert reconcile(content, worth).bound == ("y",)
    (found,) = told(*entries)
    assert "depends on this entry" in found


def test_an_open_term_that_another_entry_gives_is_a_lead() -> None:
    term = entry("1", model={"open_terms": [{"id": "y", "type": "number", "delegated_to": "x"}]})
    (found,) = told(term, entry("2", model=computing("y", 1)))
    assert "open term y is now given as an output by art. 2" in found
    assert told(term, entry("2", model=computing("z", 1))) == []


def test_a_name_that_yaml_would_misread_is_a_lead() -> None:
    entries = (taking("1", "no"), entry("2", model=computing("no", 1)))
    assert len(told(*entries)) == 1
    assert untouched(*entries)


def test_an_input_of_the_same_name_as_an_own_output_is_no_lead() -> None:
    own = entry("1", model=computing("y", 1, input=[{"name": "y", "type": "number", "source": {}}]))
    assert told(own, entry("2", model=computing("y", 1))) == []


# --- the agent's half ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "kept"),
    [(Counts(1, 2), True), (Counts(1, 1), True), (Counts(2, 0), False), (Counts(0, 3), False), (None, False)],
)
def test_an_agents_closing_edit_stays_unless_it_made_something_worse(after: Counts | None, kept: bool) -> None:
    looks = {b"before": Counts(1, 2), b"after": after}
    assert keeps(b"before", b"after", looks.__getitem__) is kept


def test_an_edit_that_makes_an_unreadable_file_readable_stays() -> None:
    assert keeps(b"a: b: c", source(law()), worth)


def test_what_was_bound_reads_as_a_binding() -> None:
    tree = read_tree(reconciled(NO_SOURCE).source)
    (bound,) = tree["articles"][0]["machine_readable"]["execution"]["input"]
    assert bound["source"] == {"output": "tarief", "parameters": {"bsn": "$bsn"}}
