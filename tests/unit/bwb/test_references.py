"""Citations in all shapes of real files: links, definitions, records and follow-up ids (``harvester.md`` 11)."""

from __future__ import annotations

import pytest

from protocols.bwb.toestand import Style, convert
from protocols.law import Reference
from tests.kit import toestand as kit

PUBLIC = "https://wetten.overheid.nl"


def link(doc: str, words: str = "dat artikel", tag: str = "extref", more: str = "") -> str:
    return f'<al>Zie <{tag} doc="{doc.replace("&", "&amp;")}"{more}>{words}</{tag}>.</al>'


def reference(content: str, style: Style = Style.FULL) -> Reference:
    (entry,) = kit.law(kit.article(content), style).articles
    (found,) = entry.references
    return found


@pytest.mark.parametrize(
    ("doc", "fields"),
    [
        ("jci1.3:c:BWBR0001840", {}),
        ("jci1.3:c:BWBR0001840&artikel=89", {"artikel": "89"}),
        ("jci1.3:c:BWBR0001840&artikel=89&lid=2&o=a", {"artikel": "89", "lid": "2", "onderdeel": "a"}),
        ("jci1.3:c:BWBR0001840&artikel=89&o=a&o=1%C2%B0", {"artikel": "89", "onderdeel": "a.1°"}),
        ("jci1.31:c:BWBR0001840&onderdeel=b&z=2024-01-01&g=2024-01-01", {"onderdeel": "b"}),
        ("jci1.1:c:BWBR0001840&hoofdstuk=2&paragraaf=3", {"hoofdstuk": "2", "paragraaf": "3"}),
        ("1.0:v:BWBR0001840&artikel=8%3A75a", {"artikel": "8:75a"}),
        ("1.0:v:BWBR0001840&afdeling=8.1.1", {"afdeling": "8.1.1"}),
        ("1.0:v:BWBR0001840&wijzig-artikel=16", {"artikel": "16"}),
        ("jci1.3:c:BWBR0001840&sub-paragraaf=4", {}),
        ("jci1.3:c:BWBR0001840&bijlage=1&titeldeel=2", {}),
        ("jci1.3:c:BWBR0001840&artikel=A%201", {"artikel": "A 1"}),
        ("jci1.3:c:BWBR0001840&artikel=3-5", {"artikel": "3-5"}),
        ("jci1.3:c:BWBR0001840&artikel=", {}),
    ],
)
def test_a_citation_becomes_a_record_with_whole_keys_and_plain_values(doc: str, fields: dict[str, str]) -> None:
    assert reference(link(doc)) == Reference("ref1", "BWBR0001840", **fields)


def test_the_older_style_searches_keys_anywhere_and_leaves_values_as_written() -> None:
    found = reference(link("jci1.3:c:BWBR0001840&sub-paragraaf=4&artikel=A%201&o=a"), Style.ARTICLE)
    assert found == Reference("ref1", "BWBR0001840", artikel="A%201", paragraaf="4")


@pytest.mark.parametrize("style", [Style.FULL, Style.ARTICLE])
def test_links_are_numbered_in_reading_order_and_defined_below_the_text(style: Style) -> None:
    content = (
        "<lid><lidnr>1</lidnr>" + link("jci1.3:c:BWBR0001840&artikel=89", "artikel 89") + "</lid>"
        "<lid><lidnr>2</lidnr>" + link("jci1.3:c:BWBR0099001&hoofdstuk=5a", "hoofdstuk 5a", "intref") + "</lid>"
        "<lid><lidnr>3</lidnr>" + link("jci1.3:c:BWBR0001840&artikel=89", "hetzelfde") + "</lid>"
    )
    assert kit.text(content, style) == (
        "1 Zie [artikel 89][ref1].\n\n2 Zie [hoofdstuk 5a][ref2].\n\n3 Zie [hetzelfde][ref3].\n\n"
        f"[ref1]: {PUBLIC}/BWBR0001840#Artikel89\n"
        f"[ref2]: {PUBLIC}/BWBR0099001#Hoofdstuk5a\n"
        f"[ref3]: {PUBLIC}/BWBR0001840#Artikel89"
    )


