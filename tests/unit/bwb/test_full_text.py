"""Style ``full``: what the older converter drops or garbles is kept where a reader expects it (D32)."""

from __future__ import annotations

import pytest

from protocols.bwb.toestand import Style
from tests.kit import toestand as kit
from tests.kit.toestand import classic, text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<al>CO<inf>2</inf> en x<sup>2</sup> en 10<sup>n</sup></al>", "CO₂ en x² en 10ⁿ"),
        ("<al>1<sup>e</sup> lid, 10<sup>a+b</sup>, H<sub>max</sub></al>", "1e lid, 10<sup>a+b</sup>, H<sub>max</sub>"),
        ("<al>een <onbekend>vreemd <nadruk>woord</nadruk></onbekend> erin</al>", "een vreemd *woord* erin"),
        ("<al>de<nadruk> b </nadruk>en <nadruk type='vet'>c</nadruk><nadruk/></al>", "de *b* en **c**"),
        ("<al><nadruk>A</nadruk>\n<nadruk>B</nadruk></al>", "*A* *B*"),
        ("<al>4,8 procent<redactie>per 2009: 5 procent</redactie> hoog</al>", "4,8 procent [per 2009: 5 procent] hoog"),
        ("<al><redactie>[Vervallen]</redactie></al>", "[Vervallen]"),
        ("<lid><lidnr>2</lidnr><al><redactie>Vervallen.</redactie></al></lid>", "2 [Vervallen.]"),
        ("<lid><lidnr>1<sup>a</sup></lidnr><al>x</al></lid>", "1a x"),
        ("<lid>los <al>x</al> rand</lid>", "los\n\nx\n\nrand"),
        ("<tussenkop>§ I.<nadruk> Algemeen</nadruk></tussenkop><al>x</al>", "### § I. *Algemeen*\n\nx"),
        (
            "<al>a</al><adres><adresregel>Straat 1</adresregel><adresregel>Stad</adresregel></adres>",
            "a\n\nStraat 1\n\nStad",
        ),
        ("<al>a <lijst><li><li.nr>1.</li.nr><al>b</al></li></lijst> c</al>", "a\n\n1. b\n\nc"),
        ("<nieuw><al>x</al><vreemd><al>y</al></vreemd></nieuw>", "x\n\ny"),
        ("<al>Straks <x>een</x><y>twee</y>.</al>", "Straks een twee."),
    ],
)
def test_words_survive_in_readable_form(content: str, expected: str) -> None:
    assert text(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "<al>  Gewone tekst. </al>",
        (
            '<lid><lidnr>1</lidnr><al>A <nadruk type="vet">b</nadruk>:</al><lijst><li><li.nr>a.</li.nr><al>x</al>'
            "<lijst><li><li.nr>1°.</li.nr><al>y</al></li></lijst></li></lijst></lid>"
        ),
        (
            '<al>i:</al><lijst type="ongemarkeerd"><li><al>a:</al><lijst><li><li.nr>–</li.nr><al>x</al></li></lijst></li>'
            '<li><al><extref doc="jci1.3:c:BWBR0001840&amp;artikel=1"> wet</extref> b</al></li></lijst>'
        ),
        "<al>regel\n      en nog een</al><al/><lid><lidnr>1</lidnr></lid>",
        '<lid><lidnr>1</lidnr><lijst type="ongemarkeerd"><li><al>x</al></li></lijst></lid>',
        "<lijst><li><li.nr>a.</li.nr></li><li><al>zonder merk</al></li></lijst>",
        '<al><extref doc="32016R0679">Verordening</extref>, <intref doc="">dit</intref></al>',
    ],
)
def test_where_nothing_was_lost_the_text_is_that_of_the_older_style(content: str) -> None:  # D31
    assert text(content) == classic(content)


@pytest.mark.parametrize(
    ("doc", "target"),
    [
        ("32016R0679", "32016R0679"),
        ("jci1.3:v:X?a=1&amp;b=2#c", "jci1.3:v:X?a=1&b=2#c"),
        ("bijlage (1).pdf", "bijlage%20%281%29.pdf"),
        ("&lt;x&gt;) [y](z", "%3Cx%3E%29%20%5By%5D%28z"),
    ],
)
def test_nothing_in_a_target_ends_the_link(doc: str, target: str) -> None:
    assert text(f'<al>Zie <extref doc="{doc}">hier</extref>.</al>') == f"Zie [hier]({target})."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<lijst type="ongemarkeerd"><li><li.nr>a.</li.nr><al>x</al></li></lijst>', "a. x"),
        (
            '<lijst type="ongemarkeerd"><li><al>x</al><al>y<lijst><li><al>z</al></li></lijst></al></li></lijst>',
            "- x\n\ny\n\n- z",
        ),
        ("<lijst><li><li.nr>–</li.nr></li><li><li.nr>–</li.nr><al>x</al></li></lijst>", "- x"),
        ("<lijst><li><li.nr>a.</li.nr><table><title>T</title></table></li></lijst>", "a. **T**"),
        ("<lijst><al>intro</al><li><li.nr>a.</li.nr><al>x</al></li></lijst>", "intro\n\na. x"),
        ("<lijst><li><li.nr>I.</li.nr><lijst><li><li.nr>a.</li.nr><al>x</al></li></lijst></li></lijst>", "I. a. x"),
        (
            (
                "<definitielijst><definitie-item><li.nr>a.</li.nr><term>fiets: </term><definitie><al>rijwiel;</al><al>ook:</al>"
                "</definitie></definitie-item><definitie-item><term>brug</term><definitie><al>weg</al></definitie>"
                "</definitie-item></definitielijst>"
            ),
            "a. fiets: rijwiel;\n\nook:\n\nbrug weg",
        ),
    ],
)
def test_lists_keep_their_own_markers_and_everything_in_them(content: str, expected: str) -> None:
    assert text(content) == expected


