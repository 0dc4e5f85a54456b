"""Where things stand in style ``full``: divisions, annexes, circulaires, treaties, opening and closing words (D32)."""

from __future__ import annotations

import pytest

from protocols.bwb.toestand import Style, convert, convert_alone
from protocols.law import ArticleEntry, Division, Layer
from protocols.lawyaml import dump_law
from tests.kit import toestand as kit
from tests.kit.law_schema import assert_schema_valid
from tests.kit.toestand import article


def division(kind: str, number: str, body: str, title: str = "", label: str = "") -> str:
    words = label or kind.capitalize()
    return f"<{kind}><kop><label>{words}</label><nr>{number}</nr><titel>{title}</titel></kop>{body}</{kind}>"


def test_divisions_record_where_each_article_stands() -> None:
    body = division(
        "boek",
        "1",
        division("titeldeel", "1", article("<al>a</al>", "1:1"), "Begin", "Titel")
        + division(
            "titeldeel", "2", division("paragraaf", "2.", article("<al>b</al>", "1:2"), label="§"), "Eind", "Titel"
        ),
        "Algemeen",
    )
    assert kit.law(body).structure == (
        Division(
            "boek",
            "1",
            "Algemeen",
            (),
            (
                Division("titeldeel", "1", "Begin", (ArticleEntry("1:1"),)),
                Division("titeldeel", "2", "Eind", (), (Division("paragraaf", "2.", None, (ArticleEntry("1:2"),)),)),
            ),
        ),
    )


def test_headings_of_articles_stand_in_the_structure_of_a_law_without_divisions_too() -> None:
    titled = "<artikel><kop><label>Artikel</label><nr>1</nr><titel>Doel</titel><subtitel>en werking</subtitel></kop><al>a</al></artikel>"
    assert kit.law(titled + article("<al>b</al>", "2")).structure == (
        Division("wettekst", articles=(ArticleEntry("1", "Doel - en werking"), ArticleEntry("2"))),
    )


def test_a_flat_law_without_headings_has_no_structure() -> None:
    assert kit.law(article("<al>a</al>")).structure == ()


def test_articles_after_a_subdivision_stay_behind_it() -> None:
    body = division(
        "hoofdstuk",
        "1",
        article("<al>a</al>", "1") + division("afdeling", "1", article("<al>b</al>", "2")) + article("<al>c</al>", "3"),
    )
    (chapter,) = kit.law(body + article("<al>d</al>", "4")).structure[:1]
    assert [entry.number for entry in chapter.articles] == ["1"]
    assert [(child.type, [entry.number for entry in child.articles]) for child in chapter.children] == [
        ("afdeling", ["2"]),
        ("vervolg", ["3"]),
    ]


def test_an_unusual_label_is_kept_with_the_title() -> None:
    body = division("afdeling", "A", article("<al>a</al>"), "Slot", "Onderdeel") + division(
        "afdeling", "B", article("<al>b</al>", "2"), "", "Onderdeel"
    )
    assert [found.title for found in kit.law(body).structure] == ["Onderdeel: Slot", "Onderdeel"]


def test_text_of_a_division_outside_articles_is_an_entry_named_after_it() -> None:
    body = division("hoofdstuk", "2", "<al>Vooraf.</al>" + article("<al>a</al>", "3") + "<al>Achteraf.</al>", "Kern")
    law = kit.law(body)
    assert [(entry.number, entry.text, entry.url) for entry in law.articles] == [
        ("Hoofdstuk 2", "Vooraf.", f"{kit.PAGE}#Hoofdstuk2"),
        ("3", "a", f"{kit.PAGE}#Artikel3"),
        ("_1", "Achteraf.", kit.PAGE),
    ]
    assert [entry.number for entry in law.structure[0].articles] == ["Hoofdstuk 2", "3", "_1"]


