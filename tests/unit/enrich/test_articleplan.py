"""Which articles a chosen one rests on: inside its law for nothing, over laws at a point each (``enrich.md`` 13)."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.articleplan import ArticlePlan, LawParts, PlannedLaw, plan_articles
from protocols.failures import InvalidInput

A, B, C = "BWBR0000001", "BWBR0000002", "BWBR0000003"


def entry(number: str, text: str = "Er is een bijdrage.", *cites: tuple[str, str | None]) -> dict[str, Any]:
    references = [
        {"id": f"ref{at}", "bwb_id": bwb_id} | ({"artikel": artikel} if artikel else {})
        for at, (bwb_id, artikel) in enumerate(cites, start=1)
    ]
    return {"number": number, "text": text, "url": "https://example.org", "references": references}


def parts(bwb_id: str, *entries: dict[str, Any]) -> LawParts:
    return LawParts.of(f"wet/{bwb_id}.yaml", {"bwb_id": bwb_id, "articles": list(entries)})


CORPUS = {
    A: parts(
        A,
        entry("1", "Op grond van artikel 2 bestaat recht op een bijdrage."),
        entry("2.1", "De bijdrage volgt uit een andere wet.", (B, "7"), (C, None)),
        entry("2.2"),
        entry("3", "Zie artikel 1.", (A, "1")),
        entry("4", "Zie elders.", ("BWBR0000099", "1"), (B, "99")),
    ),
    B: parts(B, entry("6"), entry("7", "Het bedrag, bedoeld in artikel 6, wordt verhoogd.", (C, "5"))),
    C: parts(C, entry("5", "Zie de eerste wet.", (A, "3"))),
}


def plan(*articles: str, depth: int | None = None, most: int = 200) -> ArticlePlan:
    return plan_articles(
        CORPUS[A], articles, depth=depth, most=most, find=lambda bwb_id: CORPUS.get(bwb_id, "is not in the corpus")
    )


def test_without_a_depth_nothing_is_followed_and_all_entries_under_an_article_belong_to_it() -> None:
    assert plan("2").laws == (PlannedLaw(f"wet/{A}.yaml", ("2",), (1, 2)),)
    assert plan("2.1", "1").laws[0].positions == (0, 1)


def test_inside_a_law_citations_cost_nothing() -> None:
    [law] = plan("1", depth=0).laws
    assert (law.articles, law.positions) == (("1", "2"), (0, 1, 2))


def test_the_deepest_law_comes_first_and_each_law_costs_a_point() -> None:
    one = plan("1", depth=1)
    assert [(law.path, law.articles, law.depth) for law in one.laws] == [
        (f"wet/{B}.yaml", ("7", "6"), 1),
        (f"wet/{A}.yaml", ("1", "2"), 0),
    ]
    two = plan("1", depth=2)
    assert [law.path for law in two.laws] == [f"wet/{C}.yaml", f"wet/{B}.yaml", f"wet/{A}.yaml"]


def test_laws_that_cite_each_other_end() -> None:
    everything = plan("1", depth=9)
    assert [law.depth for law in everything.laws] == [2, 1, 0]
    assert everything.laws[-1].articles == ("1", "2", "3")


def test_citations_that_lead_nowhere_are_told_and_do_not_stop_the_plan() -> None:
    found = plan("4", depth=1)
    assert [law.articles for law in found.laws] == [("4",)]
    assert found.left_out == (
        "BWBR0000099 article 1: the law is not in the corpus",
        f"{B} article 99: the law has no such article there",
    )


def test_an_article_that_is_not_there_and_a_plan_that_is_too_large_are_refused() -> None:
    with pytest.raises(InvalidInput, match="has no article '9'; its articles are 1, 2, 3, 4"):
        plan("1", "9")
    assert len(plan("1", depth=0, most=2).laws) == 1
    with pytest.raises(InvalidInput, match=r"more than 1 articles.*--max-plan-articles"):
        plan("1", depth=0, most=1)
