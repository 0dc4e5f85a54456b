"""The styles ``article`` and ``leaf``: every rule of the older converter, its losses included (``harvester.md`` 10)."""

from __future__ import annotations

import pytest

from protocols.bwb.toestand import Style
from tests.kit import toestand as kit
from tests.kit.toestand import classic


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<al>  Gewone tekst. </al>", "Gewone tekst."),
        ("<al>x<sup>2</sup> en CO<sub>2</sub></al>", "x2 en CO2"),
        ("<al>zie<nootref>1</nootref></al>", "zie1"),
        ('<al><nadruk type="vet">A</nadruk> <nadruk type="cur"> B </nadruk><nadruk>C</nadruk></al>', "**A** *B**C*"),
        ("<al>leeg <nadruk/></al>", "leeg **"),
        ("<al><nadruk type='vet'>a<sup>2</sup></nadruk></al>", "**a2**"),
        ("<al><nadruk>A</nadruk>\n<nadruk>B</nadruk></al>", "*A**B*"),
        ("<al><nadruk>A</nadruk>\n  <nadruk>B</nadruk></al>", "*A* *B*"),
        ("<al>voor<redactie>weg</redactie> na</al>", "voor na"),
        ("<al>voor<noot><noot.nr>1</noot.nr><noot.al>weg</noot.al></noot> na</al>", "voor na"),
        ("<al>voor <plaatje><illustratie naam='1.png'/></plaatje>na</al>", "voor na"),
        ("<al>voor <formule>weg</formule>na</al>", "voor na"),
        ("<al>a</al><adres>weg</adres><wat>weg</wat><informatieproduct>weg</informatieproduct>", "a"),
        ("<al>voor <!-- niets --> na</al>", "voor  na"),
        ("<al>a<lijst><li><li.nr>1.</li.nr><al>b</al></li><li><al>c</al></li></lijst></al>", "ab\nc"),
        ("<al>a<lid><lidnr>1</lidnr><al>b</al><al>c</al></lid></al>", "ab c"),
        ("<tekst>los<al>blok</al>\n  staart</tekst>", "losblok\n  staart"),
        ("<table><row><entry><al>1</al></entry><entry><al>2</al></entry></row></table>", "12"),
        ("<considerans><considerans.al>a</considerans.al><considerans.al>b</considerans.al></considerans>", "a\n\nb"),
        ("<afkondiging><al>a</al><x>weg</x><al>b</al></afkondiging>", "a\n\nb"),
    ],
)
def test_each_element_is_treated_as_its_row_in_the_table_says(content: str, expected: str) -> None:
    assert classic(content) == expected


def test_an_unknown_element_is_dropped_with_a_warning_that_names_it() -> None:
    conversion = kit.converted(kit.article("<al>CO<inf>2</inf> daalt</al>"), Style.ARTICLE)
    assert conversion.law.articles[0].text == "CO daalt"
    assert conversion.warnings == ("Article 1: Error parsing <inf>: No handler for element <inf> in <al>",)


def test_lists_kept_in_one_piece_do_not_warn() -> None:
    content = '<lijst type="ongemarkeerd"><li><al>CO<inf>2</inf></al></li></lijst>'
    conversion = kit.converted(kit.article(content), Style.ARTICLE)
    assert (conversion.law.articles[0].text, conversion.warnings) == ("- CO", ())


def test_leden_and_items_become_blocks_with_their_markers() -> None:
    content = (
        "<lid><lidnr>1</lidnr><al>Aanhef:</al><lijst><li><li.nr>a.</li.nr><al>eerste:</al>"
        "<lijst><li><li.nr>1°.</li.nr><al>diep;</al></li></lijst></li>"
        "<li><li.nr>b.</li.nr><al>tweede.</al></li></lijst></lid><lid><lidnr>2.</lidnr><al>Slot.</al></lid>"
    )
    assert classic(content) == "1 Aanhef:\n\na. eerste:\n\n1°. diep;\n\nb. tweede.\n\n2. Slot."


def test_a_lid_with_nothing_but_editors_words_leaves_its_number() -> None:
    content = "<lid><lidnr>1</lidnr><al><redactie>Vervallen.</redactie></al></lid><lid><lidnr>2</lidnr><al>b</al></lid>"
    assert classic(content) == "1\n\n2 b"


