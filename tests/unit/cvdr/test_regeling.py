"""From CVDR XML to a law."""

from datetime import date
from pathlib import Path

import pytest

from protocols.bwb.errors import ConversionError, MalformedLaw, RefusedLaw
from protocols.bwb.toestand import Conversion, Style
from protocols.cvdr.metadata import CvdrMetadata
from protocols.cvdr.regeling import convert, convert_alone, regeling_loss
from protocols.cvdr.vocabulary import link_target
from protocols.law import Layer
from protocols.law_ids import parse_cvdr_id
from protocols.lawyaml import dump_law, law_file, load_law
from tests.kit import shared
from tests.kit.law_schema import assert_schema_valid
from tests.kit.yaml_readers import read_both

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cvdr"
OWN = (FIXTURES / "CVDR990001_2.xml").read_bytes()
FALLBACK = date(2024, 1, 1)


def converted(xml: bytes = OWN, law_id: str = "CVDR990001_2", style: Style = Style.FULL, **more: object) -> Conversion:
    return convert(xml, parse_cvdr_id(law_id), style, fallback_day=FALLBACK, **more)  # type: ignore[arg-type]


def small(meta: str = "", body: str = "") -> bytes:
    return (
        '<cvdr xmlns="http://standaarden.overheid.nl/cvdr/terms/" xmlns:d="http://purl.org/dc/terms/">'
        f"<meta>{meta}</meta><body><regeling><regeling-tekst>{body}</regeling-tekst></regeling></body></cvdr>"
    ).encode()


@pytest.mark.parametrize("style", [Style.FULL, Style.ARTICLE])
def test_a_regulation_is_converted_to_the_byte(style: Style) -> None:
    expected = (FIXTURES / f"CVDR990001_2.{style.value}.yaml").read_text(encoding="utf-8")
    assert dump_law(converted(style=style).law) == expected


@pytest.mark.parametrize("style", list(Style))
def test_the_file_meets_the_law_schema_and_reads_the_same_everywhere(style: Style) -> None:
    written = dump_law(converted(style=style).law)
    assert_schema_valid(written)
    assert read_both(written) == load_law(written)


def test_no_word_of_the_text_is_lost_in_style_full() -> None:
    assert_nothing_lost(OWN, dump_law(converted().law))


def assert_nothing_lost(xml: bytes, written: str) -> None:
    report = regeling_loss(xml, load_law(written))
    assert report.lost == ()
    assert report.characters_in > 0


def test_the_head_comes_from_the_metadata() -> None:
    law = converted(valid_to=date(2024, 6, 30)).law
    assert law.layer is Layer.GEMEENTELIJKE_VERORDENING
    assert law.area_code == "GM0373"
    assert law.organisation == "Bergen (NH)"
    assert (law.publication_date, law.valid_from, law.valid_to) == (
        date(2023, 5, 6),
        date(2023, 6, 1),
        date(2024, 6, 30),
    )
    assert law.slug == "stepverordening_bergen"
    assert str(law_file(law)) == ("regulation/nl/gemeentelijke_verordening/stepverordening_bergen/2023-06-01.yaml")


def test_national_laws_that_a_regulation_cites_are_followed() -> None:
    assert converted().referenced_bwb_ids == ("BWBR0004825", "BWBR0005416")
    assert converted(style=Style.ARTICLE).referenced_bwb_ids == ("BWBR0004825",)


def test_the_search_record_fills_what_the_text_does_not_say() -> None:
    record = CvdrMetadata(None, "Dijkregels", "Rivierenland", "Waterschap", date(2022, 1, 2), date(2022, 2, 1))
    law = converted(small(body="<artikel><kop><nr>1</nr></kop><al>x</al></artikel>"), record=record).law
    assert (law.title, law.layer, law.area_code) == ("Dijkregels", Layer.WATERSCHAPS_VERORDENING, "WS0621")
    assert (law.publication_date, law.valid_from) == (date(2022, 1, 2), date(2022, 2, 1))
    assert law.warnings == ()
    assert_schema_valid(dump_law(law))


def test_missing_facts_are_warned_about_and_replaced() -> None:
    law = converted(small()).law
    assert law.title == "CVDR990001_2"
    assert law.valid_from == law.publication_date == FALLBACK
    assert any("Unknown organisation type ''" in warning for warning in law.warnings)
    assert any("No CBS code" in warning and "gemeente_code" in warning for warning in law.warnings)
    assert any("valid_from is set to 2024-01-01" in warning for warning in law.warnings)
    assert any("no articles" in warning for warning in law.warnings)


def test_articles_without_a_number_are_numbered_and_link_to_the_page() -> None:
    body = "<artikel><kop><label/></kop><al>een</al></artikel><artikel><kop><nr/></kop><al>twee</al></artikel>"
    for style in (Style.FULL, Style.ARTICLE):
        law = converted(small(body=body), style=style).law
        assert [(article.number, article.text) for article in law.articles] == [("_1", "een"), ("_2", "twee")]
        assert {article.url for article in law.articles} == {"https://lokaleregelgeving.overheid.nl/CVDR990001_2"}
        assert any("number" in warning for warning in law.warnings)


