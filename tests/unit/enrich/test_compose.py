"""The worker composes the law from a base and a proposal (D41)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from protocols.compose import LawSource, carry_over, compose
from protocols.lawyaml import UnreadableLaw, load_law

BASE = """\
---
# a comment of the editor
$id: lantaarnwet
publication_date: 2025-01-01
articles:
  - number: '1'
    text: |-
      In deze wet wordt verstaan onder lantaarn: een lamp.

    url: https://example.org/1
    references:
      - id: a
        bwb_id: BWBR0000002
  # over artikel 2
  - number: '2'
    text: >-
      De bijdrage bedraagt
      40 euro.
    url: https://example.org/2
    machine_readable:
      # waarom
      definitions: {}
      untranslatables:
        - construct: gewichtige redenen
          reason: dat kan niet
          accepted: true
  - number: '2'
    text: Nog een artikel 2.
    url: https://example.org/2bis
closing:
  text: Lasten en bevelen.
"""

MODEL = """\
    machine_readable:
      definitions:
        BIJDRAGE: {value: 4000, type: amount, type_spec: {unit: eurocent}}  # cent
      execution:
        output:
          - {name: bijdrage, type: amount}
"""


def proposal(*edits: tuple[str, str]) -> bytes:
    text = BASE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text.encode()


def with_model(after: str = "        bwb_id: BWBR0000002\n", model: str = MODEL) -> tuple[str, str]:
    return after, after + model


def models(content: bytes) -> list[Any]:
    return [entry.get("machine_readable") for entry in load_law(content)["articles"]]


def test_a_model_is_taken_as_it_is_written_and_every_other_byte_stays() -> None:
    composed = compose(BASE.encode(), proposal(with_model()), [0])

    assert composed.content.decode() == BASE.replace(*with_model())
    assert composed.changed == {0}
    assert composed.discarded_edits == 0


def test_edits_of_text_number_url_header_and_other_entries_are_dropped_and_counted() -> None:
    written = proposal(
        with_model(),
        ("een lamp", "een kaars"),
        ("https://example.org/2\n", "https://example.org/3\n"),
        ("$id: lantaarnwet", "$id: kaarsenwet\nextra: 1"),
        ("    url: https://example.org/2bis", "    url: https://example.org/2bis\n    machine_readable: {}"),
    )

    composed = compose(BASE.encode(), written, [0])

    assert composed.content.decode() == BASE.replace(*with_model())
    assert composed.discarded_edits == 5


def test_a_removed_an_added_and_a_moved_entry_change_nothing() -> None:
    tree = load_law(BASE)
    first, second, third = tree["articles"]
    tree["articles"] = [third | {"number": "9"}, second, first]
    composed = compose(BASE.encode(), yaml.safe_dump(tree).encode(), range(3))

    assert composed.content == BASE.encode()
    assert composed.discarded_edits == 3


def test_entries_of_one_number_are_matched_by_their_order() -> None:
    written = proposal(with_model("    url: https://example.org/2bis\n"))

    composed = compose(BASE.encode(), written, [2])

    assert composed.changed == {2}
    assert composed.content == written


def test_an_unquoted_number_is_the_same_entry() -> None:
    base = BASE.replace("number: '2'", "number: '1.10'", 1)
    written = base.replace("'1.10'", "1.10").replace("definitions: {}", "definitions: {A: {value: 1, type: number}}")

    composed = compose(base.encode(), written.encode(), [1])

    assert composed.changed == {1}
    assert b"'1.10'" in composed.content


def test_a_removed_model_is_removed_and_a_lost_entry_keeps_its_model() -> None:
    block = BASE[BASE.index("    machine_readable") : BASE.index("  - number: '2'\n    text: Nog")]
    gone = BASE.replace(block, "")
    lost = BASE[: BASE.index("  # over")] + BASE[BASE.index("  - number: '2'\n    text: Nog") :]

    assert compose(BASE.encode(), gone.encode(), [1]).content.decode() == gone
    # With the first of two entries of a number lost, the second stands in its place: its model, none, is what counts.
    assert compose(BASE.encode(), lost.encode(), [2]).content == BASE.encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [("accepted: true", "accepted: false"), ("          accepted: true\n", "")],
    ids=["cleared", "dropped"],
)
def test_an_accepted_gap_stays_accepted_whatever_the_agent_says(old: str, new: str) -> None:
    composed = compose(BASE.encode(), proposal((old, new)), range(3))

    assert composed.content == BASE.encode()
    assert composed.discarded_edits == 1


def test_an_agent_cannot_accept_its_own_gap() -> None:
    gap = "        - {construct: redelijkheid, reason: open norm, accepted: true}\n"
    composed = compose(BASE.encode(), proposal(("      untranslatables:\n", "      untranslatables:\n" + gap)), [1])

    model = models(composed.content)[1]
    assert model["untranslatables"][0] == {"construct": "redelijkheid", "reason": "open norm"}
    assert model["untranslatables"][1]["accepted"] is True
    assert composed.discarded_edits == 1


def test_a_proposal_in_another_layout_is_taken_by_its_source_moved_to_the_column_of_the_base() -> None:
    tree = load_law(BASE)
    tree["articles"][0]["machine_readable"] = {
        "execution": {"actions": [{"output": "a", "legal_basis": {"explanation": "Twee\nregels\n\n"}}]},
        "definitions": {"A": "08:36", "B": "no", "C": 1e20, "D": None},
    }
    written = yaml.safe_dump(tree, sort_keys=False, width=30)

    composed = compose(BASE.encode(), written.encode(), [0])

    assert models(composed.content)[0] == tree["articles"][0]["machine_readable"]
    assert composed.content.decode().startswith(BASE[: BASE.index("  # over")])


def test_an_alias_to_elsewhere_is_written_out() -> None:
    written = proposal(
        ("---\n", "---\nshared: &m\n  definitions: {A: tekst}\n"),
        with_model(model="    machine_readable: *m\n"),
    )

    composed = compose(BASE.encode(), written, [0])

    assert models(composed.content)[0] == {"definitions": {"A": "tekst"}}
    assert b"*m" not in composed.content


@pytest.mark.parametrize("text", ["a: [", "\xff", "- 1", "a: &a [*a]", ""], ids=repr)
def test_a_proposal_that_is_no_yaml_mapping_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLaw):
        compose(BASE.encode(), text.encode("latin-1"), [0])


def test_a_law_in_flow_style_gets_its_models_too() -> None:
    base = "{$id: a, articles: [{number: '1', text: 'x'}, {number: '2', machine_readable: {a: 1}, text: y}]}\n"
    written = "articles: [{number: '1', machine_readable: {b: [1, 2]}}, {number: '2', text: y}]"

    composed = compose(base.encode(), written.encode(), [0, 1])

    assert models(composed.content) == [{"b": [1, 2]}, None]
    assert composed.content.decode().startswith("{$id: a, articles: [{number: '1', text: 'x'")


def test_a_byte_order_mark_and_dos_line_breaks_survive() -> None:
    base = b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()

    composed = compose(base, proposal(with_model()), [0])

    assert composed.content.startswith(b"\xef\xbb\xbf---\r\n")
    assert models(composed.content)[0]["definitions"]["BIJDRAGE"]["value"] == 4000


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab :#-'\"\n\t|>&*!%@yno10é\u2028", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-1", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)
_models = st.dictionaries(st.text("abc", min_size=1, max_size=3), _values, max_size=3)


@given(st.lists(st.none() | _models, min_size=3, max_size=3), st.sets(st.integers(0, 2)), st.integers(20, 200))
def test_whatever_is_proposed_only_assigned_models_change(wanted: list[Any], assigned: set[int], width: int) -> None:
    tree = load_law(BASE)
    before = models(BASE.encode())
    for entry, model in zip(tree["articles"], wanted, strict=True):
        entry.pop("machine_readable", None)
        if model is not None:
            entry["machine_readable"] = model
    written = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=width)

    composed = compose(BASE.encode(), written.encode(), assigned)

    read = load_law(written)["articles"]
    expected = [read[i].get("machine_readable") if i in assigned else before[i] for i in range(3)]
    assert models(composed.content) == expected
    stripped = [{**entry, "machine_readable": None} for entry in load_law(composed.content)["articles"]]
    assert stripped == [{**entry, "machine_readable": None} for entry in load_law(BASE)["articles"]]
    assert LawSource.read(composed.content).numbers == ("1", "2", "2")


# --- a new base (D55) ---------------------------------------------------------------------------------------------------


def test_a_new_base_keeps_the_models_of_entries_whose_text_is_the_same() -> None:
    former = proposal(with_model(), with_model("    url: https://example.org/2bis\n", MODEL))
    base = BASE.replace("Nog een artikel 2.", "Nog een ander artikel 2.").encode()

    carried = carry_over(base, former)

    assert (carried.kept, carried.dropped) == (("1", "2"), ("2",))
    assert [model is None for model in models(carried.content)] == [False, False, True]
    assert b"ander artikel 2" in carried.content


def test_models_that_cannot_be_kept_are_left_out_and_taken_out_of_the_base_too() -> None:
    former = proposal(with_model())

    carried = carry_over(BASE.encode(), former, faulty=lambda content: {0, 1})

    assert (carried.kept, carried.dropped) == ((), ("1", "2"))
    assert models(carried.content) == [None, None, None]
    assert "# over artikel 2" in carried.content.decode()
    one = carry_over(BASE.encode(), former, faulty=lambda content: {1})
    assert (one.kept, one.dropped) == (("1",), ("2",))
    assert [model is None for model in models(one.content)] == [False, True, True]
    none = carry_over(BASE.encode(), BASE.encode(), faulty=lambda content: ())
    assert none.content == BASE.encode()
