"""Files made to harm the reader, or whoever walks through what it read: refused small, before they are large."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.gates.schema_gate import schema_findings
from protocols.lawschema import shipped_schemas
from protocols.lawyaml import UnreadableLaw, load_law, load_yaml

PLAIN = (type(None), bool, int, float, str, list, dict)
NAMES = "bcdefghij"

FLOW_BOMB = "".join(['{"a":&a [x,x,x,x,x,x,x,x,x]'] + [
    f',"{name}":&{name} [' + ",".join([f"*{before}"] * 9) + "]"
    for before, name in zip("a" + NAMES, NAMES, strict=False)
]) + "}"  # fmt: skip
BLOCK_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("a" + NAMES, NAMES, strict=False)
)
TAGGED_BOMB = BLOCK_BOMB.replace(": &", ": !!seq &")
MAPPED_BOMB = BLOCK_BOMB.replace("&a [x", "&a [{k: x}, x")
KEYED_BOMB = "{" + FLOW_BOMB[1:-1].replace('":&', '" :&') + "}"
BOMBS = (FLOW_BOMB, BLOCK_BOMB, TAGGED_BOMB, MAPPED_BOMB, KEYED_BOMB, f"articles: [{{machine_readable: {FLOW_BOMB}}}]")


def size_of(value: Any, open_ones: tuple[int, ...] = ()) -> int:
    """Values and keys with everything written out; fails for a value of another type or one that stands in itself."""
    assert type(value) in PLAIN
    assert id(value) not in open_ones or not isinstance(value, list | dict)
    inner = (*open_ones, id(value))
    if isinstance(value, list):
        return 1 + sum(size_of(item, inner) for item in value)
    if isinstance(value, dict):
        return 1 + sum(size_of(key, inner) + size_of(item, inner) for key, item in value.items())
    return 1


def levels_of(value: Any) -> int:
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + max(map(levels_of, parts), default=0) if isinstance(value, list | dict) else 0


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_an_alias_bomb_is_refused_wherever_its_anchors_stand(bomb: str, encoding: str) -> None:
    assert len(bomb) < 1000
    with pytest.raises(UnreadableLaw, match=r"values and keys"):
        load_yaml(bomb.encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_no_other_encoding_is_read_whatever_its_first_bytes_say(encoding: str) -> None:
    with pytest.raises(UnreadableLaw, match="not readable"):
        load_yaml(f"é: {FLOW_BOMB}".encode(encoding))
    with pytest.raises(UnreadableLaw, match="not readable as UTF-8: byte 0"):
        load_law("a: 1".encode("utf-16"))


@pytest.mark.parametrize(
    "cycle",
    [
        '{"a":&a {"b":*a}}',
        '{"a":&a [*a]}',
        "&a {b: *a}",
        "a: !!map &a {b: [*a]}",
        "a: &a\n  - &b\n    - *a\n    - *b\n",
        "? &a [*a]\n: b",
    ],
)
def test_a_value_that_stands_in_itself_is_refused(cycle: str) -> None:
    with pytest.raises(UnreadableLaw, match="stands in"):
        load_yaml(cycle)


def test_levels_that_aliases_bring_count_too() -> None:
    deep = "a0: &a0 " + "[" * 90 + "x" + "]" * 90 + "\n"
    deep += "".join(f"a{n}: &a{n} " + "[" * 90 + f"*a{n - 1}" + "]" * 90 + "\n" for n in range(1, 20))
    with pytest.raises(UnreadableLaw, match="nested more than 1000"):
        load_yaml(deep)


def test_a_file_of_nothing_but_small_values_is_refused_before_it_is_built() -> None:
    with pytest.raises(UnreadableLaw, match="more than 1000000 values"):
        load_yaml(b"a: [" + b"[]," * 1_000_100 + b"]")


@pytest.mark.parametrize(
    "text",
    [
        "!!bool x", "!!bool yes", "!!bool ''", "!!null x", "!!int ''", "!!int 0b11", "!!int 1:30", "!!int 1_000",
        "!!float ''", "!!float '.'", "!!float 1:30.5", "!!float x", "!!timestamp x", "!!timestamp 2024-01-01",
        "!!timestamp 2024-13-41", "!!binary aGFsbG8=", "!!binary é", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]",
        "!!omap x", "!!pairs {a: 1}", "!!set [a]", "!!map [a]", "!!map x", "!!seq {a: 1}", "!!seq x", "!!str [a]",
        "!!str {a: b}", "!!merge x", "!!value x", "!eigen x", "!<tag:example.org,2024:x> x", "!!python/name:os.system ''",
        "!!int [1]", "!!float {a: 1}", "!!null [a]", "!!bool {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["a: {}\n", "[{}]", "{}", "a: {{b: [{}]}}"])
def test_a_tag_that_makes_anything_else_or_does_not_fit_is_refused(text: str, place: str) -> None:
    with pytest.raises(UnreadableLaw):
        load_yaml(place.format(text))


def test_tags_of_the_core_types_that_fit_are_read() -> None:
    text = "a: !!str 5\nb: !!int '5'\nc: !!float 5\nd: !!bool 'true'\ne: !!null ''\nf: !!seq [1]\ng: !!map {a: 1}\n"
    assert load_law(text) == {"a": "5", "b": 5, "c": 5.0, "d": True, "e": None, "f": [1], "g": {"a": 1}}
    assert isinstance(load_law(text)["c"], float)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1, 10**18])
def test_whole_numbers_of_64_bits_are_read_in_every_notation(number: int) -> None:
    assert load_law(f"a: {number}") == {"a": number}
    if number > 0:
        assert load_law(f"a: {hex(number)}\nb: {oct(number)}\nc: {number:+030}") == dict.fromkeys("abc", number)


@pytest.mark.parametrize(
    "number",
    [str(2**63), str(-(2**63) - 1), hex(2**63), oct(2**63), "0x" + "f" * 5000, "0o" + "7" * 9000, "9" * 4000,
     "-" + "9" * 5000, "0" * 5000 + "1", "!!int '0x" + "f" * 5000 + "'"],
)  # fmt: skip
def test_larger_ones_are_refused_as_value_and_as_key(number: str) -> None:
    for text in (f"a: {number}", f"a: {{? {number} : 1}}", f"? {number}\n: 1"):
        with pytest.raises(UnreadableLaw, match="64 bits"):
            load_law(text)
    (finding,) = schema_findings(f"a:\n  machine_readable: {number}\n".encode(), shipped_schemas())
    assert "64 bits" in finding.detail


def test_texts_that_older_readers_take_for_numbers_stay_texts() -> None:
    ones = "1" * 5000
    assert load_law(f"a: 0b{ones}\nb: 1:{ones}\nc: 1_{ones}") == {"a": f"0b{ones}", "b": f"1:{ones}", "c": f"1_{ones}"}


@pytest.mark.parametrize("text", ["{0}: 1\n{0}: 2", "a: !{0} x", "a: *{0}", "? [a]\n: {0}", "{0}: [", "a: &{0} [*{0}]"])
def test_a_message_is_short_whatever_the_file_holds(text: str) -> None:
    with pytest.raises(UnreadableLaw) as caught:
        load_law(text.format("x" * 900))
    assert len(str(caught.value)) < 400


PIECES = st.sampled_from(
    ["a", "b", "x", "&a ", "*a", "&b ", "*b", "[", "]", "{", "}", ",", ": ", ":", "? ", "- ", "\n", "\n  ", "\n- ", '"',
     "'", "!", "!!bool ", "!!int ", "!!float ", "!!null ", "!!set ", "!!timestamp ", "!!str ", "!!map ", "!!omap ",
     "!!binary ", "0x", "9" * 30, ".", "~", "true", "1", "-", "|\n", ">-\n", "#", "---\n", "...\n", "%YAML 1.1\n", "<<",
     "=", "\t", "\ufeff", "\0", "\x85", "é", '"k":&a ', "*a,*a,*a,*a"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(1, 30), st.integers(1, 6))
@example('{"a":&a [b,b],"c":[*a,*a,*a,*a]}', 10, 6)
@example("[a: b, c: d, : , ? e]", 7, 6)
def test_whatever_is_read_is_plain_and_no_larger_than_asked_for(text: str, nodes: int, levels: int) -> None:
    for source in (text, text.encode(), text.encode("utf-16")):
        for limits in ({}, {"max_nodes": nodes}, {"max_nodes": nodes, "max_nesting": levels}):
            try:
                value = load_yaml(source, **limits)
            except UnreadableLaw:
                continue
            assert size_of(value) <= limits.get("max_nodes", 1_000_000)
            assert levels_of(value) <= limits.get("max_nesting", 1000)
            json.dumps(value, default=str, skipkeys=True)


@given(st.binary(max_size=60))
def test_bytes_are_read_or_refused_and_nothing_else(content: bytes) -> None:
    with suppress(UnreadableLaw):
        load_law(content)
