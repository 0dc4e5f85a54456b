"""One-line scalars mean the same string to every reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.lawyaml.scalars import double_quoted, one_line, scalar
from tests.kit.yaml_readers import read_both
from tests.unit.lawyaml.texts import NASTY, any_text


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_value_is_the_same_string_to_both_readers(text: str) -> None:
    # BW-07
    assert read_both(f"key: {one_line(text)}\n") == {"key": text}


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_list_item_is_the_same_string_to_both_readers(text: str) -> None:
    # BW-07
    assert read_both(f"- {one_line(text)}\n") == [text]


@given(any_text())
def test_any_text_on_one_line_survives_both_readers(text: str) -> None:
    written = scalar(text)
    assert "\n" not in written
    assert read_both(f"key: {written}\n") == {"key": text}


@given(st.text(alphabet="0123456789.:-+_eExobtTzZinfaNyYnNulrsSoO ~<=", max_size=14))
def test_nothing_that_looks_like_another_type_is_left_bare(text: str) -> None:
    # BW-07
    assert read_both(f"key: {scalar(text)}\n") == {"key": text}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1", "'1'"),
        ("2.1", "'2.1'"),
        ("24e1", "'24e1'"),
        ("1:1", "'1:1'"),
        ("2024-01-01", "'2024-01-01'"),
        ("", "''"),
        ("yes", "'yes'"),
        ("Let op: dit", "'Let op: dit'"),
        ("onder meer:", "'onder meer:'"),
        ("'s avonds", "'''s avonds'"),
        ("2.1.a", "2.1.a"),
        ("4a", "4a"),
        ("8:36c", "8:36c"),
        ("B1:1", "B1:1"),
        ("5_bis", "5_bis"),
        ("B 1", "B 1"),
        ("burgemeester's", "burgemeester's"),
        ("€ 2,50", "€ 2,50"),
        ("1°", "1°"),
    ],
)
def test_quotes_stand_only_where_a_reader_could_be_mistaken(text: str, written: str) -> None:
    assert scalar(text) == written


def test_characters_that_no_plain_text_can_hold_are_escaped() -> None:
    assert double_quoted('a\tb"c\\d\x07\u2028') == '"a\\tb\\"c\\\\d\\x07\\u2028"'


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert scalar("a\ud800b") == '"a\ufffdb"'