CIRCULAIRE = (
    f'<toestand bwb-id="{kit.BWB_ID}" inwerkingtreding="2024-03-01"><wetgeving soort="circulaire"><intitule>Circulaire ladders'
    "</intitule><circulaire><circulaire.aanhef><context><context.al>Aan de gemeenten.</context.al></context></circulaire.aanhef>"
    "<circulaire-tekst><tekst><al>Inleiding zonder nummer.</al></tekst>"
    "<circulaire.divisie><kop><nr>1</nr><titel>Doel</titel></kop><tekst><al>Waarom.</al><lijst><li><li.nr>a.</li.nr><al>omdat</al></li>"
    "</lijst></tekst><circulaire.divisie><kop><nr>1.1</nr></kop><tekst><al>Hoe.</al></tekst></circulaire.divisie>"
    "</circulaire.divisie></circulaire-tekst><circulaire.sluiting><ondertekening><functie>De minister,</functie><naam>"
    "<voornaam>A.</voornaam><achternaam>Ladder</achternaam></naam></ondertekening></circulaire.sluiting></circulaire></wetgeving></toestand>"
).encode()


def test_a_circulaire_has_an_entry_for_each_of_its_divisions() -> None:
    law = convert(CIRCULAIRE, kit.FACTS).law
    assert [(entry.number, entry.text, entry.url.removeprefix(kit.PAGE)) for entry in law.articles] == [
        ("_1", "Inleiding zonder nummer.", ""),
        ("1", "Waarom.\n\na. omdat", "#Circulaire.divisie1"),
        ("1.1", "Hoe.", "#Circulaire.divisie1.1"),
    ]
    assert law.structure[1] == Division(
        "circulaire.divisie",
        "1",
        "Doel",
        (ArticleEntry("1"),),
        (Division("circulaire.divisie", "1.1", None, (ArticleEntry("1.1"),)),),
    )
    assert law.preamble is not None
    assert (law.preamble.text, law.closing, law.official_title) == (
        "Aan de gemeenten.",
        "De minister, A. Ladder",
        "Circulaire ladders",
    )


def test_a_circulaire_is_empty_in_the_older_style() -> None:
    law = convert(CIRCULAIRE, kit.FACTS, Style.ARTICLE).law
    assert (law.articles, law.preamble) == ((), None)


def test_a_treaty_converts_with_its_preamble_articles_and_signatures() -> None:
    xml = (
        f'<toestand bwb-id="{kit.BWB_ID}" inwerkingtreding="2024-03-01"><wetgeving soort="verdrag"><citeertitel>Ladderverdrag</citeertitel>'
        "<verdrag><verdrag.aanhef><preambule><al>De Staten,</al><al>Overwegende;</al></preambule></verdrag.aanhef><verdragtekst>"
        f"{division('deel', 'I', article('<al>Ladders zijn vrij.</al>', 'I'))}</verdragtekst>"
        "<verdrag-sluiting><al>Gedaan te Utrecht.</al></verdrag-sluiting></verdrag></wetgeving></toestand>"
    ).encode()
    law = convert_alone(xml).law
    assert law.preamble is not None
    assert (law.layer, law.name, law.preamble.text, law.closing) == (
        Layer.VERDRAG, "Ladderverdrag", "De Staten,\n\nOverwegende;", "Gedaan te Utrecht."
    )  # fmt: skip
    assert [entry.number for entry in law.articles] == ["I"]


CLOSING = (
    "<wetsluiting><slotformulering><al>Lasten en bevelen.</al></slotformulering><gegeven><dagtekening><plaats>Gegeven te Ede,</plaats>"
    "<datum>1 mei 2023</datum></dagtekening><koning>De Koning</koning></gegeven><ondertekening>\n  <functie>De Minister,</functie>\n"
    "  <naam><achternaam>B. Trap</achternaam></naam></ondertekening></wetsluiting>"
)


def test_opening_and_closing_words_are_kept() -> None:
    before = (
        "<intitule>Wet van 1 mei 2023 over ladders<meta-data>weg</meta-data></intitule><citeertitel>Ladderwet </citeertitel>"
        "<aanhef><wie>De Minister van Trappen,</wie><considerans><considerans.al>Overwegende;</considerans.al></considerans>"
        "<afkondiging><al>Besluit:</al></afkondiging></aanhef>"
    )
    law = kit.law(article("<al>a</al>"), before=before, after=CLOSING)
    assert law.preamble is not None
    assert law.preamble.text == "De Minister van Trappen,\n\nOverwegende;\n\nBesluit:"
    assert (law.official_title, law.name) == ("Wet van 1 mei 2023 over ladders", "Ladderwet")
    assert law.closing == "Lasten en bevelen.\n\nGegeven te Ede, 1 mei 2023\n\nDe Koning\n\nDe Minister, B. Trap"


