"""Which version of a decentral regulation is meant."""

from datetime import date
from pathlib import Path

import pytest

from protocols.bwb.errors import MalformedLaw
from protocols.cvdr.search import parse_hits
from protocols.cvdr.versions import (
    NoVersions,
    Version,
    VersionUnknown,
    choose_version,
    merged,
    parse_manifest,
    versions_of_hits,
)
from protocols.law_ids import CvdrId

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cvdr"
WORK = CvdrId("CVDR990001")
TODAY = date(2024, 3, 1)
TWO = (
    Version(1, date(2020, 2, 1), date(2023, 6, 1)),
    Version(2, date(2023, 6, 1), date(2024, 7, 1)),
)


def test_search_hits_give_the_versions_of_the_work_by_number() -> None:
    hits = [hit for _, _, hit in parse_hits((FIXTURES / "sru_versions.xml").read_bytes()).hits]
    versions = versions_of_hits(hits, "CVDR990001")
    assert [(v.number, v.start, v.end) for v in versions] == [(v.number, v.start, v.end) for v in TWO]


@pytest.mark.parametrize(
    ("day", "number"),
    [(date(2020, 2, 1), 1), (date(2023, 5, 31), 1), (date(2023, 6, 1), 2), (date(2024, 6, 30), 2)],
)
def test_the_requested_date_picks_the_version(day: date, number: int) -> None:
    choice = choose_version(WORK, TWO, requested=day, today=TODAY)
    assert choice.cvdr_id == CvdrId("CVDR990001", number)
    assert choice.warnings == ()


@pytest.mark.parametrize("day", [date(2019, 1, 1), date(2024, 7, 1)])
def test_a_date_outside_every_period_gives_the_newest_with_a_warning(day: date) -> None:
    choice = choose_version(WORK, TWO, requested=day, today=TODAY)
    assert choice.version.number == 2
    assert day.isoformat() in choice.warnings[0]


def test_without_a_date_the_version_in_force_today_is_meant() -> None:
    versions = (*TWO, Version(3, date(2024, 7, 1)))
    assert choose_version(WORK, versions, requested=None, today=TODAY).version.number == 2


def test_without_a_date_and_nothing_in_force_the_newest_is_meant_without_a_warning() -> None:
    choice = choose_version(WORK, TWO, requested=None, today=date(2025, 1, 1))
    assert choice.version.number == 2
    assert choice.warnings == ()


def test_the_pointer_of_the_manifest_says_which_one_is_the_newest() -> None:
    undated = (Version(1), Version(2), Version(3))
    assert choose_version(WORK, undated, requested=None, today=TODAY, latest=2).version.number == 2
    assert choose_version(WORK, undated, requested=None, today=TODAY).version.number == 3
    assert choose_version(WORK, undated, requested=None, today=TODAY, latest=9).version.number == 3


def test_an_id_with_a_version_means_that_version_whatever_the_date() -> None:
    choice = choose_version(CvdrId("CVDR990001", 1), TWO, requested=date(2024, 1, 1), today=TODAY)
    assert choice.version.number == 1
    assert "does not apply on 2024-01-01" in choice.warnings[0]


def test_a_version_that_does_not_exist_is_refused_for_good_with_those_that_do() -> None:
    with pytest.raises(VersionUnknown, match="has version 1, 2"):
        choose_version(CvdrId("CVDR990001", 7), TWO, requested=None, today=TODAY)


def test_no_version_anywhere_may_pass() -> None:
    with pytest.raises(NoVersions, match="No versions found"):
        choose_version(WORK, (), requested=None, today=TODAY)


def test_a_named_version_that_no_source_lists_is_tried_at_its_address() -> None:
    choice = choose_version(WORK.at(3), (), requested=date(2021, 1, 1), today=TODAY)
    assert (choice.cvdr_id, choice.valid_to) == (WORK.at(3), None)
    assert choice.warnings == ("CVDR990001_3: neither search nor manifest knows it",)


def test_only_the_end_of_the_last_version_is_the_end_of_the_regulation() -> None:
    assert choose_version(WORK, TWO, requested=date(2021, 1, 1), today=TODAY).valid_to is None
    assert choose_version(WORK, TWO, requested=date(2024, 1, 1), today=TODAY).valid_to == date(2024, 6, 30)
    open_end = (Version(1, date(2020, 2, 1)),)
    assert choose_version(WORK, open_end, requested=None, today=TODAY).valid_to is None


def manifest(body: str, latest: str = "") -> bytes:
    pointer = f' _latestItem="{latest}"' if latest else ""
    return f"<repository><work{pointer}>{body}</work></repository>".encode()


@pytest.mark.parametrize(
    "label", ["CVDR990001_2.xml", "2/xml/CVDR990001_2.xml", "https://x/CVDR990001_2", " 2 ", "CVDR990001_2"]
)
def test_a_version_is_read_from_a_file_name_a_path_or_a_bare_number(label: str) -> None:
    assert [v.number for v in parse_manifest(manifest(f'<item label="{label}"/>'), "CVDR990001").versions] == [2]


@pytest.mark.parametrize("label", ["CVDR990002_2.xml", "xml", "", "CVDR990001", "CVDR9900011_2", "2024-01-01"])
def test_a_label_of_something_else_names_no_version(label: str) -> None:
    assert parse_manifest(manifest(f'<item label="{label}"/>'), "CVDR990001").versions == ()


def test_versions_are_listed_once_by_number_with_the_periods_that_the_manifest_states() -> None:
    body = (
        '<expression label="10"><metadata><datum_inwerkingtreding>2024-01-01</datum_inwerkingtreding>'
        "<einddatum>9999-12-31</einddatum></metadata>"
        '<manifestation label="xml"><item label="CVDR990001_10.xml"/></manifestation></expression>'
        '<expression label="2"><metadata><datum_inwerkingtreding>2020-01-01</datum_inwerkingtreding>'
        "<einddatum>2023-12-31</einddatum></metadata></expression>"
    )
    found = parse_manifest(manifest(body, "10/xml/CVDR990001_10.xml"), "CVDR990001")
    assert found.versions == (
        Version(2, date(2020, 1, 1), date(2024, 1, 1)),
        Version(10, date(2024, 1, 1), None),
    )
    assert found.latest == 10


def test_the_pointer_alone_names_a_version_too() -> None:
    found = parse_manifest(manifest("", "3/xml/CVDR990001_3.xml"), "CVDR990001")
    assert found.versions == (Version(3),)


def test_a_manifest_that_is_no_xml_is_the_parsers_failure() -> None:
    with pytest.raises(MalformedLaw):
        parse_manifest(b"<html><body>fout</body></html>", "CVDR990001")


def test_what_the_search_knows_of_a_version_wins_over_the_manifest() -> None:
    found = parse_manifest(manifest('<item label="CVDR990001_2.xml"/><item label="CVDR990001_3.xml"/>'), "CVDR990001")
    both = merged(TWO, found)
    assert [version.number for version in both] == [1, 2, 3]
    assert both[1] is TWO[1]
    assert merged(TWO, None) == TWO
