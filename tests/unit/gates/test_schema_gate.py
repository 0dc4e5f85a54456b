"""What the schema gate says of a file: nothing, one fault of the YAML, or every breach with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocols.gates.findings import MOST_FINDINGS, bullets
from protocols.gates.schema_gate import schema_findings, tree_findings
from protocols.lawschema import operation_names, schemas_of, shipped_schemas, version_of
from protocols.lawtree import MOST_NESTING, Tree, read_tree
from tests.kit import shared
from tests.unit.gates.laws import FIXTURE, computing, entry, law, source
from tests.unit.gates.test_law_schema import oneof_schema

ACTION = "articles/0/machine_readable/execution/actions/0"


def told(tree: Tree) -> list[str]:
    return [str(found) for found in tree_findings(tree, shipped_schemas())]


def told_of(text: str | bytes) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return [str(found) for found in schema_findings(content, shipped_schemas())]


def test_a_valid_law_has_no_findings() -> None:
    assert told_of(FIXTURE.read_bytes()) == []
    assert told_of(source(law())) == []


def test_every_breach_is_told_with_its_path_in_document_order() -> None:
    tree = law(*(entry(str(number)) for number in range(12)), publication_date="soon")
    tree["articles"][2]["text"] = 5
    del tree["articles"][10]["url"]
    tree["articles"][10]["note"] = "x"
    assert told(tree) == [
        "articles/2/text: 5 is not of type string",
        "articles/10: no such key here: note",
        "articles/10: the key url is missing",
        'publication_date: "soon" does not match ^[0-9]{4}-[0-9]{2}-[0-9]{2}$',
    ]


def test_a_missing_key_at_the_top_has_the_document_as_its_place() -> None:
    tree = law()
    del tree["bwb_id"]
    assert told(tree) == ["(root): the key bwb_id is missing"]


def test_an_enumeration_is_told_whole() -> None:
    tree = law(entry("1", model=computing("x", {"operation": "CONCAT", "values": []})))
    (found,) = told(tree)
    assert found.startswith(f'{ACTION}/value/operation: "CONCAT" is not one of "ADD", "SUBTRACT", ')
    assert found.count('"') == 2 + 2 * 25


def test_a_fault_inside_an_operation_is_told_where_it_is() -> None:
    inner = {"operation": "DATE_DIFF", "from": "$a", "to": "$b", "in": "weeks"}
    nested = {"operation": "IF", "cases": [{"when": {"operation": "NOT", "value": inner}, "then": 1}]}
    (found,) = told(law(entry("1", model=computing("x", nested))))
    assert found.startswith(f'{ACTION}/value/cases/0/when/value/in: "weeks" does not match')


def test_removed_operations_and_old_forms_are_breaches() -> None:
    for gone in ("NOT_EQUALS", "IS_NULL", "SUBTRACT_DATE", "CONCAT", "FOREACH", "SWITCH"):
        assert len(told(law(entry("1", model=computing("x", {"operation": gone}))))) == 1
    old_if = {"operation": "IF", "when": True, "then": 1, "else": 2}
    assert told(law(entry("1", model=computing("x", old_if)))) == [
        f"{ACTION}/value: no such key here: else, then, when",
        f"{ACTION}/value: the key cases is missing",
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"$schema": "https://x/schema/v0.5.7/schema.json"}, "v0.5.7"),
        ({"$schema": "https://x/schema/v0.4.0/schema.json"}, "v0.4.0"),
        ({"$schema": "free text"}, "free text"),
        ({"$schema": 5}, "nothing"),
    ],
)
def test_a_version_that_is_not_here_is_the_one_finding(change: Tree, named: str) -> None:
    tree = law(entry("1", note="a breach")) | change
    assert told(tree) == [f"$schema: names {named}; the versions known here are v0.5.2, v0.5.3, v0.5.4, v0.5.5, v0.5.6"]


@pytest.mark.parametrize("version", ["v0.5.0", "v0.5.1"])
def test_an_early_release_is_read_by_the_oldest_known_one_of_its_series(version: str) -> None:
    # the header is not the agent's (D41): otherwise no law of that release could ever pass
    header = {"$schema": f"https://x/schema/{version}/schema.json"}
    assert told(law(entry("1")) | header) == []
    rounding = law(entry("1", model=computing("x", {"operation": "ROUND", "value": 1}))) | header
    assert told(rounding)[0].startswith(f'{ACTION}/value/operation: "ROUND" is not one of')
    assert "ROUND" not in operation_names(version)


def test_the_public_laws_of_early_releases_pass_the_gate() -> None:
    files = sorted(shared.path("data/law-schema/examples").glob("*.yaml"))
    early = {path.name: read_tree(path.read_bytes()) for path in files}
    early = {name: tree for name, tree in early.items() if version_of(tree) in {"v0.5.0", "v0.5.1"}}
    assert len(early) > 5
    for name, tree in early.items():
        assert told(tree) == [], name


def test_a_value_is_never_told_at_length() -> None:
    (found,) = told(law(entry("1", "x" * 5000) | {"text": ["x" * 5000]}))
    assert len(found) < 200


def test_sixty_findings_are_put_to_the_agent_and_the_rest_is_counted() -> None:
    findings = tree_findings(law(*(entry(str(number), note=1) for number in range(75))), shipped_schemas())
    lines = bullets(findings).split("\n")
    assert len(findings) == 75
    assert len(lines) == MOST_FINDINGS + 1
    assert lines[0] == "- articles/0: no such key here: note"
    assert lines[-1].startswith("- and 15 more")


# --- schemas of the published shape: "one of these" ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"operation": "NOT", "value": {"operation": "ADD"}}, "value/value: the key values is missing"),
        (
            {"operation": "ADD", "values": [1, True]},
            "value/values/1: true fits none of the forms that are allowed here",
        ),
        ({"operation": "MAX", "values": []}, 'value/operation: "MAX" is not one of "NOT", "ADD", "SUBTRACT"'),
        ({"values": [1]}, "value: the key operation is missing"),
        ([], "value: [] fits none of the forms that are allowed here"),
    ],
)
def test_of_one_of_these_the_branch_that_was_meant_is_told(value: Any, expected: str) -> None:
    schemas = schemas_of({"v0.5.6.json": json.dumps(oneof_schema()).encode()})
    found = tree_findings(law(entry("1", model=computing("x", value))), schemas)
    assert [str(finding).removeprefix(f"{ACTION}/") for finding in found] == [expected]


# --- files that cannot be read ---------------------------------------------------------------------------------------

HEAD = "$schema: x\n"


# EN-01: output that does not parse is one clear finding, never an empty list that looks like success.
@pytest.mark.parametrize(
    ("text", "line", "repaired"),
    [
        ("name: Wet: de step\n", "name: Wet: de step", "name: 'Wet: de step'"),
        ("name: @step\n", "name: @step", "name: '@step'"),
        ("name: 'it's here'\n", "name: 'it's here'", "name: 'it''s here'"),
        ('name: @a "step"\n', 'name: @a "step"', "name: '@a \"step\"'"),
        ('name: "step\n', 'name: "step', "name: 'step'"),
        ("a:\n  - `x`\n", "  - `x`", "  - '`x`'"),
        ("a:\n\tb: 1\n", "\tb: 1", "  b: 1"),
    ],
)
def test_a_line_that_is_no_yaml_is_quoted_with_a_repair_that_works(text: str, line: str, repaired: str) -> None:
    (found,) = told_of(HEAD + text)
    assert f"reads: {line}\n" in found
    assert f"It can read: {repaired}\n" in found
    assert "do not delete the line" in found
    assert told_of((HEAD + text).replace(line, repaired))[0].startswith("$schema: ")


def test_a_key_that_stands_twice_is_told_without_a_false_repair() -> None:
    (found,) = told_of(HEAD + "name: a\nname: b\n")
    assert "found the key 'name' twice in line 3" in found
    assert "Line 3 reads: name: b" in found
    assert "It can read" not in found


def test_the_place_is_the_readers_own_not_one_that_the_file_talks_of() -> None:
    (found,) = told_of(HEAD + "'x in line 1, column 1': a\n'x in line 1, column 1': b\n")
    assert "Line 3 reads" in found


def test_a_file_without_a_place_for_its_fault_is_told_as_a_whole() -> None:
    (found,) = told_of(b"- a\n- b\n")
    assert "a law file is a mapping" in found
    assert "do not delete" in found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:\n  1: x\n", "at a: the key 1 is no text"),
        ("a: !!binary aGFsbG8=\n", "the tag 'tag:yaml.org,2002:binary' in line 2"),
        ("a: !!timestamp 2024-01-01\n", "the tag 'tag:yaml.org,2002:timestamp' in line 2"),
        ("a: 123456789012345678901234567890\n", "more than 64 bits in line 2"),
        ("a: 0x" + "f" * 5000 + "\n", "more than 64 bits in line 2"),
        ("a: " + "[" * (MOST_NESTING + 5) + "]" * (MOST_NESTING + 5) + "\n", "nested more than 120 levels"),
    ],
)
def test_what_no_validator_should_see_is_a_finding(text: str, told: str) -> None:
    (found,) = told_of(HEAD + text)
    assert told in found


def test_numbers_beyond_all_limits_are_judged_like_others() -> None:
    assert told_of(source(law()) + b"big: 9223372036854775807\nnan: .nan\ninf: -.inf\n") == []