def test_an_explanation_inside_an_article_stays_in_it() -> None:
    body = "<artikel><kop><nr>1</nr></kop><al>regel</al><toelichting><al>waarom</al></toelichting></artikel>"
    law = converted(small(body=body)).law
    assert law.annexes == ()
    assert law.articles[0].text == "regel\n\nwaarom"


def test_item_markers_in_attributes_and_in_elements_are_both_kept() -> None:
    body = (
        '<artikel><kop><nr>1</nr></kop><lijst><li nr="a."><al>een</al></li>'
        '<li nr="x"><li.nr>b.</li.nr><al>twee</al></li></lijst></artikel>'
    )
    assert converted(small(body=body)).law.articles[0].text == "a. een\n\nb. twee"


@pytest.mark.parametrize(
    ("doc", "target"),
    [
        ("CVDR://90762_1", "https://lokaleregelgeving.overheid.nl/CVDR90762_1"),
        ("1.1:CVDR77862_1", "https://lokaleregelgeving.overheid.nl/CVDR77862_1"),
        ("CVDR://CVDR90762", "https://lokaleregelgeving.overheid.nl/CVDR90762"),
        (
            "http://wetten.overheid.nl/BWBR0005416/geldigheidsdatum_01-01-2010#Artikel149",
            "jci1.3:c:BWBR0005416&artikel=149",
        ),
        ("http://wetten.overheid.nl/BWBR0005416/", "http://wetten.overheid.nl/BWBR0005416/"),
        ("1.0:v:BWB:BWBR0005416&artikel=149", "1.0:v:BWB:BWBR0005416&artikel=149"),
        ("https://example.org/a#b", "https://example.org/a#b"),
        ("", ""),
    ],
)
def test_citations_become_addresses_that_work(doc: str, target: str) -> None:
    assert link_target(doc) == target


def test_the_text_of_another_regulation_is_refused() -> None:
    with pytest.raises(MalformedLaw, match="is the text of CVDR990001_2"):
        converted(law_id="CVDR990001_3")


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"<html><body/></html>",
        b"<toestand/>",
        OWN[:900],
        b"<error>x</error>",
        b"\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><cvdr>&b;</cvdr>",
    ],
)
def test_what_is_no_regulation_is_a_typed_failure(xml: bytes) -> None:
    with pytest.raises(ConversionError):
        converted(xml)


def test_a_deeply_nested_regulation_is_converted_or_refused_but_never_crashes() -> None:
    body = "<lijst><li nr='a'>" * 100 + "<al>x</al>" + "</li></lijst>" * 100
    law = converted(small(body=f"<artikel><kop><nr>1</nr></kop>{body}</artikel>")).law
    assert "x" in law.articles[0].text


def test_headings_with_all_their_words_in_the_label_are_found_however_many_there_are() -> None:
    body = "".join(
        f"<hoofdstuk><kop><label>{n}. Van de hekken en poorten</label></kop><structuurtekst><al>Hek {n}.</al>"
        "</structuurtekst></hoofdstuk>"
        for n in range(1, 9)
    )
    xml = small(body=body)
    written = dump_law(converted(xml).law)
    assert_nothing_lost(xml, written)
    without = load_law(written)
    without["structure"][5]["title"] = ""
    assert [piece.text for piece in regeling_loss(xml, without).lost] == ["6. Van de hekken en poorten"]


def test_metadata_of_a_regulation_are_left_out_on_purpose_and_counted() -> None:
    xml = small("<d:title>Een naam</d:title>", "<artikel><kop><nr>1</nr></kop><al>Tekst.</al></artikel>")
    report = regeling_loss(xml, load_law(dump_law(converted(xml).law)))
    assert report.left_out == {"meta": len("Eennaam")}


def test_a_regulation_alone_says_which_it_is_and_from_when() -> None:
    assert convert_alone(OWN).law == converted().law
    with pytest.raises(MalformedLaw, match="no CVDR id"):
        convert_alone(small())
    identified = small("<d:identifier>CVDR990002_1</d:identifier>")
    with pytest.raises(RefusedLaw, match="--date"):
        convert_alone(identified)
    assert convert_alone(identified, day=FALLBACK).law.valid_from == FALLBACK


@pytest.mark.parametrize("name", ["CVDR100394_2", "CVDR112779_1"])
@pytest.mark.parametrize("style", list(Style))
def test_real_regulations_convert_schema_valid(name: str, style: Style) -> None:
    xml = shared.path(f"data/bwb/cvdr/{name}.xml").read_bytes()
    written = dump_law(converted(xml, name, style).law)
    assert_schema_valid(written)
    assert read_both(written) == load_law(written)


@pytest.mark.parametrize("name", ["CVDR100394_2", "CVDR112779_1"])
def test_no_word_of_a_real_regulation_is_lost_in_style_full(name: str) -> None:
    xml = shared.path(f"data/bwb/cvdr/{name}.xml").read_bytes()
    assert_nothing_lost(xml, dump_law(converted(xml, name).law))
