"""Which text of a work is harvested, and what a work without one means."""

from datetime import date
from pathlib import Path

import pytest

from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.bwb.manifest import Choice, ManifestIncomplete, choose, parse_manifest
from protocols.failures import JobEnd, LawEnd, NotHarvestable, verdict_of
from tests.kit import shared
from tests.kit.bwb_works import Toestand, manifest_xml

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bwb_meta"
LAW = "BWBR0099010"
TODAY = date(2026, 11, 30)


def chosen(
    *texts: Toestand, day: str | None = None, today: date = TODAY, latest: str | None = None, withdrawn: str = ""
) -> Choice:
    manifest = parse_manifest(manifest_xml(LAW, texts, latest=latest, withdrawn=withdrawn), LAW)
    return choose(manifest, requested=date.fromisoformat(day) if day else None, today=today)


FIRST = Toestand("2019-01-01_0", "2019-12-31")
SECOND = Toestand("2020-01-01_0", "2025-06-30")
THIRD = Toestand("2025-07-01_0")
FUTURE = Toestand("2027-01-01_0")


def test_all_facts_of_a_manifest_are_read() -> None:
    manifest = parse_manifest((FIXTURES / "manifest_knowledge_versions.xml").read_bytes(), LAW)
    assert manifest.latest_label == "2026-01-01_1"
    assert manifest.in_force == date(2020, 1, 1)
    assert manifest.withdrawn is None
    first, _, third, last = manifest.expressions
    assert (first.label, first.start, first.end) == ("2020-01-01_0", date(2020, 1, 1), date(2025, 4, 24))
    assert (first.size_bytes, first.sha512, first.deleted) == (812, "00ff", False)
    assert (third.number, third.seen_from) == (3, date(2025, 7, 1))
    assert (last.end, last.deleted, last.size_bytes) == (date.max, False, None)


def test_a_manifest_wrapped_in_another_root_reads_the_same() -> None:
    assert parse_manifest(manifest_xml(LAW, [FIRST], wrapped=True), LAW) == parse_manifest(
        manifest_xml(LAW, [FIRST]), LAW
    )


def test_without_a_date_the_text_in_force_today_is_taken_not_a_future_latest_item() -> None:
    choice = chosen(SECOND, Toestand("2025-07-01_0", "2026-12-31"), FUTURE)
    assert choice.label == "2025-07-01_0"
    assert choice.warnings == ()
    assert choice.valid_to is None


@pytest.mark.parametrize(
    ("day", "label"),
    [
        ("2019-06-01", "2019-01-01_0"),
        ("2020-01-01", "2020-01-01_0"),
        ("2025-06-30", "2020-01-01_0"),
        ("2026-01-01", "2025-07-01_0"),
    ],
)
def test_a_date_inside_a_period_gives_its_text_both_ends_included(day: str, label: str) -> None:
    choice = chosen(FIRST, SECOND, THIRD, day=day)
    assert (choice.label, choice.warnings) == (label, ())


@pytest.mark.parametrize("day", ["1999-01-01", "2022-01-01"])
def test_a_date_before_the_first_text_or_in_a_gap_gives_the_newest_with_a_warning(day: str) -> None:
    choice = chosen(FIRST, THIRD, day=day)
    assert choice.label == "2025-07-01_0"
    assert choice.warnings == (f"{LAW} has no text for {day}: took the newest, valid from 2025-07-01",)


def test_a_date_after_repeal_gives_the_last_text_with_its_end() -> None:
    choice = chosen(FIRST, SECOND, day="2026-01-01")
    assert (choice.label, choice.valid_to) == ("2020-01-01_0", date(2025, 6, 30))
    assert choice.warnings == (
        f"{LAW} has no text for 2026-01-01: took the newest, valid from 2020-01-01 to 2025-06-30",
    )


def test_without_a_date_a_repealed_law_gives_what_the_pointer_names() -> None:
    choice = chosen(FIRST, SECOND, latest="2019-01-01_0")
    assert choice.label == "2019-01-01_0"
    assert len(choice.warnings) == 1


def test_a_law_with_future_texts_only_gives_the_latest_and_says_so() -> None:
    choice = chosen(FUTURE)
    assert choice.valid_from == date(2027, 1, 1)
    assert "no text for 2026-11-30" in choice.warnings[0]


def test_the_real_label_is_kept_and_the_knowledge_version_of_today_wins() -> None:
    manifest = parse_manifest((FIXTURES / "manifest_knowledge_versions.xml").read_bytes(), LAW)
    assert choose(manifest, requested=None, today=TODAY).label == "2026-01-01_1"
    assert choose(manifest, requested=date(2025, 5, 1), today=TODAY).label == "2025-04-25_3"
    assert choose(manifest, requested=date(2025, 5, 1), today=date(2025, 5, 1)).label == "2025-04-25_0"


def test_among_equal_knowledge_windows_the_highest_number_wins() -> None:
    assert (
        chosen(Toestand("2020-01-01_0"), Toestand("2020-01-01_10"), Toestand("2020-01-01_9")).label == "2020-01-01_10"
    )


def test_a_deleted_text_that_matches_every_date_is_ignored() -> None:  # BW-03
    choice = chosen(Toestand("2019-01-01_0", deleted=True), Toestand("2026-02-01_0"))
    assert (choice.label, choice.warnings) == ("2026-02-01_0", ())


