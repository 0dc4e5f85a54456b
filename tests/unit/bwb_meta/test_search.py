"""Searching by name or id: what is asked, and one hit per work from what comes back."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from protocols.bwb.errors import MalformedLaw
from protocols.bwb.search import BwbHit, page_url, parse_hits, query_of
from protocols.bwb.urls import (
    BWB_REPOSITORY,
    cvdr_manifest_url,
    cvdr_text_url,
    manifest_url,
    rebased,
    toestand_url,
    wti_url,
)
from protocols.law_ids import CvdrId
from protocols.sru import SearchFailed, SearchRefused
from tests.kit import shared
from tests.kit.bwb_works import sru_diagnostic, sru_page

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bwb_meta"


def test_a_name_is_searched_in_titles_and_an_id_as_an_id() -> None:
    assert query_of("  zorgtoeslag ") == 'overheidbwb.titel any "zorgtoeslag"'
    assert query_of("BWBR0018451 ") == "dcterms.identifier==BWBR0018451"


@pytest.mark.parametrize("text", ["", "  ", "ab", '"*"', "&&&&"])
def test_too_little_to_ask_for_is_no_query(text: str) -> None:
    assert query_of(text) is None


def test_the_shortest_query_counts_bytes_not_letters() -> None:
    assert query_of("éa") == 'overheidbwb.titel any "éa"'


def test_nothing_of_a_query_can_leave_its_quotes() -> None:
    assert query_of('wet" or x="1') == 'overheidbwb.titel any "wet or x1"'
    assert query_of("art. 3-4 (b)") == 'overheidbwb.titel any "art. 3-4 b"'


def test_the_address_holds_the_parameters_in_order_form_encoded() -> None:
    query = query_of("café wet") or ""
    url = page_url("https://search.test/sru/Search", query)
    assert url == (
        "https://search.test/sru/Search?operation=searchRetrieve&version=1.2&x-connection=BWB"
        "&query=overheidbwb.titel+any+%22caf%C3%A9+wet%22&maximumRecords=100"
    )
    later = parse_qs(urlsplit(page_url("https://search.test/x", query, start=101)).query)
    assert later["startRecord"] == ["101"]


def test_one_hit_per_work_in_order_with_positions() -> None:
    page = parse_hits((FIXTURES / "sru_page.xml").read_bytes())
    assert page.hits == (
        (1, "BWBR0099010", BwbHit("BWBR0099010", "Regeling uitleen bakfietsen", "ministeriele-regeling")),
        (5, "BWBR0099013", BwbHit("BWBR0099013", "Bakfietswet 2024", "")),
    )
    assert (page.total_records, page.next_start) == (9, 6)


def test_positions_go_on_on_a_later_page() -> None:
    page = parse_hits(sru_page([("BWBR0000101", "Wet", "wet")], total=101), start=101)
    assert page.hits[0][0] == 101
    assert page.next_start is None


def test_a_server_that_points_backwards_does_not_keep_us_asking() -> None:
    data = sru_page([("BWBR0000101", "Wet", "wet")], total=500, following=1)
    assert parse_hits(data, start=101).next_start is None
    assert parse_hits(sru_page([], total=500, following=200), start=101).next_start is None


def test_a_missing_next_position_is_worked_out_from_the_total() -> None:
    assert parse_hits(sru_page([("BWBR0000101", "Wet", "wet")], total=500)).next_start == 2


def test_no_hits_are_an_empty_answer() -> None:
    page = parse_hits(sru_page([], total=0))
    assert (page.hits, page.total_records, page.next_start) == ((), 0, None)


def test_a_diagnostic_is_an_error_with_the_words_of_the_service() -> None:
    with pytest.raises(SearchRefused, match="Unsupported index; info:srw/diagnostic/1/10"):
        parse_hits(sru_diagnostic("Unsupported\n index"))
    with pytest.raises(SearchRefused):
        parse_hits(b"<diagnostics/>")


def test_another_document_is_no_answer() -> None:
    with pytest.raises(SearchFailed, match="<explain>"):
        parse_hits(b"<explain/>")
    with pytest.raises(MalformedLaw):
        parse_hits(b"<html><body>maintenance</body></html>")


def test_the_real_page_of_one_law_in_three_versions_is_one_hit() -> None:
    page = parse_hits(shared.path("data/bwb/sru/bwb_grondwet_page.xml").read_bytes())
    assert [hit for _, _, hit in page.hits] == [BwbHit("BWBR0001840", "Grondwet", "wet")]
    assert (page.total_records, page.next_start) == (11, 4)


def test_the_real_diagnostic_is_an_error() -> None:
    with pytest.raises(SearchRefused, match="record schema is known"):
        parse_hits(shared.path("data/bwb/sru/bwb_diagnostic.xml").read_bytes())


def test_addresses_have_the_layout_of_the_repository_below_any_base() -> None:
    assert manifest_url(BWB_REPOSITORY, "BWBR0018451") == (
        "https://repository.officiele-overheidspublicaties.nl/bwb/BWBR0018451/manifest.xml"
    )
    assert wti_url("file:///mirror", "BWBR0018451") == "file:///mirror/bwb/BWBR0018451/BWBR0018451.WTI"
    assert toestand_url("http://127.0.0.1:8", "BWBR0011353", "2025-04-25_3") == (
        "http://127.0.0.1:8/bwb/BWBR0011353/2025-04-25_3/xml/BWBR0011353_2025-04-25_3.xml"
    )
    assert cvdr_manifest_url("http://m", "CVDR100394") == "http://m/cvdr/CVDR100394/manifest.xml"
    assert cvdr_text_url("http://m", CvdrId("CVDR100394", 2)) == "http://m/cvdr/CVDR100394/2/xml/CVDR100394_2.xml"
    with pytest.raises(ValueError, match="no version"):
        cvdr_text_url("http://m", CvdrId("CVDR100394"))


def test_a_public_address_is_led_to_the_mirror_and_no_other_is() -> None:
    public = f"{BWB_REPOSITORY}/cvdr/CVDR1/1/xml/CVDR1_1.xml"
    assert rebased(public, public=BWB_REPOSITORY, base="http://m") == "http://m/cvdr/CVDR1/1/xml/CVDR1_1.xml"
    stranger = "https://repository.officiele-overheidspublicaties.nl.evil.test/x"
    assert rebased(stranger, public=BWB_REPOSITORY, base="http://m") == stranger
