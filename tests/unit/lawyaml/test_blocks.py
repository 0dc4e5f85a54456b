"""How a text stands in the file, and that it comes back."""

import pytest
from hypothesis import given

from protocols.lawyaml.blocks import normalise, text_value
from tests.kit.yaml_readers import read_both
from tests.unit.lawyaml.texts import NASTY, any_text, as_read, prose

REFERENCES = "[ref1]: https://wetten.overheid.nl/BWBR0001840#Artikel89\n[ref2]: https://wetten.overheid.nl/BWBR0005537"


def written(text: str) -> str:
    return text_value(text, "  ")


def read(value: str) -> str:
    loaded = read_both(f"key: {value}\nnext: 1\n")
    assert loaded["next"] == 1
    assert isinstance(loaded["key"], str)
    return loaded["key"]


def assert_comes_back(text: str) -> None:
    value, wanted = written(text), normalise(text)
    if value.startswith("|"):
        assert as_read(read(value)) == as_read(wanted)
    elif value.startswith(">"):
        assert read(value) == "\n".join(line.rstrip(" ") for line in wanted.split("\n"))
    elif not value.startswith('"') and (len(wanted.encode()) > 80 or ("[" in wanted and "](" in wanted)):
        assert read(value) == wanted.rstrip(" ")  # only filled texts lose trailing spaces
    else:
        assert read(value) == wanted


@given(any_text().filter(lambda text: "[ref" not in text))
def test_any_text_comes_back_from_both_readers(text: str) -> None:
    assert_comes_back(text)


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_text_comes_back(text: str) -> None:
    # BW-07
    assert_comes_back(text)


@given(prose().filter(lambda text: "[ref" not in text))
def test_folded_prose_is_written_the_same_after_reading(text: str) -> None:
    # BW-08
    value = written(text)
    if not value.startswith("|"):
        assert written(read(value)) == value


@given(any_text())
def test_no_line_of_a_text_ends_in_a_blank(text: str) -> None:
    # BW-08
    assert not any(line.endswith((" ", "\t")) for line in written(text).split("\n"))


def test_a_comma_glued_between_letters_gets_its_space_and_numbers_are_left_alone() -> None:
    assert normalise("a,b,c of is,en € 1,50 en 2,b x,2") == "a, b, c of is, en € 1,50 en 2,b x,2"


def test_a_short_line_is_plain_or_quoted() -> None:
    assert written("Deze wet heet Stepwet.") == "Deze wet heet Stepwet."
    assert written("Deze wet heet: Stepwet.") == "'Deze wet heet: Stepwet.'"


def test_prose_of_400_words_is_folded_at_the_width_and_comes_back_exactly() -> None:
    # BW-08
    text = "De aanvrager toont aan dat hij voldoet. " * 66 + "Slot."
    value = written(text)
    lines = value.split("\n")
    assert lines[0] == ">-"
    assert max(map(len, lines)) <= 2 + 115
    assert read(value) == text


def test_paragraphs_of_folded_prose_stand_two_blank_lines_apart() -> None:
    assert written("Een.\n\nTwee.") == ">-\n  Een.\n\n\n  Twee."


def test_reference_definitions_make_a_text_literal_two_blank_lines_below_it() -> None:
    text = (
        "Wie een step uitleent, bedoeld in [artikel 89 van de Grondwet][ref1], meldt dat volgens [de Awb][ref2].\n\n"
        + REFERENCES
    )
    value = written(text)
    assert value == (
        "|-\n"
        "  Wie een step uitleent, bedoeld in [artikel 89 van de Grondwet][ref1], meldt dat volgens [de Awb][ref2].\n"
        "\n\n"
        "  [ref1]: https://wetten.overheid.nl/BWBR0001840#Artikel89\n"
        "  [ref2]: https://wetten.overheid.nl/BWBR0005537"
    )
    assert written(read(value)) == value


def test_a_definition_in_the_middle_moves_to_the_end() -> None:
    text = "Eerste alinea.\n[ref1]: https://a\n\nTweede alinea met wat meer woorden zodat er gevuld wordt, meer dan 80.\n\n[ref2]: https://b"
    assert read(written(text)).endswith("meer dan 80.\n\n\n[ref1]: https://a\n[ref2]: https://b")


def test_definitions_with_another_label_are_not_folded_away() -> None:
    text = "Tekst die lang genoeg is om gevuld te worden, want hij telt ruim meer dan tachtig tekens.\n\n[noot1]: iets"
    assert written(text).startswith("|-\n")


@pytest.mark.parametrize(
    "text",
    [
        "Opsomming:\n- een\n- twee",
        "Regel een\nregel twee",
        "Kop\n\n  ingesprongen",
        "Kop\n\n\nverder",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ],
)
def test_hard_line_breaks_are_kept_as_lines(text: str) -> None:
    value = written(text)
    assert value.startswith("|-\n")
    assert read(value) == text


@pytest.mark.parametrize("text", ["a\tb", "eerste \ntweede", "bel\x07", "regel\u2028scheiding", "eind\n"])
def test_what_no_block_can_hold_is_one_quoted_line(text: str) -> None:
    value = written(text)
    assert value.startswith('"')
    assert "\n" not in value
    assert read(value) == text


@pytest.mark.parametrize("text", [" ingesprongen\nverder", "\nlege regel eerst", "  a\n b"])
def test_a_block_that_starts_with_a_blank_says_its_indent(text: str) -> None:
    value = written(text)
    assert value.startswith("|2-\n")
    assert read(value) == text


def test_a_line_that_looks_like_a_key_with_a_number_is_left_as_it_is() -> None:
    text = "Onder meer:\npremie: 24e1\nstatus: null\ndatum: 2024-01-01:"
    assert read(written(text)) == text
