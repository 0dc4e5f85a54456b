"""Coverage and gaps, counted on the untyped tree (``enrich.md`` 9.1, 9.2)."""

from __future__ import annotations

import pytest

from protocols.lawstats import LawCount, count, count_gaps, markings_of, untranslatables_of
from protocols.lawtree import Tree, read_tree
from tests.kit import shared
from tests.unit.gates.laws import entry, law


@pytest.mark.claim("S0-046")
def test_a_mapping_is_a_section_and_nothing_else_is() -> None:
    tree = law(
        entry("1", model={}), entry("2", model=None), entry("3"), entry("4", model=[]), entry("5", model={"x": 1})
    )
    assert count(tree) == LawCount(5, 2)
    assert count(tree).coverage == 0.4
    assert count(tree, {"1", "3"}) == LawCount(2, 1)


def test_an_empty_or_misshapen_law_covers_nothing_and_raises_nothing() -> None:
    laws: list[Tree] = [{}, {"articles": None}, {"articles": {}}, {"articles": []}]
    for tree in laws:
        assert count(tree) == LawCount(0, 0)
        assert count(tree).coverage == 0.0
        assert count(tree).gained_since(LawCount(0, 0)) == 0.0


# EN-02: a window is judged by what is missing in the whole law, so a law is not done because a window was.
@pytest.mark.claim("S0-047")
@pytest.mark.parametrize(
    ("before", "after", "gained"),
    [
        (LawCount(4, 0), LawCount(4, 2), 0.5),
        (LawCount(4, 2), LawCount(4, 4), 1.0),
        (LawCount(324, 0), LawCount(324, 15), 15 / 324),
        (LawCount(3, 1), LawCount(3, 1), 0.0),
        (LawCount(3, 3), LawCount(3, 3), 1.0),
        (LawCount(3, 2), LawCount(3, 1), 0.0),
        (LawCount(0, 0), LawCount(0, 0), 0.0),
    ],
)
def test_a_run_is_credited_with_the_share_of_what_was_missing(before: LawCount, after: LawCount, gained: float) -> None:
    assert after.gained_since(before) == gained


def test_a_number_without_quotes_counts_like_one_with() -> None:
    assert count({"articles": [{"number": 2, "machine_readable": {}}]}, {"2"}) == LawCount(1, 1)


GAP = {"construct": "redelijk", "reason": "oordeel", "suggestion": "s", "legal_text_excerpt": "e", "accepted": True}
MARK = {
    "about": "redelijk",
    "resolution": "operation",
    "resolved_by": "SUM",
    "target": ["x"],
    "legal_text_excerpt": "e",
}


def test_gaps_of_both_kinds_are_counted_in_any_shape() -> None:
    tree = law(
        entry("1", model={"untranslatables": [GAP, {}, 5], "markings": [MARK]}),
        entry("2", model={"untranslatables": "all"}),
        entry("3", model={"untranslatables": [GAP]}),
    )
    assert count_gaps(tree) == 4
    assert count_gaps(tree, {"3", "9"}) == 1


def test_untranslatables_are_captured_with_their_article() -> None:
    tree = law(entry("1"), entry("2.1", model={"untranslatables": [GAP, {"accepted": "yes"}]}))
    full, bare = untranslatables_of(tree)
    assert full.to_json() == {"article": "2.1", **GAP}
    assert bare.to_json() == {"article": "2.1", "construct": "(unnamed)", "reason": "", "accepted": False}


# D62: the table's shape is provisional, the result has all the parts.
def test_markings_are_captured_for_the_result_and_for_the_table() -> None:
    tree = law(entry("2", model={"markings": [MARK, {"target": "y"}], "untranslatables": [GAP]}))
    full, bare = markings_of(tree)
    assert full.to_json() == {"article": "2", **MARK, "accepted": False}
    assert full.to_row() == {
        "article": "2",
        "kind": "operation",
        "reason": "redelijk; resolved by: SUM",
        "excerpt": "e",
        "accepted": False,
    }
    assert bare.target == ("y",)
    assert bare.to_row() == {"article": "2", "kind": "model", "reason": "(unnamed)", "excerpt": None, "accepted": False}
    assert len(untranslatables_of(tree)) == 1


def test_a_real_law_is_counted() -> None:
    tree = read_tree(shared.path("data/law-schema/examples/test_untranslatables_2025-01-01.yaml").read_bytes())
    assert count(tree) == LawCount(4, 4)
    assert [(gap.article, gap.accepted) for gap in untranslatables_of(tree)] == [("2", False), ("4", True)]
