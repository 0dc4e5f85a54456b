"""Ids, dates, slugs and public addresses of laws."""

from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.failures import InvalidInput
from protocols.law_ids import (
    CvdrId,
    InvalidDate,
    InvalidLawId,
    LawSource,
    anchor_url,
    cvdr_url,
    law_source,
    parse_bwb_id,
    parse_cvdr_id,
    parse_date,
    slugify,
)


@pytest.mark.parametrize(
    "law_id", ["", "BWBR123456", "BWBR12345678", "bwbr0018451", "BWBV0001000", " BWBR0018451", "BWBR0018451\n"]
)
def test_a_malformed_bwb_id_is_refused_with_id_and_pattern(law_id: str) -> None:
    with pytest.raises(InvalidLawId, match="BWBRXXXXXXX") as caught:
        parse_bwb_id(law_id)
    assert ascii(law_id) in str(caught.value)
    assert isinstance(caught.value, InvalidInput)


def test_digits_of_other_scripts_are_no_digits_of_an_id() -> None:
    with pytest.raises(InvalidLawId):
        parse_bwb_id("BWBR001845\u0661")


def test_a_bwb_id_is_returned_as_it_is() -> None:
    assert parse_bwb_id("BWBR0018451") == "BWBR0018451"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CVDR123", CvdrId("CVDR123")),
        ("CVDR100394_2", CvdrId("CVDR100394", 2)),
        ("CVDR1234567_12", CvdrId("CVDR1234567", 12)),
    ],
)
def test_a_cvdr_id_is_split_into_work_and_version(text: str, expected: CvdrId) -> None:
    assert parse_cvdr_id(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text", ["CVDR", "CVDR12", "cvdr123456", "BWBR0018451", "CVDR123_", "CVDR123_a", "CVDR123_1_1"]
)
def test_a_malformed_cvdr_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidLawId, match="CVDR"):
        parse_cvdr_id(text)


def test_the_source_is_decided_by_the_prefix() -> None:
    assert law_source("BWBR0018451") is LawSource.BWB
    assert law_source("CVDR100394_2") is LawSource.CVDR


@pytest.mark.parametrize(
    ("text", "hint"), [("BWBR1", "seven digits"), ("CVDR1", "three or more"), ("wet", "or CVDR"), ("", "or CVDR")]
)
def test_a_wrong_id_is_answered_with_the_pattern_of_its_source(text: str, hint: str) -> None:
    with pytest.raises(InvalidLawId, match=hint):
        law_source(text)


def test_a_long_hostile_id_is_shown_short_and_escaped() -> None:
    with pytest.raises(InvalidLawId) as caught:
        law_source("\x1b[31m" + "A" * 5000)
    assert len(str(caught.value)) < 200
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "2024-1-01",
        "01-01-2024",
        "2024/01/01",
        "2024-01-01T00:00",
        "2024-13-01",
        "2023-02-30",
        "2024-00-10",
        "",
        "20240101",
    ],
)
def test_a_date_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidDate):
        parse_date(text)


def test_a_date_after_today_is_refused_and_today_is_not() -> None:
    today = date(2024, 3, 1)
    assert parse_date("2024-03-01", today=today) == today
    with pytest.raises(InvalidDate, match="after today"):
        parse_date("2024-03-02", today=today)


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Wet op de zorgtoeslag ", "wet_op_de_zorgtoeslag"),
        ("Ministeriële regeling", "ministeriele_regeling"),
        ("Wet (test) - special!", "wet_test_special"),
        ("Besluit  A --  B", "besluit_a_b"),
        ("Regeling € 's-Gravenhage § 2", "regeling_s_gravenhage_2"),
        ("Tarief ½", "tarief_12"),
        ("_x_", "x"),
    ],
)
def test_a_title_becomes_a_slug_of_ascii_words(title: str, slug: str) -> None:
    assert slugify(title, "BWBR0000001") == slug


@pytest.mark.parametrize("title", ["", " - ", "€", "\u4e2d\u6587"])
def test_a_title_without_usable_characters_is_replaced_by_the_id(title: str) -> None:
    assert slugify(title, "CVDR100394_2") == "cvdr100394_2"


@pytest.mark.parametrize(
    ("title", "is_cut"),
    [
        ("a" * 199, False),
        ("a" * 200, False),
        ("a" * 201, True),
        ("wet " * 67, True),
        ("é" * 150, False),
        ("Ǽ" * 110, False),
    ],
)
def test_only_slugs_above_200_bytes_are_cut_and_end_with_the_id(title: str, is_cut: bool) -> None:
    # BW-04
    slug = slugify(title, "BWBR0018451")
    assert slug.endswith("_bwbr0018451") is is_cut
    assert len(slug.encode()) <= 200


def test_a_cut_slug_ends_at_a_word_and_differs_per_law() -> None:
    # BW-04
    title = "besluit houdende regels over de uitvoering van de wet " * 5
    one, other = slugify(title, "BWBR0000001"), slugify(title, "BWBR0000002")
    assert one != other
    assert "__" not in one
    head = one.removesuffix("_bwbr0000001")
    assert title.replace(" ", "_").startswith(head + "_")
    assert slugify(title, "BWBR0000001") == one


@example("\U0001d56c", "BWBR0018451")
@given(st.text(max_size=400), st.sampled_from(["BWBR0018451", "CVDR100394_2"]))
def test_every_slug_is_a_safe_directory_name(title: str, law_id: str) -> None:
    slug = slugify(title, law_id)
    assert 0 < len(slug.encode()) <= 200
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


@pytest.mark.parametrize(
    ("article", "fragment"),
    [
        ("1", "#Artikel1"),
        ("A 1", "#ArtikelA_1"),
        ("8:36c", "#Artikel836c"),
        ("78ee*", "#Artikel78ee"),
        ("1<script>", "#Artikel1script"),
        ('2.5a"&;', "#Artikel2.5a"),
        ("Aanhef", "#ArtikelAanhef"),
        ("é-_.~", "#Artikelé-_.~"),
    ],
)
def test_the_anchor_of_an_article_is_sanitised(article: str, fragment: str) -> None:
    assert anchor_url("BWBR0018451", article=article) == f"https://wetten.overheid.nl/BWBR0018451{fragment}"


def test_the_page_of_a_law_carries_the_date_when_given() -> None:
    assert anchor_url("BWBR0018451") == "https://wetten.overheid.nl/BWBR0018451"
    assert anchor_url("BWBR0018451", date(2025, 1, 1)) == "https://wetten.overheid.nl/BWBR0018451/2025-01-01"
    dated = anchor_url("BWBR0018451", date(2025, 1, 1), article="2")
    assert dated == "https://wetten.overheid.nl/BWBR0018451/2025-01-01#Artikel2"


def test_of_several_places_the_article_wins_then_chapter_division_and_section() -> None:
    def fragment(**places: str) -> str:
        return anchor_url("BWBR0018451", **places).partition("#")[2]  # type: ignore[arg-type]

    assert fragment(section="1", division="2", chapter="3", article="4") == "Artikel4"
    assert fragment(section="1", division="2", chapter="3") == "Hoofdstuk3"
    assert fragment(section="1", division="2") == "Afdeling2"
    assert fragment(section="1") == "Paragraaf1"


def test_the_page_of_a_decentral_regulation_is_named_by_its_id() -> None:
    assert cvdr_url(CvdrId("CVDR100394", 2)) == "https://lokaleregelgeving.overheid.nl/CVDR100394_2"
