"""The law schema that ships with the product, and the ones that may replace it (D57)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest

from protocols.lawschema import (
    VERSIONS,
    UnusableLawSchema,
    operation_names,
    schemas_of,
    shipped,
    shipped_schemas,
    version_of,
)
from protocols.lawschema.discriminate import discriminated
from protocols.lawtree import Tree, operation_name, read_tree, walk
from tests.kit import shared
from tests.unit.gates.laws import FIXTURE, computing, entry, law, schema_url
from tests.unit.gates.mutations import mutations

DATE_DIFF = {"operation": "DATE_DIFF", "from": "$a", "to": "$b", "in": "days"}
ROUND = {"operation": "ROUND", "value": 1.5, "precision": 0}


def is_valid(tree: Tree, version: str = "v0.5.6") -> bool:
    validator = shipped_schemas().validator(version)
    assert validator is not None
    return validator.is_valid(tree)


def whole_law(version: str) -> Tree:
    """The fixture in which everything occurs, without what ``version`` does not know yet."""
    tree = read_tree(FIXTURE.read_bytes())
    known = operation_names(version)
    for _, value in walk(tree):
        if isinstance(value, dict) and operation_name(value) and operation_name(value) not in known:
            name = value.pop("operation")
            if name == "DATE_DIFF":
                value.clear()
                value.update({"operation": "DAY_OF_WEEK", "date": "$dag"})
            elif "output" in value:
                del value["precision"]
            else:
                value.clear()
                value.update({"operation": "MIN", "values": [1]})
    return tree


def test_five_versions_ship() -> None:
    assert VERSIONS == ("v0.5.2", "v0.5.3", "v0.5.4", "v0.5.5", "v0.5.6")
    assert shipped_schemas().versions == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_law_with_everything_in_it_is_valid(version: str) -> None:
    validator = shipped_schemas().validator(version)
    assert validator is not None
    assert [str(error) for error in validator.iter_errors(whole_law(version))] == []


def test_the_fixture_has_every_operation_and_every_key_of_a_model() -> None:
    tree = read_tree(FIXTURE.read_bytes())
    assert {operation_name(value) for _, value in walk(tree)} - {""} == operation_names("v0.5.6")
    used = {key for article in tree["articles"] for key in article.get("machine_readable", {})}
    assert used == set(shipped()["v0.5.6"]["definitions"]["model"]["properties"])


@pytest.mark.parametrize(
    ("since", "change"),
    [
        ("v0.5.3", {"valid_to": "soon"}),
        ("v0.5.4", {"articles": [entry("1", model=computing("x", DATE_DIFF))]}),
        ("v0.5.5", {"articles": [entry("1", model=computing("x", ROUND))]}),
        ("v0.5.6", {"articles": [entry("1", model={"execution": {"output": [{"name": "x", "type": "number", "type_spec": {"unit": "ratio"}}]}})]}),
    ],
)  # fmt: skip
def test_what_a_version_brought_is_unknown_before_it(since: str, change: Tree) -> None:
    for version in VERSIONS:
        is_known = version >= since
        expected = not is_known if "valid_to" in change else is_known
        assert is_valid(law() | change, version) is expected, version


def test_a_precision_had_to_be_whole_from_v0_5_6_on() -> None:
    model = {"execution": {"output": [{"name": "x", "type": "number", "type_spec": {"precision": 1.5}}]}}
    tree = law(entry("1", model=model))
    assert [version for version in VERSIONS if is_valid(tree, version)] == list(VERSIONS[:-1])


@pytest.mark.parametrize(
    "change",
    [
        {"bwb_id": ...},
        {"regulatory_layer": "EU_RICHTLIJN"},
        {"regulatory_layer": "VERDRAG"},
        {"regulatory_layer": "GEMEENTELIJKE_VERORDENING", "officiele_titel": "x"},
        {"regulatory_layer": "PROVINCIALE_VERORDENING", "provincie_code": "PV01"},
        {"regulatory_layer": "WATERSCHAPS_VERORDENING", "waterschap_code": "WS1", "officiele_titel": "x"},
        {"regulatory_layer": "KEUR"},
        {"publication_date": "2024-1-2"},
        {"valid_from": "#"},
        {"url": "no address"},
        {"bwb_id": "BWBV0000001"},
        {"articles": [entry("1", model=None)]},
        {"articles": [entry("1", model={"markings": []})]},
        {"articles": [entry("1", note="x")]},
        {"articles": [entry("1", model=computing("x", {"operation": "NOT_EQUALS", "subject": 1, "value": 2}))]},
        {"articles": [entry("1", model=computing("x", {"operation": "IF", "when": True, "then": 1, "else": 2}))]},
        {"articles": [entry("1", model=computing("x", "$not a name"))]},
        {"articles": [entry("1", model=computing("x", [1]))]},
        {"articles": [entry("1", model=computing("x", 1, input=[{"name": "y", "type": "number"}]))]},
        {"articles": [entry("1", model={"execution": {"actions": [{"output": "x", "operation": "ROUND", "value": 1}]}})]},
        {"articles": [entry("1", model={"execution": {"actions": [{"output": "x", "subject": 1}]}})]},
    ],
)  # fmt: skip
def test_one_fault_makes_a_law_invalid(change: Tree) -> None:
    assert is_valid(law())
    spoiled = {key: value for key, value in (law() | change).items() if value is not ...}
    assert not is_valid(spoiled)


@pytest.mark.parametrize(
    "value", ["", "tekst", "\n$x", 1, 2.5, True, None, "$a", "$a.b.c", {"operation": "LIST", "items": []}]
)
def test_constants_names_and_operations_are_values(value: Any) -> None:
    assert is_valid(law(entry("1", model=computing("x", value))))


def test_the_version_is_a_whole_segment_of_the_schema_address() -> None:
    assert version_of({"$schema": schema_url("v0.5.1")}) == "v0.5.1"
    assert version_of({"$schema": schema_url("v0.5.10")}) == "v0.5.10"
    assert version_of({"$schema": "v0.5.6"}) is None
    assert version_of({"$schema": 5}) is None
    assert version_of({}) is None


# D57: the same verdict as the published schema, on real laws and on everything that is one step away from them.
@pytest.mark.parametrize("version", VERSIONS)
def test_our_schema_gives_the_same_verdicts_as_the_published_one(version: str) -> None:
    published = jsonschema_rs.Draft7Validator(
        json.loads(shared.path(f"data/law-schema/{version}.json").read_bytes()), validate_formats=True
    )
    files = sorted(shared.path("data/law-schema/examples").glob("*.yaml"))
    examples = [read_tree(path.read_bytes()) for path in files]
    for tree in examples:
        assert is_valid(tree, version) is published.is_valid(tree)
    newest = version == VERSIONS[-1]
    tried = [0, 0]
    for tree in [whole_law(version), *(examples if newest else [])]:
        for change in mutations(tree):
            verdict = published.is_valid(tree)
            tried[verdict] += 1
            assert is_valid(tree, version) is verdict, change
    assert min(tried) > 500


def test_a_published_schema_gives_the_same_verdicts_when_it_is_made_fast() -> None:
    published = json.loads(shared.path("data/law-schema/v0.5.6.json").read_bytes())
    before = deepcopy(published)
    slow = jsonschema_rs.Draft7Validator(published, validate_formats=True)
    fast = jsonschema_rs.Draft7Validator(discriminated(published), validate_formats=True)
    assert published == before
    tree = whole_law("v0.5.6")
    for change in mutations(tree):
        assert fast.is_valid(tree) is slow.is_valid(tree), change


# A validator that tries every kind of operation at every level needs 12 times as long per level.
def test_a_fault_far_inside_is_found_at_once_and_reported_once() -> None:
    schemas = schemas_of({"v0.5.6.json": json.dumps(oneof_schema()).encode()})
    nested: Tree = {"operation": "NOT"}
    for _ in range(40):
        nested = {"operation": "NOT", "value": nested}
    for known in (schemas, shipped_schemas()):
        validator = known.validator("v0.5.6")
        assert validator is not None
        assert len(list(validator.iter_errors(law(entry("1", model=computing("x", nested)))))) == 1


def oneof_schema() -> Tree:
    """A schema of the published shape, with two kinds of operation."""
    value = {"$ref": "#/definitions/value"}
    kinds: dict[str, Tree] = {
        "not": {"operation": {"const": "NOT"}, "value": value},
        "sum": {"operation": {"enum": ["ADD", "SUBTRACT"]}, "values": {"type": "array", "items": value}},
    }
    definitions: Tree = {
        name: {
            "type": "object",
            "required": list(properties),
            "properties": properties,
            "additionalProperties": False,
        }
        for name, properties in kinds.items()
    }
    definitions["operation"] = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in kinds]}
    definitions["value"] = {"oneOf": [{"type": ["number", "string"]}, {"$ref": "#/definitions/operation"}]}
    action = {"type": "object", "properties": {"value": value}}
    path: Tree = action
    for key in ("actions", "execution", "machine_readable", "articles"):
        path = {
            "type": "object",
            "properties": {key: {"type": "array", "items": path} if key in ("actions", "articles") else path},
        }
    return {"$schema": "http://json-schema.org/draft-07/schema#", **path, "definitions": definitions}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "holds no schema"),
        ({"README.md": b"{}"}, "holds no schema"),
        ({"v0.5.6.json": b"{"}, "v0.5.6.json is not JSON"),
        ({"v0.5.6.json": b"[]"}, "must be a JSON object"),
        ({"v0.5.6.json": b'{"type": "nothing"}'}, "v0.5.6 cannot be used"),
        ({"v0.5.6.json": b'{"$ref": "http://127.0.0.1:9/x.json"}'}, "not among the schemas here"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_name(files: dict[str, bytes], told: str) -> None:
    with pytest.raises(UnusableLawSchema, match=told):
        schemas_of(files)


def test_schemas_from_files_replace_the_shipped_ones_and_may_refer_to_each_other() -> None:
    day = {"$id": "urn:days", "type": "object", "required": ["day"]}
    schemas = schemas_of({"v0.5.0/schema.json": json.dumps(day).encode(), "v0.7.1.json": b'{"$ref": "urn:days"}'})
    assert schemas.versions == ("v0.5.0", "v0.7.1")
    validator = schemas.validator("v0.7.1")
    assert validator is not None
    assert validator.is_valid({"day": 1})
    assert not validator.is_valid({})
    assert schemas.validator("v0.5.6") is None
