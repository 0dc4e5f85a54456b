"""What an agent may write in its law file, its report: refused, or worked off in bounded time. Nothing else comes out."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols import compose as composing
from protocols.compose import compose
from protocols.envelope import merge_envelopes, read_envelope, without_report
from protocols.gates.reading import Surroundings
from protocols.gates.table import GATES, evaluate
from protocols.lawtree import MOST_NESTING, MOST_SECTION_VALUES, read_tree
from protocols.lawyaml import UnreadableLaw, load_law
from tests.unit.lawyaml.test_hostile import BOMBS, PIECES

BASE = b"$id: w\narticles:\n  - number: '1'\n    text: Tekst.\n    url: https://example.org/1\n"


def proposal(model: str) -> bytes:
    return BASE + f"    machine_readable: {model}\n".encode()


def in_flow(model: Any) -> bytes:
    return json.dumps({"$id": "w", "articles": [{"number": "1", "text": "Tekst.", "machine_readable": model}]}).encode()


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("bomb", [bomb for bomb in BOMBS if "\n" not in bomb])
def test_an_alias_bomb_is_never_written_out(bomb: str) -> None:
    for written in (proposal(bomb), proposal(bomb).decode().encode("utf-16")):
        with pytest.raises(UnreadableLaw):
            compose(BASE, written, [0])
        for gate in GATES:
            assert len(evaluate(gate, written, Surroundings())) == 1


@pytest.mark.parametrize("levels", [MOST_NESTING, 300, 900])
def test_a_model_too_deep_for_the_checks_is_refused_and_not_met_by_recursion(levels: int) -> None:
    for written in (in_flow(nested(levels)), proposal(json.dumps(nested(levels)))):
        with pytest.raises(UnreadableLaw, match="nested"):
            compose(BASE, written, [0])


def test_a_section_of_too_many_values_is_told_where_it_stands() -> None:
    with pytest.raises(UnreadableLaw, match="articles/0/machine_readable: more than 5000 values"):
        read_tree(in_flow([1] * MOST_SECTION_VALUES))
    assert read_tree(in_flow([1] * (MOST_SECTION_VALUES - 1)))


def test_models_that_are_more_than_any_call_can_write_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composing, "MOST_NEW_VALUES", 50)
    with pytest.raises(UnreadableLaw, match="more than 50 values"):
        compose(BASE, in_flow([1] * 50), [0])
    assert compose(BASE, in_flow([1] * 49), [0]).changed == {0}


def test_many_literal_texts_in_a_large_file_take_time_by_their_number_alone() -> None:
    def seconds(texts: int) -> float:
        written = proposal("\n" + "".join(f"      - |\n        {'x' * 400}\n\n" for _ in range(texts)))
        start = process_time()
        assert compose(BASE, written, [0]).changed == {0}
        return process_time() - start

    seconds(500)
    assert seconds(16_000) < 30 * seconds(2000)  # by the square it would be 64 times


def test_breaches_around_breaches_do_not_multiply() -> None:
    """Each breach brings a copy of what it is in; a section is told up to a limit, and by itself."""
    value: Any = {"operation": "ADD", "values": [[n] for n in range(1000)]}
    for _ in range(40):
        value = {"operation": "ADD", "values": [value, 1], "extra": 1}
    model = {"execution": {"actions": [{"output": "x", "value": value}]}}
    law = json.loads(in_flow(model))
    law["$schema"] = "https://example.org/v0.5.6/schema.json"
    law["articles"] *= 3
    told = [finding.detail for finding in evaluate(GATES[0], json.dumps(law).encode(), Surroundings()).answerable]
    by_entry = [sum(text.startswith(f"articles/{n}/machine_readable/") for text in told) for n in range(3)]
    assert by_entry == [200, 200, 200]
    assert any(text.startswith("(root): the key") for text in told)
    assert any("/value: no such key here: extra" in text for text in told)


@pytest.mark.parametrize("inner", [*BOMBS[:1], "!!bool x", "!!timestamp x", "!!float ''", "0x" + "f" * 5000,
                                   json.dumps(nested(400)), "[" + "[]," * 200_000 + "]"])  # fmt: skip
def test_reading_a_report_never_fails_whatever_is_in_it(inner: str) -> None:
    content = f"chunk_report: {{articles_reviewed: ['1']}}\nrelated_legislation: {inner}\n".encode()
    assert read_envelope(content).reported == set()
    assert without_report(content) == content
    assert merge_envelopes(None, [content]) is None
    assert merge_envelopes(content, [b"chunk_report: {articles_reviewed: ['2']}"]) is not None


@given(st.lists(PIECES, max_size=30).map("".join))
def test_a_model_and_a_report_of_anything_are_taken_or_refused(text: str) -> None:
    for written in (text.encode(), proposal(text), f"articles: {text}".encode(), f"articles: [{text}]".encode()):
        try:
            composed = compose(BASE, written, [0])
        except UnreadableLaw:
            pass
        else:
            assert load_law(composed.content)["$id"] == "w"
        for gate in GATES:
            evaluate(gate, written, Surroundings())
        read_envelope(written)
        without_report(written)
        merge_envelopes(written, [written, text.encode()])
