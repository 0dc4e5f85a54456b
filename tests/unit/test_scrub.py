"""Whatever an agent prints fits into the database afterwards (DB-09)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.scrub import MAX_DOCUMENT_BYTES, MAX_STRING_BYTES, payload_to_json, scrub, scrub_text, to_json

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=50),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(codec=None), max_size=10), inner, max_size=5)
    ),
    max_leaves=30,
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [("a\x00b", "a\ufffdb"), ("\ud800x", "\ufffdx"), ("\udfff", "\ufffd"), ("é✓😀", "é✓😀"), ("", "")],
)
def test_nul_and_lone_surrogates_become_the_replacement_character(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


def test_a_long_text_is_cut_at_a_character_border() -> None:
    cut = scrub_text("é" * 10_000, 1_001)
    assert len(cut.encode()) <= 1_001
    assert cut.rstrip("…") == "é" * 499
    assert scrub_text("x" * 1_001, 1_001) == "x" * 1_001


@given(anything)
def test_every_value_becomes_json_that_postgresql_takes(value: Any) -> None:
    text = to_json({"it": value})
    assert text is not None
    assert "\\u0000" not in text
    text.encode()  # no lone surrogate
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@given(anything)
def test_scrubbing_twice_changes_nothing_more(value: Any) -> None:
    once = scrub(value)
    assert scrub(once) == once


@given(st.lists(st.text(max_size=2_000), max_size=400), st.integers(0, 50_000))
def test_a_document_stays_within_its_limit_and_says_that_it_was_cut(lines: list[str], limit: int) -> None:
    document = scrub({"error": "e", "kind": "k", "lines": lines, "more": {"x": 1}}, max_document_bytes=limit)
    assert len(json.dumps(document, ensure_ascii=False).encode()) <= limit + 200
    if document.get("lines") != lines:
        assert limit < 50_000 or len(str(lines)) > limit


def test_the_words_that_say_what_happened_survive_a_flood() -> None:
    flood = [["x" * 5_000] * 50] * 50
    document = scrub({"lines": flood, "error": "disk full", "kind": "transient"})
    assert (document["error"], document["kind"]) == ("disk full", "transient")
    assert len(json.dumps(document)) < MAX_DOCUMENT_BYTES + 200
    assert document != {"lines": flood, "error": "disk full", "kind": "transient"}


def test_a_cut_object_says_so() -> None:
    document = scrub({"a": ["x" * 100] * 10, "b": ["y" * 100] * 10}, max_document_bytes=500)
    assert document["truncated"] is True


def test_a_string_within_a_result_is_cut_and_a_payload_is_not() -> None:
    long = "x" * 50_000
    assert len(json.loads(to_json({"error": long}) or "")["error"].encode()) <= MAX_STRING_BYTES
    assert json.loads(payload_to_json({"note": long}) or "") == {"note": long}


def test_values_that_json_does_not_know_become_text() -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    value = {"id": UUID(int=1), "at": moment, "n": float("inf"), "big": 10**2000, 5: {"a"}, "t": (1, 2)}
    assert json.loads(to_json(value) or "") == {
        "id": str(UUID(int=1)),
        "at": str(moment),
        "n": "inf",
        "big": f"a number of {(10**2000).bit_length()} bits",
        "5": ["a"],
        "t": [1, 2],
    }


def test_nothing_is_null_in_sql_and_not_in_json() -> None:
    assert to_json(None) is payload_to_json(None) is None


def test_a_document_deeper_than_any_reader_likes_is_flattened_at_its_bottom() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert "…" in (to_json({"deep": deep}) or "")