def test_a_pointer_at_a_deleted_text_is_not_followed() -> None:
    choice = chosen(FIRST, Toestand("2026-12-01_0", deleted=True), latest="2026-12-01_0")
    assert choice.label == "2019-01-01_0"


@pytest.mark.claim("S0-020")
def test_a_work_with_deleted_texts_only_is_withdrawn() -> None:  # BW-03, D35
    with pytest.raises(NotHarvestable) as caught:
        chosen(Toestand("2019-01-01_0", deleted=True))
    assert caught.value.to_result() == {"skipped": {"kind": "withdrawn"}}
    with pytest.raises(NotHarvestable) as caught:
        chosen(Toestand("2019-01-01_0", deleted=True), withdrawn="2021-04-21", latest="")
    assert caught.value.to_result() == {"skipped": {"kind": "withdrawn", "date": "2021-04-21"}}


@pytest.mark.claim("S0-020")
@pytest.mark.parametrize(
    ("in_force", "withdrawn", "skipped"),
    [
        ("", "2013-01-01", {"kind": "withdrawn", "date": "2013-01-01"}),
        ("2022-01-01", "2022-01-01", {"kind": "withdrawn", "date": "2022-01-01"}),
        ("2027-01-01", "", {"kind": "not_yet_in_force", "date": "2027-01-01"}),
        ("", "", {"kind": "announced"}),
    ],
)
def test_a_work_without_texts_says_why_it_has_none(in_force: str, withdrawn: str, skipped: dict[str, str]) -> None:
    # BW-01: withdrawal wins when both dates are there, also when they are equal
    manifest = parse_manifest(manifest_xml(LAW, in_force=in_force, withdrawn=withdrawn), LAW)
    with pytest.raises(NotHarvestable) as caught:
        choose(manifest, requested=None, today=TODAY)
    assert caught.value.to_result() == {"skipped": skipped}
    assert (verdict_of(caught.value).job, verdict_of(caught.value).law) == (JobEnd.COMPLETE, LawEnd.NOT_HARVESTABLE)


def test_texts_without_the_pointer_are_an_error_that_may_pass_not_an_absence() -> None:  # BW-01
    with pytest.raises(ManifestIncomplete, match="_latestItem") as caught:
        chosen(FIRST, latest="")
    assert verdict_of(caught.value).job is JobEnd.RETRY


def test_a_pointer_alone_is_followed_with_a_warning() -> None:
    choice = chosen(latest="2024-05-01_2")
    assert (choice.label, choice.valid_from, choice.valid_to) == ("2024-05-01_2", date(2024, 5, 1), None)
    assert "no readable expression" in choice.warnings[0]


def test_an_end_date_is_the_laws_only_on_its_last_text() -> None:
    assert chosen(FIRST, SECOND, day="2019-02-02").valid_to is None
    assert chosen(FIRST, SECOND, day="2020-02-02").valid_to == date(2025, 6, 30)
    assert chosen(FIRST, THIRD, day="2026-02-02").valid_to is None
    assert chosen(FIRST, Toestand("2027-01-01_0", deleted=True), day="2019-02-02").valid_to == date(2019, 12, 31)


@pytest.mark.parametrize(
    "text",
    [
        Toestand("../../etc_0", start="2020-01-01"),
        Toestand("2020-01-01_0", start="../../../tmp/x"),
        Toestand("2020-02-30_0"),
        Toestand("2020-01-01", start="2020-01-01"),
        Toestand("2020-01-01_0", end="soon"),
    ],
)
def test_labels_and_dates_that_could_not_go_into_an_address_are_left_out(text: Toestand) -> None:
    choice = chosen(text, THIRD)
    assert choice.label == "2025-07-01_0"
    assert "left out expression" in choice.warnings[0]
    with pytest.raises(ManifestIncomplete):
        chosen(text, latest="")


def test_a_malformed_pointer_counts_as_missing() -> None:
    with pytest.raises(ManifestIncomplete, match="_latestItem"):
        chosen(FIRST, latest="../../secret")


def test_the_manifest_of_another_law_and_one_without_work_are_refused() -> None:
    with pytest.raises(ManifestIncomplete, match="BWBR0000001"):
        parse_manifest(manifest_xml("BWBR0000001"), LAW)
    with pytest.raises(ManifestIncomplete, match="no element <work>"):
        parse_manifest(b"<repository/>", LAW)


def test_what_is_no_xml_is_the_parsers_typed_failure() -> None:
    with pytest.raises(MalformedLaw):
        parse_manifest(manifest_xml(LAW, [FIRST])[:-20], LAW)
    with pytest.raises(RefusedLaw):
        parse_manifest(b'<!DOCTYPE work [<!ENTITY x SYSTEM "file:///etc/hostname">]><work>&x;</work>', LAW)


def test_a_real_manifest_resolves_like_the_public_site() -> None:
    data = shared.path("data/bwb/BWBR0045754/manifest.xml").read_bytes()
    manifest = parse_manifest(data, "BWBR0045754")
    assert len(manifest.expressions) == 4
    assert choose(manifest, requested=None, today=TODAY).label == "2023-04-01_0"
    old = choose(manifest, requested=date(2022, 7, 31), today=TODAY)
    assert (old.label, old.valid_to, old.expression.size_bytes) == ("2022-05-01_0", None, 465371)