def test_notes_become_footnotes_at_the_end_of_their_entry_and_can_be_pointed_at() -> None:
    content = (
        '<al>Een<noot id="n1"><noot.nr>1</noot.nr><noot.al>Eerste noot,</noot.al><noot.al>vervolg.</noot.al></noot> en'
        "<noot><noot.nr>*</noot.nr><noot.al>Ster.</noot.al></noot> of<noot><noot.nr>*</noot.nr><noot.al>Ster.</noot.al></noot>"
        "</al><al>Zie<nootref refid='n1'/>.</al>"
    )
    assert text(content) == (
        "Een[^1] en[^*] of[^*-2]\n\nZie[^1].\n\n[^1]: Eerste noot, vervolg.\n\n[^*]: Ster.\n\n[^*-2]: Ster."
    )


def test_footnote_labels_start_anew_in_each_article() -> None:
    content = "<al>x<noot><noot.nr>1</noot.nr><noot.al>n</noot.al></noot></al>"
    entries = kit.law(kit.article(content) + kit.article(content, "2")).articles
    assert [entry.text for entry in entries] == ["x[^1]\n\n[^1]: n"] * 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<formule><al>A = B x C</al></formule>", "A = B x C"),
        ("<illustratie id='7' naam='1.png'/>", "[afbeelding: 1.png]"),
        ("<plaatje><bijschrift>Boven</bijschrift><illustratie naam='1.png' alt='Een [brug]'/></plaatje>", "Boven\n\n[afbeelding: Een (brug) (1.png)]"),
        ("<al>De waarde <illustratie bin-id='9'/> telt.</al>", "De waarde [afbeelding: 9] telt."),
        (
            ('<formule><math xmlns="http://www.w3.org/1998/Math/MathML"><mi>p</mi><mo>=</mo><mfrac><mrow><mi>a</mi>'
            "<mo>+</mo><mi>b</mi></mrow><msup><mi>c</mi><mn>2</mn></msup></mfrac></math></formule>"),
            "[formule: p = (a + b) / (c ^ 2)]",
        ),
        ('<al>norm <math><msqrt><mi>x</mi></msqrt></math></al>', "norm [formule: √(x)]"),
        ('<al>leeg <math alttext="p = q"/></al>', "leeg [formule: p = q]"),
    ],
)  # fmt: skip
def test_formulas_and_pictures_leave_their_text_or_a_placeholder(content: str, expected: str) -> None:
    assert text(content) == expected


def test_repealed_and_future_articles_are_visible_as_such() -> None:
    body = (
        '<artikel status="vervallen"><kop><nr>1</nr></kop><al><redactie>Vervallen</redactie></al></artikel>'
        '<artikel status="vervallen"><kop><nr>2</nr></kop></artikel>'
        '<artikel status="nogniet"><kop><nr>3</nr></kop><al>Later.</al></artikel>'
        '<artikel status="nogniet"><kop><nr>4</nr></kop></artikel><artikel><kop><nr>5</nr></kop></artikel>'
    )
    conversion = kit.converted(body)
    texts = [entry.text for entry in conversion.law.articles]
    assert texts == ["[Vervallen]", "[Vervallen]", "Later.", "[Nog niet in werking]", ""]
    (division,) = conversion.law.structure
    statuses = [entry.status for entry in division.articles]
    assert statuses == ["vervallen", "vervallen", "nog niet in werking", "nog niet in werking", None]
    assert conversion.warnings == ("Article 5: no text",)


def test_a_quoted_article_stays_in_the_article_that_quotes_it() -> None:
    content = (
        "<al>Ingevoegd wordt:</al><nieuw>"
        + kit.article("<lid><lidnr>1</lidnr><al>Nieuw.</al></lid>", "7a")
        + "</nieuw>"
    )
    (entry,) = kit.law(kit.article(content)).articles
    assert entry.text == "Ingevoegd wordt:\n\n## Artikel 7a\n\n1 Nieuw."


def test_an_amending_article_is_an_entry_in_full() -> None:
    body = "<wijzig-artikel><kop><label>Artikel</label><nr>I</nr></kop><al>Wijzigt.</al></wijzig-artikel>"
    assert [entry.number for entry in kit.law(body).articles] == ["I"]
    assert kit.law(body, Style.ARTICLE).articles == ()