def test_an_article_with_nothing_but_editors_words_is_no_entry() -> None:
    body = kit.article("<al><redactie>Vervallen</redactie></al>") + kit.article("<al>b</al>", "2")
    assert [entry.number for entry in kit.law(body, Style.ARTICLE).articles] == ["2"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<lijst type="ongemarkeerd"><li><al>a</al><al>b</al></li><li><al>c</al></li></lijst>', "- a b\n- c"),
        ("<lijst><li><li.nr>–</li.nr><al>a</al></li><li><li.nr>•</li.nr><al>b</al></li></lijst>", "- a\n- b"),
        ("<lijst><li><li.nr>–</li.nr><al>a</al></li><li><li.nr>1.</li.nr><al>b</al></li></lijst>", "– a\n\n1. b"),
        (
            (
                '<lijst type="ongemarkeerd"><li><al>a:</al><lijst><li><li.nr>1°.</li.nr><al>x</al></li>'
                "<li><li.nr>2°.</li.nr><al>y</al></li></lijst></li></lijst>"
            ),
            "- a: 1°. x 2°. y",
        ),
        (
            '<lijst type="ongemarkeerd"><li><al>a:</al><lijst type="ongemarkeerd"><li><al>x</al></li></lijst></li></lijst>',
            "- a: - x",
        ),
        ('<lijst type="ongemarkeerd"><li><al/></li><li><al>a</al></li></lijst>', "- a"),
    ],
)
def test_a_list_without_markers_is_one_block_of_dash_lines(content: str, expected: str) -> None:
    assert classic(content) == expected


def test_an_article_with_sub_headings_is_several_versions_in_one_entry() -> None:
    content = (
        "<tussenkop>Vóór 2020</tussenkop><lid><lidnr>1</lidnr><al>oud</al><lijst><li><li.nr>a.</li.nr><al>x</al></li>"
        "<li><li.nr>b.</li.nr><al>y</al></li></lijst></lid><al><redactie>weg</redactie></al>"
        "<tussenkop>Na 2020</tussenkop><al>nieuw</al>"
    )
    assert classic(content) == "1 oud a. x b. y\n\nnieuw"


def test_everything_outside_articles_is_left_out() -> None:
    body = f"<hoofdstuk><kop><titel>Weg</titel></kop><al>weg</al>{kit.article('<al>blijft</al>')}</hoofdstuk>"
    law = kit.law(body, Style.ARTICLE, after="<bijlage><al>weg</al></bijlage><wetsluiting><al>weg</al></wetsluiting>")
    assert [entry.text for entry in law.articles] == ["blijft"]
    assert (law.structure, law.annexes, law.closing, law.name, law.official_title) == ((), (), None, None, None)


def test_a_nested_article_is_an_entry_too_and_keeps_the_address_of_its_number() -> None:
    nested = kit.article("<al>Geciteerd.</al>", "7")
    entries = kit.law(kit.article(f"<al>Wijzigt:</al>{nested}"), Style.ARTICLE).articles
    assert [(entry.number, entry.url) for entry in entries] == [
        ("1", f"{kit.PAGE}#Artikel1"),
        ("7", f"{kit.PAGE}#Artikel7"),
    ]


def leaves(content: str, number: str = "1") -> list[tuple[str, str]]:
    return [(entry.number, entry.text) for entry in kit.law(kit.article(content, number), Style.LEAF).articles]


def test_leaf_style_makes_an_entry_of_each_lid_and_item() -> None:
    content = (
        "<lid><lidnr>1</lidnr><al>Aanhef:</al><lijst><li><li.nr>a.</li.nr><al>x:</al>"
        "<lijst><li><li.nr>1°.</li.nr><al>diep</al></li></lijst><al>weg</al></li><li><li.nr>b.</li.nr><al>y</al></li></lijst>"
        "</lid><lid><lidnr>2.</lidnr><al>p</al><al>q</al></lid>"
    )
    assert leaves(content, "5*") == [
        ("5_bis.1", "Aanhef:"),
        ("5_bis.1.a", "x:"),
        ("5_bis.1.a.1°", "diep"),
        ("5_bis.1.b", "y"),
        ("5_bis.2", "p q"),
    ]


def test_leaf_style_keeps_two_sibling_lists_and_unmarked_ones_in_their_entry() -> None:
    item = "<lijst><li><li.nr>a.</li.nr><al>{}</al></li></lijst>"
    assert leaves("<al>i</al>" + item.format("x") + item.format("y")) == [("1", "i a. x a. y")]
    assert leaves('<al>i</al><lijst type="ongemarkeerd"><li><al>x</al></li></lijst>') == [("1", "i - x")]


def test_leaf_style_numbers_references_per_entry_and_does_not_split_versions() -> None:
    ref = '<extref doc="jci1.3:c:BWBR0001840">wet</extref>'
    found = leaves(f"<lid><lidnr>1</lidnr><al>{ref}</al></lid><lid><lidnr>2</lidnr><al>{ref}</al></lid>")
    assert [text.split("\n")[0] for _, text in found] == ["[wet][ref1]", "[wet][ref1]"]
    assert leaves("<tussenkop>A</tussenkop><lid><lidnr>1</lidnr><al>x</al></lid>") == [("1", "1 x")]
