"""Line filling: least cost over the paragraph, breaks at spaces only, never inside a link."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.lawyaml.wrap import WIDTH, fill
from tests.unit.lawyaml.texts import prose


def exhaustive(words: list[int]) -> list[int]:
    """The line lengths of the plain dynamic programme over word widths: slow, and the definition of right."""
    ends = [sum(words[: k + 1]) + k for k in range(len(words))]
    starts = [end - width for end, width in zip(ends, words, strict=True)]
    best, origin = [0], [0]
    for j in range(1, len(words) + 1):
        costs = []
        for i in range(j):
            width = ends[j - 1] - starts[i]
            if width > WIDTH:
                line = (width - WIDTH) * 2500
            elif j < len(words):
                line = (WIDTH - width) ** 2
            else:
                line = 25 if j == i + 1 and width < WIDTH / 4 else 0
            costs.append(best[i] + 1000 + line)
        best.append(min(costs))
        origin.append(costs.index(best[-1]))
    lengths, j = [], len(words)
    while j:
        lengths.append(ends[j - 1] - starts[origin[j]])
        j = origin[j]
    return lengths[::-1]


@given(
    st.lists(
        st.one_of(st.integers(1, 12), st.integers(1, 12), st.integers(40, 130), st.just(115)), min_size=1, max_size=70
    )
)
def test_the_fast_filler_gives_the_lines_of_the_exhaustive_one(words: list[int]) -> None:
    filled = fill(" ".join("x" * width for width in words))
    assert [len(line) for line in filled.split("\n")] == (
        exhaustive(words) if sum(words) + len(words) > WIDTH else [len(filled)]
    )


def test_a_line_is_left_short_when_that_makes_the_next_ones_fit_better() -> None:
    words = [10] * 10 + [3, 60, 60, 40]
    greedy_first_line = 113
    lines = fill(" ".join("x" * width for width in words)).split("\n")
    assert [len(line) for line in lines] == exhaustive(words)
    assert len(lines[0]) <= greedy_first_line


@given(prose())
def test_every_break_replaces_exactly_one_space(text: str) -> None:
    text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    paragraphs = text.split("\n\n")
    for paragraph in paragraphs:
        assert fill(paragraph).replace("\n", " ") == paragraph


@given(prose())
def test_no_link_is_ever_broken(text: str) -> None:
    for paragraph in text.split("\n\n"):
        links = re.findall(r"\[[^\]\[]+\](?:\[ref1\]|\([^()\s]+\))", paragraph)
        filled = fill(paragraph)
        assert all(filled.count(link) >= paragraph.count(link) for link in links)


@given(prose())
def test_filling_again_changes_nothing_in_lines_that_fit(text: str) -> None:
    filled = fill(text)
    for line in filled.split("\n"):
        if len(line.encode()) < WIDTH:
            assert fill(line) == line


@pytest.mark.parametrize("closing", [")", "]", "!", "?", ";", ":", ",", ".", "/", "}"])
def test_no_line_begins_with_closing_punctuation(closing: str) -> None:
    for width in range(90, 116):
        line = "x" * width + f" {closing} " + "woord " * 30
        assert not any(part.startswith(closing) for part in fill(line).split("\n"))


@pytest.mark.parametrize("opening", ["(", "[", "{", "„"])
def test_no_line_ends_with_opening_punctuation(opening: str) -> None:
    for width in range(90, 116):
        line = "x" * width + f" {opening} " + "woord " * 30
        assert not any(part.endswith(opening) for part in fill(line).split("\n"))


def test_a_word_wider_than_a_line_is_not_cut() -> None:
    word = "w" * 300
    assert any(word in line for line in fill(f"voor {word} achter " + "tekst " * 40).split("\n"))


def test_doubled_spaces_are_no_place_for_a_break() -> None:
    text = ("aa  " * 60).rstrip(" ")
    assert fill(text) == text


def test_a_reference_link_counts_its_bytes() -> None:
    accented, plain = "[" + "é" * 40 + "][ref1]", "[" + "e" * 40 + "][ref1]"
    head = "x" * 60
    assert fill(f"{head} {plain} " + "woord " * 20).split("\n")[0].startswith(f"{head} {plain}")
    assert fill(f"{head} {accented} " + "woord " * 20).split("\n")[0] == head


def test_wide_and_combining_characters_count_their_columns() -> None:
    wide = " ".join(["\u4e2d" * 10] * 12)
    assert [len(line) for line in fill(wide).split("\n")] == [54, 54, 21]
    combining = " ".join(["e\u0301" * 10] * 12)
    assert fill(combining).split("\n")[0].count(" ") == 9


def test_lines_are_filled_one_by_one_and_lose_trailing_spaces() -> None:
    assert fill("kort  \nook kort ") == "kort\nook kort"


def test_a_line_of_nothing_but_brackets_is_filled_in_linear_time() -> None:
    hostile = "[" * 200_000 + "](" * 100_000 + "[a]" * 100_000
    assert fill(hostile) == hostile


def test_a_huge_paragraph_with_overwide_words_is_filled_in_reasonable_time() -> None:
    text = " ".join(["x " * 60 + "w" * 200] * 300)
    assert fill(text).replace("\n", " ") == text


def test_a_row_of_a_table_stays_on_its_line() -> None:
    row = "| " + "cel met woorden | " * 12
    assert fill(row.rstrip()) == row.rstrip()