@pytest.mark.parametrize("style", [Style.FULL, Style.ARTICLE])
@pytest.mark.parametrize(
    ("doc", "shown"),
    [
        ("32016R0679", "Zie [dat artikel](32016R0679)."),
        ("", "Zie dat artikel."),
        ("jci1.3:v:BWBV0001000", "Zie [dat artikel](jci1.3:v:BWBV0001000)."),
        ("jci1.3:c:BWBR00018401", "Zie [dat artikel](jci1.3:c:BWBR00018401)."),
        ("jci1.3:c:BWBR184", "Zie [dat artikel](jci1.3:c:BWBR184)."),
        ("onbekend", "Zie [dat artikel](onbekend)."),
    ],
)
def test_what_names_no_law_of_the_register_is_no_reference(style: Style, doc: str, shown: str) -> None:
    assert kit.text(link(doc), style) == shown


def test_an_unknown_target_with_a_law_id_beside_it_is_a_reference_after_all() -> None:
    assert reference(link("onbekend", more=' bwb-id="BWBR0001840"')) == Reference("ref1", "BWBR0001840")


def test_words_inside_a_link_keep_their_marks_and_brackets_are_escaped() -> None:
    doc = "jci1.3:c:BWBR0001840&amp;artikel=8"
    content = f'<al><extref doc="{doc}">artikel 8<nadruk>a</nadruk> [oud], eerste lid</extref></al>'
    assert kit.text(content).startswith("[artikel 8*a* \\[oud\\], eerste lid][ref1]\n\n")


def test_a_link_inside_a_link_keeps_its_words_and_its_record() -> None:
    inner = '<extref doc="jci1.3:c:BWBR0000002">binnen</extref>'
    content = f'<al><extref doc="jci1.3:c:BWBR0000001">buiten {inner} om</extref></al>'
    (entry,) = kit.law(kit.article(content)).articles
    assert entry.text.startswith("[buiten binnen om][ref1]\n\n[ref1]: ")
    assert [found.bwb_id for found in entry.references] == ["BWBR0000001", "BWBR0000002"]


PREAMBLE = (
    "<aanhef><wij>Wij, Koning,</wij><considerans><considerans.al>Gelet op "
    '<extref doc="jci1.3:c:BWBR0001840&amp;artikel=89">artikel 89 </extref>van de Grondwet;</considerans.al></considerans>'
    "<afkondiging><al>Besluit:</al></afkondiging></aanhef>"
)


def test_the_preamble_keeps_its_links_in_full_and_plain_words_in_the_older_style() -> None:
    full = kit.law("", before=PREAMBLE).preamble
    assert full is not None
    assert full.text == (
        "Wij, Koning,\n\nGelet op [artikel 89 ][ref1]van de Grondwet;\n\nBesluit:\n\n"
        f"[ref1]: {PUBLIC}/BWBR0001840#Artikel89"
    )
    assert full.url == f"{kit.PAGE}#ArtikelAanhef"
    classic = kit.law("", Style.ARTICLE, before=PREAMBLE).preamble
    assert classic is not None
    assert classic.text == "Wij, Koning,\n\nGelet op artikel 89van de Grondwet;\n\nBesluit:"


CITING = (
    '<hoofdstuk><kop><label>Hoofdstuk</label><nr>1</nr><titel>Over de <extref doc="jci1.3:c:BWBR0000007">zeven</extref>'
    "</titel></kop>"
    + kit.article(link("jci1.3:c:BWBR0000003") + link("jci1.3:c:BWBR0000001") + link("jci1.3:c:BWBR0000003"))
    + kit.article(link("jci1.3:c:BWBR0099001", tag="intref"), "2")
    + "</hoofdstuk>"
)
ANNEX = f"<bijlage><kop><nr>1</nr></kop>{link('jci1.3:c:BWBR0000005')}</bijlage>"


@pytest.mark.claim("S0-035")
def test_follow_ups_are_every_cited_law_but_itself_sorted_and_once() -> None:
    found = kit.converted(CITING, before=PREAMBLE, after=ANNEX).referenced_bwb_ids
    assert found == ("BWBR0000001", "BWBR0000003", "BWBR0000005", "BWBR0000007", "BWBR0001840")


def test_follow_ups_of_the_older_style_are_those_of_its_entries() -> None:
    found = kit.converted(CITING, Style.ARTICLE, before=PREAMBLE, after=ANNEX).referenced_bwb_ids
    assert found == ("BWBR0000001", "BWBR0000003")


def test_bookkeeping_cites_nothing() -> None:
    hidden = '<meta-data><x><extref doc="jci1.3:c:BWBR0000009">verborgen</extref></x></meta-data>'
    conversion = convert(kit.toestand(kit.article(f"<al>Tekst.{hidden}</al>")), kit.FACTS)
    assert conversion.referenced_bwb_ids == ()
    assert conversion.law.articles[0].text == "Tekst."
