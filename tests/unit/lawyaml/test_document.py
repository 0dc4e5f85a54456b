"""The layout of a law file."""

from datetime import date
from pathlib import Path

import attrs
from hypothesis import given

from protocols.law import Annex, Article, ArticleEntry, Division, Law, Layer, Preamble, Reference, with_definitions
from protocols.lawyaml import dump_law, load_law
from tests.kit.law_schema import assert_schema_valid
from tests.kit.yaml_readers import read_both
from tests.unit.lawyaml.texts import any_text
from tests.unit.test_law import a_law

GOLDEN = Path(__file__).parents[2] / "fixtures" / "lawyaml"
PAGE = "https://wetten.overheid.nl/BWBR0099007/2024-02-01"


def stepwet() -> Law:
    """A small law with every shape of text that the ``article`` style knows."""
    references = (
        Reference("ref1", "BWBR0099003", artikel="2.1", lid="3"),
        Reference("ref2", "BWBR0099007", hoofdstuk="2"),
    )
    return a_law(
        valid_to=date(2026, 12, 31),
        url=PAGE,
        preamble=Preamble(
            "Wij, Koning,\n\nAlzo Wij in overweging genomen hebben, dat steps overal in de weg liggen en dat gemeenten daar iets aan"
            " willen kunnen doen;\n\nHebben goedgevonden:",
            f"{PAGE}#ArtikelAanhef",
        ),
        articles=(
            Article("1", "In deze wet verstaan wij onder:\n\n- *step:* voetplank op wielen;\n- *berm:* strook naast de weg.", f"{PAGE}#Artikel1"),
            Article(
                "2",
                with_definitions(
                    "1 De verhuurder haalt een step weg die in de berm ligt, tenzij de weg valt onder"
                    " [artikel 2.1, derde lid, van de Wegenregeling][ref1], en als:\n\na. iemand erom vraagt,en\n\nb. het licht is.\n\n"
                    "2 Voor [hoofdstuk 2][ref2] geldt [Verordening (EU) 2019/881](32019R0881).",
                    references,
                ),
                f"{PAGE}#Artikel2",
                references,
            ),
            Article("2:3", "Deze wet heet: Stepwet.", f"{PAGE}#Artikel23"),
            Article("4_bis", "1 Een step die al in de berm lag op de dag dat deze wet ging gelden, mag daar nog een jaar blijven liggen.\n\n"
                    "2 Daarna niet meer.", f"{PAGE}#Artikel4"),
        ),
    )  # fmt: skip


def full_stepwet() -> Law:
    """The same law with what only the ``full`` style records."""
    return attrs.evolve(
        stepwet(),
        official_title="Wet van 3 januari 2024, houdende regels over steps (Stepwet)",
        structure=(
            Division(
                "hoofdstuk",
                "1",
                "Begrippen",
                (ArticleEntry("1", "Begripsbepalingen"), ArticleEntry("2")),
                (Division("paragraaf", "1.1", None, (ArticleEntry("2:3", None, "vervallen"),)),),
            ),
            Division("hoofdstuk", "2", "Slot", (ArticleEntry("4_bis"),)),
        ),
        annexes=(
            Annex("1", "Tarieven", "| step | euro |\n|---|---|\n| klein | 2,50 |"),
            Annex("2", "", with_definitions("Zie [de Wegenregeling][ref1].", (Reference("ref1", "BWBR0099003"),)), (Reference("ref1", "BWBR0099003"),)),
        ),
        closing="Gegeven te 's-Gravenhage, 3 januari 2024",
    )  # fmt: skip


def test_a_law_is_laid_out_to_the_byte() -> None:
    assert dump_law(stepwet()) == (GOLDEN / "stepwet.yaml").read_text(encoding="utf-8")


def test_a_full_law_is_laid_out_to_the_byte() -> None:
    assert dump_law(full_stepwet()) == (GOLDEN / "stepwet.full.yaml").read_text(encoding="utf-8")


def test_a_decentral_regulation_is_laid_out_to_the_byte() -> None:
    law = Law(
        title="Stepverordening Voorbeeldstad",
        layer=Layer.GEMEENTELIJKE_VERORDENING,
        publication_date=date(2023, 5, 6),
        valid_from=date(2023, 6, 1),
        url="https://lokaleregelgeving.overheid.nl/CVDR990001_2",
        cvdr_id="CVDR990001_2",
        official_title="Stepverordening Voorbeeldstad",
        organisation="Voorbeeldstad",
        area_code="GM9999",
        articles=(),
    )
    assert dump_law(law) == (GOLDEN / "stepverordening.yaml").read_text(encoding="utf-8")


def test_the_files_meet_the_law_schema() -> None:
    assert_schema_valid(dump_law(stepwet()))
    assert_schema_valid(dump_law(full_stepwet()))
    assert_schema_valid((GOLDEN / "stepverordening.yaml").read_bytes())


def test_both_readers_and_ours_see_the_same_law() -> None:
    written = dump_law(full_stepwet())
    assert read_both(written) == load_law(written)


def test_a_second_dump_is_byte_equal_also_of_what_was_read() -> None:
    # BW-08
    law = stepwet()
    written = dump_law(law)
    assert dump_law(law) == written
    read = load_law(written)
    again = attrs.evolve(
        law,
        preamble=Preamble(**read["preamble"]),
        articles=tuple(
            Article(a["number"], a["text"], a["url"], tuple(Reference(**r) for r in a.get("references", ())))
            for a in read["articles"]
        ),
    )
    assert dump_law(again) == written


def test_article_numbers_that_look_like_numbers_stay_strings() -> None:
    # BW-07
    numbers = ["24e1", "1e5", "NO", "no", "on", "y", "1:1", "3:4", "12:30", "012", "0o14", "1_000", "~", "=", "<<"]
    written = dump_law(a_law(articles=tuple(Article(number, "x", PAGE) for number in numbers)))
    assert [article["number"] for article in read_both(written)["articles"]] == numbers


@given(any_text(), any_text(), any_text())
def test_hostile_values_never_break_out_of_their_key(number: str, text: str, title: str) -> None:
    law = a_law(
        title=title,
        official_title=title,
        organisation=title,
        preamble=Preamble(text, title),
        articles=(Article(number, text, title, (Reference(number, title, artikel=text),)),),
        closing=text,
        annexes=(Annex(number, title, text),),
        structure=(Division(title, number, title, (ArticleEntry(number, title, number),)),),
    )
    written = dump_law(law)
    read = read_both(written)
    assert list(read) == [
        "$schema", "$id", "regulatory_layer", "publication_date", "valid_from", "bwb_id", "officiele_titel", "organisation",
        "url", "preamble", "structure", "articles", "closing", "annexes",
    ]  # fmt: skip
    assert read["articles"][0]["number"] == number
    assert read["articles"][0]["references"] == [{"id": number, "bwb_id": title, "artikel": text}]
    assert read["structure"][0]["articles"] == [{"number": number, "title": title, "status": number}]
    assert not any(line.endswith((" ", "\t")) for line in written.split("\n"))
    assert written.endswith("\n")
    assert not written.endswith("\n\n")


def test_a_structure_of_thousands_of_levels_is_written_without_recursion() -> None:
    division = Division("deel", "1")
    for _ in range(3000):
        division = Division("deel", "1", children=(division,))
    assert dump_law(a_law(structure=(division,))).count("- type: deel") == 3001
