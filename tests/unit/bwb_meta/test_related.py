"""From a name an agent wrote to a law that may be harvested: every step, every trap, every limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bwb.search import BwbHit
from protocols.related import (
    AskSearch,
    AskSlug,
    NeedsConfirmation,
    RelatedEntry,
    RelatedLimits,
    Resolved,
    Unresolved,
    after_search,
    after_slug,
    first_step,
    is_deep_enough,
    priority_at,
    read_entries,
    select,
)

ENTRY = RelatedEntry("Wet op de bakfiets")
WET = BwbHit("BWBR0000001", "Wet op de bakfiets", "wet")
OTHER = BwbHit("BWBR0000002", "Besluit bakfiets", "AMvB")


@pytest.mark.claim("S0-042")
def test_all_kinds_that_agents_report_are_read_and_the_kind_decides_nothing() -> None:
    document = [
        {"name": "Besluit A", "relation": "delegated_regeling"},
        {"name": " Wet  B\n", "relation": "source_regulation", "bwb_id": "BWBR0000001", "open_term": "redelijk"},
        {"name": "Wet C", "relation": "legal_basis", "slug": "wet_c", "more": 1},
    ]
    entries, dropped = read_entries(document)
    assert dropped == 0
    assert entries == (
        RelatedEntry("Besluit A", "delegated_regeling"),
        RelatedEntry("Wet B", "source_regulation", "BWBR0000001", None, "redelijk"),
        RelatedEntry("Wet C", "legal_basis", None, "wet_c"),
    )


@pytest.mark.parametrize("item", ["Wet A", None, 3, [], {}, {"name": ""}, {"name": 7}, {"name": "x" * 301}])
def test_what_has_no_usable_name_is_dropped_and_counted(item: object) -> None:
    entries, dropped = read_entries([item, {"name": "x" * 300}])
    assert (len(entries), dropped) == (1, 1)


@pytest.mark.parametrize("document", [None, "x", {"name": "Wet"}, 5])
def test_a_document_of_another_shape_has_no_entries(document: object) -> None:
    assert read_entries(document) == ((), 0)


def test_fields_of_a_wrong_type_count_as_absent() -> None:
    entries, _ = read_entries([{"name": "Wet", "bwb_id": 18451, "slug": ["x"], "relation": None}])
    assert entries == (RelatedEntry("Wet"),)
    (too_long,), _ = read_entries([{"name": "Wet", "slug": "é" * 200}])
    assert too_long.slug is None


def test_a_well_formed_id_settles_it() -> None:
    assert first_step(RelatedEntry("Wet", bwb_id="BWBR0018451", slug="x")) == Resolved("BWBR0018451", "id")


@pytest.mark.parametrize("bwb_id", ["bwbr0018451", "BWBR001845", "BWBR00184511", "BWBV0018451", "BWBR0018451\n"])
def test_a_malformed_id_is_ignored_and_the_slug_asked_for(bwb_id: str) -> None:
    assert first_step(RelatedEntry("Wet", bwb_id=bwb_id, slug="wet_x")) == AskSlug("wet_x")


def test_the_slug_of_a_name_agrees_with_the_corpus_about_accents() -> None:  # Q10
    assert first_step(RelatedEntry("Financiële-verhoudingswet")) == AskSlug("financiele_verhoudingswet")


def test_a_name_without_any_usable_character_goes_straight_to_the_search() -> None:
    assert first_step(RelatedEntry("§§")) == AskSearch("§§")


def test_a_known_national_law_settles_it() -> None:
    assert after_slug(ENTRY, "BWBR0000009") == Resolved("BWBR0000009", "slug")


def test_a_known_slug_of_a_local_law_ends_the_search_for_another() -> None:
    assert isinstance(after_slug(ENTRY, "CVDR100394_2"), Unresolved)


def test_an_unknown_slug_or_a_failed_lookup_leads_to_the_search_by_name() -> None:
    assert after_slug(ENTRY, None) == AskSearch("Wet op de bakfiets")


def test_the_only_hit_is_taken_also_when_it_comes_twice() -> None:
    assert after_search(ENTRY, [OTHER, OTHER]) == Resolved("BWBR0000002", "only_hit")


def test_several_hits_need_confirmation() -> None:
    hits = [OTHER, BwbHit("BWBR0000003", "Regeling bakfiets")]
    assert after_search(ENTRY, hits) == NeedsConfirmation(tuple(hits))


def test_of_several_hits_the_one_with_exactly_the_name_is_taken() -> None:  # Q11
    assert after_search(RelatedEntry("WET OP DE  bakfiets"), [OTHER, WET]) == Resolved("BWBR0000001", "exact_title")


def test_two_laws_with_exactly_the_name_need_confirmation() -> None:
    twin = BwbHit("BWBR0000004", "wet op de bakfiets")
    assert isinstance(after_search(ENTRY, [WET, OTHER, twin]), NeedsConfirmation)


def test_no_hit_and_hits_without_a_valid_id_are_unresolved() -> None:
    assert isinstance(after_search(ENTRY, []), Unresolved)
    assert isinstance(after_search(ENTRY, [BwbHit("BWBRxyz", "Wet op de bakfiets")]), Unresolved)


@pytest.mark.parametrize(("depth", "follows"), [(None, True), (0, True), (1, True), (2, False), (3, False)])
def test_related_laws_are_followed_below_the_depth_limit(depth: int | None, follows: bool) -> None:
    assert is_deep_enough(depth, RelatedLimits()) is follows
    assert not is_deep_enough(depth, RelatedLimits(max_depth=0))


@pytest.mark.claim("S1-048")
@pytest.mark.parametrize(("depth", "priority"), [(None, 39), (0, 39), (1, 38), (2, 37), (39, 0), (5000, 0)])
def test_priority_falls_with_depth_and_never_below_zero(depth: int | None, priority: int) -> None:
    assert priority_at(depth) == priority


def resolved(*numbers: int) -> list[Resolved]:
    return [Resolved(f"BWBR{number:07}", "id") for number in numbers]


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(f"BWBR{number:07}" for number in numbers)


def test_exhausted_laws_and_the_law_itself_are_left_out_and_duplicates_count_once() -> None:
    selection = select(
        [*resolved(1, 2, 3, 2), Unresolved("x"), NeedsConfirmation(())],
        source_law_id="BWBR0000001",
        exhausted=ids(3),
        active=(),
        limits=RelatedLimits(),
    )
    assert (selection.wanted, selection.own, selection.exhausted, selection.over_limit) == (ids(2), 1, 1, 0)


def test_the_limits_count_new_harvests_only() -> None:  # D60
    selection = select(
        resolved(*range(1, 31)),
        source_law_id="BWBR9999999",
        exhausted=(),
        active=ids(1, 25),
        limits=RelatedLimits(),
    )
    assert selection.wanted == ids(*range(1, 22), 25)
    assert selection.over_limit == 8


def test_what_job_and_law_made_before_counts_against_their_limits() -> None:
    limits = RelatedLimits(max_per_job=20, max_per_law=100)
    arguments = {"source_law_id": "BWBR9999999", "exhausted": (), "active": (), "limits": limits}
    assert len(select(resolved(*range(1, 31)), made_by_job=15, made_for_law=0, **arguments).wanted) == 5  # type: ignore[arg-type]
    assert len(select(resolved(*range(1, 31)), made_by_job=0, made_for_law=98, **arguments).wanted) == 2  # type: ignore[arg-type]


def test_a_limit_of_zero_is_no_limit() -> None:
    selection = select(
        resolved(*range(1, 301)),
        source_law_id="BWBR9999999",
        exhausted=(),
        active=(),
        limits=RelatedLimits(max_per_job=0, max_per_law=0),
        made_for_law=5000,
    )
    assert len(selection.wanted) == 300


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "slug", "bwb_id", "x"]), inner),
    )
)
def test_no_document_of_an_agent_breaks_the_reading(document: object) -> None:
    entries, dropped = read_entries(document)
    assert dropped >= 0
    for entry in entries:
        assert isinstance(first_step(entry), Resolved | AskSlug | AskSearch)
