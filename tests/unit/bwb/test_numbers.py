"""Numbers of articles, leden and annexes (``harvester.md`` 9)."""

from __future__ import annotations

import pytest
from lxml import etree

from protocols.bwb.numbers import annex_prefix, article_number, clean_number, written_number
from protocols.bwb.toestand import Style
from tests.kit import toestand as kit


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("1.", "1"),
        ("1°", "1"),
        ("1°.", "1°"),
        (" 2. ", "2"),
        ("78ee*", "78ee_bis"),
        ("1*.", "1_bis"),
        ("A 1", "A 1"),
        ("8:36c", "8:36c"),
        ("•", ""),
        (" • ", ""),
        ("", ""),
        (".", ""),
        ("24e1", "24e1"),
    ],
)
def test_a_raw_number_loses_its_last_sign_and_spells_out_its_asterisk(raw: str, clean: str) -> None:
    assert clean_number(raw) == clean


def element(xml: str) -> etree._Element:
    return etree.XML(xml)  # fixed text of this file, not a stranger's


@pytest.mark.parametrize(
    ("xml", "written", "number"),
    [
        ("<artikel label='Artikel 9'><kop><nr> 4a </nr></kop></artikel>", "4a", "4a"),
        ("<artikel label='Artikel 9'><kop><nr/></kop></artikel>", "", "9"),
        ("<artikel label='Artikel 9'/>", "9", "9"),
        ("<artikel label='Slot'/>", "Slot", ""),
        ("<artikel/>", None, ""),
        ("<artikel><kop><nr>5*</nr></kop></artikel>", "5*", "5_bis"),
    ],
)
def test_the_heading_counts_before_the_label(xml: str, written: str | None, number: str) -> None:
    assert (written_number(element(xml)), article_number(element(xml))) == (written, number)


def test_only_the_nearest_annex_gives_a_prefix() -> None:
    outer = element("<bijlage><kop><nr>1</nr></kop><x><artikel/></x><bijlage><artikel/></bijlage></bijlage>")
    inner, second = outer.iter("artikel")
    assert annex_prefix(inner) == "B1:"
    assert annex_prefix(second) == ""


def test_the_address_keeps_the_raw_number_and_the_entry_the_cleaned_one() -> None:
    (entry,) = kit.law(kit.article("<al>Oud recht.</al>", "78ee*")).articles
    assert (entry.number, entry.url) == ("78ee_bis", f"{kit.PAGE}#Artikel78ee")


def test_an_article_without_any_number_is_left_out_by_the_older_styles_and_numbered_by_full() -> None:
    body = "<artikel><al>Een.</al></artikel>" + kit.article("<al>Twee.</al>", "2") + "<artikel><al>Drie.</al></artikel>"
    assert [entry.number for entry in kit.law(body, Style.ARTICLE).articles] == ["2"]
    full = kit.converted(body)
    assert [entry.number for entry in full.law.articles] == ["_1", "2", "_2"]
    assert full.law.articles[0].url == kit.PAGE
    assert "Article _1: it has no number in the text and got this one" in full.warnings


def test_an_unusual_label_stands_in_for_a_missing_number() -> None:
    body = "<artikel><kop><label>Enig artikel</label></kop><al>Tekst.</al></artikel>"
    assert [entry.number for entry in kit.law(body).articles] == ["Enig artikel"]


def test_a_number_that_occurs_twice_is_warned_about_once() -> None:
    body = kit.article("<al>a</al>") * 3
    warnings = kit.converted(body).warnings
    assert warnings == ("Article 1: the text has more than one article with this number",)
