"""Search records of decentral regulations."""

from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from protocols.cvdr.metadata import layer_of
from protocols.cvdr.search import page_url, parse_hits, query_of, record_query, versions_query
from protocols.law import Layer
from protocols.law_ids import CvdrId
from protocols.sru import SearchFailed, SearchRefused
from tests.kit import shared

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cvdr"


def test_a_page_gives_one_hit_per_version_with_its_facts() -> None:
    page = parse_hits((FIXTURES / "sru_versions.xml").read_bytes())
    assert [(position, work, str(hit.cvdr_id)) for position, work, hit in page.hits] == [
        (1, "CVDR990001", "CVDR990001_2"),
        (2, "CVDR990001", "CVDR990001_1"),
        (3, "CVDR990003", "CVDR990003_1"),
    ]
    assert page.total_records == 4
    hit = page.hits[0][2]
    assert hit.title == "Stepverordening Bergen"
    assert hit.url == "https://lokaleregelgeving.overheid.nl/CVDR990001_2"
    assert hit.metadata.creator == "Bergen (NH)"
    assert hit.metadata.publication == date(2023, 5, 9)
    assert hit.metadata.in_force == date(2023, 6, 1)
    assert hit.metadata.expired == date(2024, 7, 1)
    assert hit.xml_url == "https://repository.officiele-overheidspublicaties.nl/cvdr/CVDR990001/2/xml/CVDR990001_2.xml"


def test_issued_comes_before_available() -> None:
    page = parse_hits((FIXTURES / "sru_versions.xml").read_bytes())
    assert page.hits[1][2].metadata.publication == date(2020, 1, 2)


def test_an_address_that_is_not_https_is_not_believed() -> None:
    page = parse_hits((FIXTURES / "sru_versions.xml").read_bytes())
    assert page.hits[1][2].xml_url is None


def test_the_scheme_of_the_creator_stands_in_for_the_organisation_type() -> None:
    page = parse_hits((FIXTURES / "sru_versions.xml").read_bytes())
    assert page.hits[2][2].metadata.organisation_type == "Waterschap"


def test_an_answer_without_records_has_no_hits_and_a_diagnostic_is_an_error() -> None:
    empty = b"<searchRetrieveResponse><numberOfRecords>0</numberOfRecords></searchRetrieveResponse>"
    assert parse_hits(empty).hits == ()
    with pytest.raises(SearchRefused, match="unsupported index"):
        parse_hits(b"<diagnostics><diagnostic><message>unsupported index</message></diagnostic></diagnostics>")
    with pytest.raises(SearchFailed):
        parse_hits(b"<html2/>")


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("CVDR990001", "workid=CVDR990001"),
        (" CVDR990001_2 ", "workid=CVDR990001"),
        ('step" or "x', 'dcterms.title any "step or x"'),
        ("ab", None),
        ('""""', None),
    ],
)
def test_what_a_person_types_becomes_a_query_that_cannot_be_broken_out_of(typed: str, query: str | None) -> None:
    assert query_of(typed) == query


def test_the_queries_for_one_version_and_for_all_of_them() -> None:
    wanted = CvdrId("CVDR990001", 2)
    assert record_query(wanted) == "dcterms.identifier==CVDR990001_2"
    assert versions_query(wanted) == "workid=CVDR990001"
    sent = parse_qs(urlsplit(page_url("https://search.example/sru", record_query(wanted), start=101)).query)
    assert sent["x-connection"] == ["CVDR"]
    assert sent["query"] == ["dcterms.identifier==CVDR990001_2"]
    assert sent["startRecord"] == ["101"]


@pytest.mark.parametrize(
    ("kind", "layer"),
    [
        ("Gemeente", Layer.GEMEENTELIJKE_VERORDENING),
        ("gemeenten", Layer.GEMEENTELIJKE_VERORDENING),
        ("Provincies", Layer.PROVINCIALE_VERORDENING),
        ("Provincie", Layer.PROVINCIALE_VERORDENING),
        (" waterschappen ", Layer.WATERSCHAPS_VERORDENING),
    ],
)
def test_the_kind_of_maker_decides_the_layer(kind: str, layer: Layer) -> None:
    assert layer_of(kind) == (layer, None)


def test_an_unknown_kind_of_maker_is_a_municipality_with_a_warning() -> None:
    layer, warning = layer_of("Regionaal Samenwerkingsorgaan")
    assert layer is Layer.GEMEENTELIJKE_VERORDENING
    assert warning == (
        "Unknown organisation type 'regionaal samenwerkingsorgaan', defaulting to GEMEENTELIJKE_VERORDENING"
    )


def test_a_real_record_names_the_address_of_its_text() -> None:
    record = shared.path("data/bwb/sru/cvdr_record_enriched_stub.xml").read_bytes()
    identified = record.replace(b"<owmskern>", b"<owmskern><identifier>CVDR717960_1</identifier>", 1)
    page = parse_hits(b"<searchRetrieveResponse>" + identified.partition(b"?>")[2] + b"</searchRetrieveResponse>"
                      if identified.startswith(b"<?xml") else
                      b"<searchRetrieveResponse>" + identified + b"</searchRetrieveResponse>")  # fmt: skip
    hit = page.hits[0][2]
    assert hit.xml_url == "https://repository.officiele-overheidspublicaties.nl/cvdr/CVDR717960/1/xml/CVDR717960_1.xml"
    assert layer_of(hit.metadata.organisation_type)[0] is Layer.PROVINCIALE_VERORDENING
