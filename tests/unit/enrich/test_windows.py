"""Windows, slices and the cursor (D40, ``enrich.md`` 5.1 and 5.2)."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols import windows
from protocols.enrichmentfile import EnrichmentFile, dump_enrichment, read_state
from protocols.lawtree import top_article
from protocols.windows import Cursor, Window, chosen_window, cited_articles, plan_window, slices

PATH = "laws/a/2025-01-01.yaml"


@pytest.mark.claim("S0-075")
def test_why_windows_follow_the_document_stands_beside_the_rule() -> None:
    told = windows.__doc__ or ""
    assert "document order" in told
    assert "visit them for ever" in told
    assert plan_window.__module__ == windows.__name__


@pytest.mark.claim("S0-055")
@pytest.mark.parametrize(
    ("limit", "total", "cursor", "expected", "complete"),
    [
        (15, 324, None, (0, 15), False),
        (15, 324, Cursor(30, PATH), (30, 45), False),
        (15, 324, Cursor(30, "laws/a/2024-01-01.yaml"), (0, 15), False),
        (15, 20, Cursor(25, PATH), (0, 15), False),
        (15, 20, Cursor(15, PATH), (15, 20), True),
        (10, 20, Cursor(10, PATH), (10, 20), True),
        (15, 3, None, (0, 3), True),
        (15, 20, Cursor(20, PATH), (20, 20), True),
        (15, 0, None, (0, 0), True),
        (15, 15, None, (0, 15), True),
        (15, 16, None, (0, 15), False),
    ],
)
def test_a_window_begins_at_the_cursor_and_holds_at_most_the_limit(
    limit: int, total: int, cursor: Cursor | None, expected: tuple[int, int], complete: bool
) -> None:
    window = plan_window(limit, total, cursor, PATH)

    assert (window.start, window.end) == expected
    assert window.law_complete is complete
    assert window.next_position == expected[1]


def test_chosen_entries_are_a_window_beside_the_walk_and_the_cursor_stands_still() -> None:
    window = chosen_window((3, 7), 20, Cursor(5, PATH), PATH)

    assert list(window.positions) == [3, 7]
    assert (window.next_position, window.law_complete, window.empty, window.first) == (5, False, False, False)
    assert chosen_window((3,), 20, Cursor(5, "laws/b.yaml"), PATH).next_position == 0
    assert not chosen_window((19,), 20, Cursor(20, PATH), PATH).law_complete
    assert chosen_window((), 20, None, PATH).empty


def test_limit_zero_is_the_whole_law_in_one_run_without_a_cursor() -> None:
    assert plan_window(0, 324, Cursor(30, PATH), PATH) == Window(0, 324, 324, windowed=False)
    assert plan_window(0, 324, None, PATH).next_position == 0


@pytest.mark.claim("S0-059")
@given(
    total=st.integers(0, 400),
    limit=st.integers(1, 40),
    outcomes=st.lists(st.booleans(), max_size=80),
    vandalism=st.lists(st.binary(max_size=40), min_size=1, max_size=5),
)
def test_whatever_an_agent_does_a_law_ends_after_ceil_of_n_by_the_limit_successful_runs(
    total: int, limit: int, outcomes: list[bool], vandalism: list[bytes]
) -> None:
    """EN-02. The agent writes what it likes; the run reads the file before it and writes it after it."""
    branch: bytes | None = None
    successes = 0
    for run, succeeds in enumerate([*outcomes, *[True] * (total + 1)]):
        window = plan_window(limit, total, read_state(branch).cursor, PATH)
        working_copy = vandalism[run % len(vandalism)]
        if succeeds:
            successes += 1
            working_copy = dump_enrichment(_file(window.next_position, total))
            branch = working_copy
            if window.law_complete:
                break
    assert successes == max(1, math.ceil(total / limit))
    assert plan_window(limit, total, read_state(branch).cursor, PATH).empty


def _file(cursor: int, total: int, **more: str) -> EnrichmentFile:
    return EnrichmentFile(
        law_id="BWBR0000001",
        timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        provider="claude",
        model="claude-opus-5-5",
        prompt_hash="0" * 64,
        code_commit="",
        coverage_score=0.5,
        articles_total=total,
        articles_with_machine_readable=1,
        enrich_cursor=cursor,
        enrich_cursor_path=PATH,
        **more,
    )


@pytest.mark.claim("S0-142")
def test_the_file_of_the_worker_reads_back_and_is_the_same_every_time() -> None:
    written = dump_enrichment(_file(15, 40, source_hash="1234567890123456789012345678901234567890"))

    state = read_state(written)
    assert state.cursor == Cursor(15, PATH)
    assert state.source_hash == "1234567890123456789012345678901234567890"
    assert b"model: claude-opus-5-5\n" in written
    assert b"timestamp: '2026-01-02T03:04:05Z'" in written
    assert written == dump_enrichment(_file(15, 40, source_hash="1234567890123456789012345678901234567890"))


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff",
        b"a: [",
        b"- 15",
        b"law_id: a\n",
        b"enrich_cursor: -1\nenrich_cursor_path: x\n",
        b"enrich_cursor: '15'\n",
        b"enrich_cursor: true\n",
        f"enrich_cursor: 15\nenrich_cursor_path: {PATH}\nenrich_cursor_mode: layer\n".encode(),
    ],
)
def test_a_file_that_is_absent_unreadable_or_of_another_mode_has_no_cursor(content: bytes | None) -> None:
    assert read_state(content).cursor is None


def test_a_file_of_an_existing_worker_without_mode_and_hash_keeps_its_cursor() -> None:
    state = read_state(f"enrich_cursor: 15\nenrich_cursor_path: {PATH}\n".encode())

    assert state.cursor == Cursor(15, PATH)
    assert state.source_hash == ""


# --- slices ------------------------------------------------------------------------------------------------------------


def test_slices_never_split_an_article_and_share_the_entries_out() -> None:
    entries = [("1", ""), ("2.1.a", ""), ("2.1.b", ""), ("3", ""), ("4", "")]

    assert slices(entries, 1) == ((0, 1, 2, 3, 4),)
    assert slices(entries, 2) == ((0, 3), (1, 2, 4))
    assert len(slices(entries, 9)) == 4
    assert slices([], 4) == ()


def test_articles_that_refer_to_each_other_stay_together_also_over_a_third() -> None:
    entries = [
        ("1", "Zie artikel 3, tweede lid."),
        ("2", "Niets."),
        ("3", "Bedoeld in de artikelen 1 en 5."),
        ("4", "Artikel 9 van de Wet op het kind; artikel 2, eerste lid, van de Awb."),
        ("5", ""),
    ]

    cut = slices(entries, 3)

    assert (0, 2, 4) in cut
    assert {frozenset(part) for part in cut} == {frozenset({0, 2, 4}), frozenset({1}), frozenset({3})}


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("artikel 2, eerste lid", ["2"]),
        ("de artikelen 1, 3 en 4", ["1", "3", "4"]),
        ("artikelen 2 tot en met 4", ["2", "3", "4"]),
        ("artikel 2.1.a", ["2"]),
        ("artikel 2 van deze wet", ["2"]),
        ("artikel 2 van de Zorgverzekeringswet", []),
        ("artikel 2, tweede lid, onderdeel b, van het Burgerlijk Wetboek", []),
        ("artikel 99", []),
        ("artikelsgewijs 2", []),
        ("artikel 4a", ["4a"]),
    ],
)
def test_citations_of_the_law_itself_are_found_and_those_of_other_laws_are_not(text: str, cited: list[str]) -> None:
    assert sorted(set(cited_articles(text, ["1", "2", "3", "4", "4a"]))) == cited


@given(st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(1, 9), max_size=2)), max_size=15), st.integers(1, 6))
def test_slices_hold_every_entry_once_and_never_part_what_belongs_together(
    drawn: list[tuple[int, set[int]]], count: int
) -> None:
    entries = [
        (f"{top}.{i}", " ".join(f"artikel {other}" for other in others)) for i, (top, others) in enumerate(drawn)
    ]

    cut = slices(entries, count)

    assert sorted(index for part in cut for index in part) == list(range(len(entries)))
    assert len(cut) <= count
    assert all(part for part in cut)
    where = {index: number for number, part in enumerate(cut) for index in part}
    tops = [top_article(number) for number, _ in entries]
    for index, (_, text) in enumerate(entries):
        for other, top in enumerate(tops):
            if top == tops[index] or top in set(cited_articles(text, tops)):
                assert where[index] == where[other]