def test_annexes_are_entries_of_their_own_and_their_articles_are_articles() -> None:
    after = (
        "<bijlage><kop><label>Bijlage</label><nr>1</nr><titel>Tarieven</titel><subtitel>per dag</subtitel></kop><al>Zie hieronder.</al>"
        f"{article('<al>Het tarief.</al>', '1')}<divisie><kop><nr>A</nr></kop><al>Deel A.</al></divisie>"
        "<bijlage-sluiting><ondertekening>Mij bekend,</ondertekening></bijlage-sluiting></bijlage>"
        "<bijlage><kop><label>Tabel</label></kop><al>Los.</al></bijlage><bijlage><al>Zonder kop.</al></bijlage>"
    )
    law = kit.law(article("<al>Hoofdtekst.</al>"), after=after)
    assert [entry.number for entry in law.articles] == ["1", "B1:1"]
    assert [(annex.number, annex.title, annex.text) for annex in law.annexes] == [
        ("1", "Tarieven - per dag", "Zie hieronder.\n\n## A\n\nDeel A.\n\nMij bekend,"),
        ("", "Tabel", "Los."),
        ("", "", "Zonder kop."),
    ]
    assert [(found.type, found.number) for found in law.structure] == [("wettekst", None), ("bijlage", "1")]


def test_an_annex_in_an_annex_is_an_entry_in_the_order_of_the_text() -> None:
    after = "<bijlage><kop><nr>1</nr></kop><al>buiten</al><bijlage><kop><nr>1a</nr></kop><al>binnen</al></bijlage></bijlage>"
    assert [(annex.number, annex.text) for annex in kit.law("", after=after).annexes] == [
        ("1", "buiten"),
        ("1a", "binnen"),
    ]


def test_notes_in_a_heading_stand_in_it_in_brackets() -> None:
    body = division("hoofdstuk", "1<noot><noot.nr>*</noot.nr><noot.al>Zie Stb.</noot.al></noot>", article("<al>a</al>"))
    assert kit.law(body).structure[0].number == "1 (* Zie Stb.)"


def test_a_text_without_any_article_or_annex_is_warned_about() -> None:
    assert kit.converted("").warnings == ("The text has no articles",)


@pytest.mark.parametrize("style", Style)
def test_everything_that_full_adds_is_allowed_by_the_law_schema(style: Style) -> None:
    after = "<bijlage><kop><nr>1</nr></kop><al>b</al></bijlage>" + CLOSING
    body = division("hoofdstuk", "1", article("<al>a</al>"), "T")
    assert_schema_valid(dump_law(kit.law(body, style, before="<intitule>x</intitule>", after=after)).encode())


OLD = (
    '<?xml version="1.0"?><!DOCTYPE wetgeving SYSTEM "http://127.0.0.1/oud.dtd">\n'
    f'<wetgeving bwb-id="{kit.BWB_ID}" soort="ministeriele-regeling"><intitule>Regeling\n    ladders</intitule><regeling>'
    "<regeling-tekst>" + article('<al>De\n    <extref doc="1.0:v:BWBR0001840&amp;artikel=8%3A1">wet\n  zelf</extref> geldt. </al>') +
    "</regeling-tekst></regeling></wetgeving>"
).encode()  # fmt: skip


def test_a_dump_from_before_2015_converts_and_loses_its_layout() -> None:
    law = convert(OLD, kit.FACTS).law
    assert (
        law.articles[0].text == "De [wet zelf][ref1] geldt.\n\n[ref1]: https://wetten.overheid.nl/BWBR0001840#Artikel81"
    )
    assert law.official_title == "Regeling ladders"
