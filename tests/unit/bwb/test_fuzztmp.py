"""Laws nobody wrote: random nesting of real elements, and real files broken at random (D36).

``HYPOTHESIS_PROFILE=nightly`` makes many more of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.bwb.errors import ConversionError
from protocols.bwb.loss import loss_report
from protocols.bwb.toestand import Style, convert, convert_alone, facts_of
from protocols.lawyaml import dump_law, load_law
from tests.kit import shared
from tests.kit import toestand as kit
from tests.kit.yaml_readers import read_11

Draw = Callable[[st.SearchStrategy[str]], str]

EXAMPLES = 10_000 if hypothesis.settings.get_current_profile_name() == "nightly" else 3000

GAPS = st.sampled_from(["", "", "", " ", "\n", "\n      ", "\t"])
SIGNS = st.sampled_from(
    [
        "",
        "",
        "",
        "",
        " ",
        ",",
        ": ",
        "|",
        "[",
        "]",
        "](",
        "*",
        "**",
        "_",
        "# ",
        "- ",
        "`",
        "\\",
        "€ 1,50",
        "½",
        "²",
        "é",
        "\u00a0",
        "\u2028",
        "°",
        "'",
        '"',
        "<b>",
        "&",
        "{",
        "%",
    ]
)
MARKERS = ["a.", "1°.", "1.", "–", "•", "-", "", "aa.", "[1]", "1:1", "24e1", "I"]


class Writer:
    """Writes random XML; every piece of text holds a word of its own, so that it can be told from all others."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.words = itertools.count(1)
        self.notes = itertools.count(1)

    def text(self) -> str:
        before, after = self.draw(SIGNS), self.draw(SIGNS)
        return escape(f"{before}w{next(self.words)}x{after}")

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == 0

    def some(self, most: int) -> Iterator[int]:
        return iter(range(self.draw(st.integers(0, most))))

    def pick(self, *names: str) -> str:
        return self.draw(st.sampled_from(names))

    def gap(self) -> str:
        return self.draw(GAPS)

    def inline(self, depth: int, *, note: bool = True) -> str:
        parts = [self.text()] if not self.chance(4) else []
        for _ in self.some(2 if depth else 0):
            kind = self.pick(
                "nadruk",
                "extref",
                "intref",
                "sup",
                "inf",
                "redactie",
                "vreemd",
                "noot" if note else "nadruk",
                "illustratie",
                "nootref",
            )
            parts.append(self.inline_element(kind, depth - 1, note=note))
            parts.append(self.pick(self.gap(), self.text()))
        return "".join(parts)

    def inline_element(self, kind: str, depth: int, *, note: bool) -> str:
        if kind == "noot":
            number = next(self.notes)
            return f'<noot id="n{number}"><noot.nr>n{number}</noot.nr><noot.al>{self.inline(depth, note=False)}</noot.al></noot>'
        if kind in ("illustratie", "nootref"):
            return f'<{kind} naam="1.png" refid="n1"/>'
        attributes = ""
        if kind in ("extref", "intref"):
            doc = self.pick(
                f"jci1.3:c:BWBR000{self.draw(st.integers(1000, 9999))}&amp;artikel=1&amp;o=a",
                "32016R0679",
                "",
                "onbekend",
                "1.0:v:BWBR0001840&amp;artikel=8%3A1",
            )
            attributes = f' doc="{doc}"'
        return f"<{kind}{attributes}>{self.inline(depth, note=note)}</{kind}>"

    def blocks(self, depth: int, most: int = 3) -> str:
        return "".join(self.gap() + self.block(depth) for _ in self.some(most)) + self.gap()

    def block(self, depth: int) -> str:
        if depth <= 0 or self.chance(3):
            return f"<al>{self.inline(2)}</al>"
        kind = self.pick(
            "lid",
            "lijst",
            "lijst",
            "table",
            "definitielijst",
            "tussenkop",
            "plaatje",
            "formule",
            "vreemd",
            "noot",
            "redactie",
            "meta-data",
            "al",
            "adres",
        )
        if kind == "lijst":
            return self.list(depth - 1)
        if kind == "table":
            return self.table(depth - 1)
        if kind == "lid":
            return f"<lid><lidnr>{self.pick('1', '2.', '', '1a')}</lidnr>{self.blocks(depth - 1)}</lid>"
        if kind == "definitielijst":
            term = f"<li.nr>{self.pick('a.', '')}</li.nr><term>{self.inline(1)}</term>"
            return f"<definitielijst><definitie-item>{term}<definitie>{self.blocks(depth - 1)}</definitie></definitie-item></definitielijst>"
        if kind == "noot":
            return f"<al>{self.text()}{self.inline_element('noot', 1, note=True)}</al>"
        if kind == "meta-data":
            return '<meta-data><jcis><jci verwijzing="x"/></jcis>verborgen</meta-data>'
        if kind == "tussenkop":
            return f"<tussenkop>{self.inline(2)}</tussenkop>"
        if kind == "redactie":
            return f"<al><redactie type='vervanging'>{self.inline(1)}</redactie></al>"
        if kind == "plaatje":
            return f"<plaatje><illustratie naam='2.png'/><bijschrift>{self.inline(1)}</bijschrift></plaatje>"
        return f"<{kind}>{self.blocks(depth - 1)}</{kind}>"

    def list(self, depth: int) -> str:
        kind = self.pick("expliciet", "ongemarkeerd", "")
        items = "".join(
            f"{self.gap()}<li><li.nr>{self.draw(st.sampled_from(MARKERS))}</li.nr>{self.blocks(depth, 2)}</li>"
            for _ in self.some(3)
        )
        return f'<lijst type="{kind}">{items}{self.gap()}</lijst>'

    def table(self, depth: int) -> str:
        columns = self.draw(st.integers(1, 3))
        specs = "".join(f'<colspec colname="c{n}" colnum="{n}"/>' for n in range(1, columns + 1))
        rows = "".join(
            f"<row>{''.join(self.cell(depth, columns) for _ in self.some(columns))}</row>" for _ in self.some(3)
        )
        head = (
            f"<thead><row>{''.join(self.cell(0, columns) for _ in range(columns))}</row></thead>"
            if self.chance(2)
            else ""
        )
        title = f"<title>{self.inline(1)}</title>" if self.chance(3) else ""
        return f'<table>{title}<tgroup cols="{columns}">{specs}{head}<tbody>{rows}</tbody></tgroup></table>'

    def cell(self, depth: int, columns: int) -> str:
        attributes = self.pick(
            "", "", f'colname="c{columns}"', f'namest="c1" nameend="c{columns}"', 'morerows="1"', 'morerows="x"'
        )
        return f"<entry {attributes}>{self.blocks(depth, 2)}</entry>"

    def kop(self, label: str, number: str) -> str:
        title = f"<titel>{self.inline(1)}</titel>" if self.chance(2) else ""
        return f"<kop>{self.gap()}<label>{label}</label>{self.gap()}<nr>{number}</nr>{title}</kop>"

    def article(self, depth: int) -> str:
        status = self.pick("goed", "goed", "vervallen", "nogniet")
        number = f"{next(self.words)}{self.pick('', 'a', '*', ':1', 'e1')}"
        return f'<artikel status="{status}">{self.kop("Artikel", number)}{self.blocks(depth)}</artikel>'

    def division(self, depth: int) -> str:
        kind = self.pick("boek", "hoofdstuk", "afdeling", "paragraaf", "circulaire.divisie")
        label = self.pick(kind.capitalize() if kind != "circulaire.divisie" else "Onderdeel", "Vreemd")
        parts = (self.part(depth) + self.gap() for _ in self.some(4))
        return f"<{kind}>{self.kop(label, f'{next(self.words)}')}{''.join(parts)}</{kind}>"

    def part(self, depth: int) -> str:
        choice = self.draw(st.integers(0, 5))
        if depth > 0 and choice == 0:
            return self.division(depth - 1)
        if choice == 1:
            return f"<tekst>{self.blocks(depth)}</tekst>"
        return self.block(depth) if choice == 2 else self.article(3)

    def annex(self) -> str:
        heading = self.kop("Bijlage", f"{next(self.words)}") if not self.chance(4) else ""
        return (
            f"<bijlage>{heading}{self.blocks(3)}{self.article(1) if self.chance(3) else ''}{self.blocks(1)}</bijlage>"
        )


@st.composite
def toestanden(draw: st.DrawFn) -> bytes:
    writer = Writer(draw)
    before = ""
    if writer.chance(2):
        before = (
            f"<intitule>{writer.inline(1)}</intitule><citeertitel>{writer.text()}</citeertitel><aanhef><wij>{writer.text()}</wij>"
            f"<considerans><considerans.al>{writer.inline(2)}</considerans.al></considerans></aanhef>"
        )
    body = "".join(writer.part(2) + writer.gap() for _ in writer.some(4))
    closing = (
        f"<wetsluiting><slotformulering><al>{writer.inline(1)}</al></slotformulering></wetsluiting>"
        if writer.chance(2)
        else ""
    )
    annexes = "".join(writer.annex() for _ in writer.some(2))
    return kit.toestand(body, before=before, after=closing + annexes)


@hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck))
@given(toestanden())
def test_a_random_law_converts_in_every_style_loads_again_and_loses_no_word(xml: bytes) -> None:
    for style in Style:
        conversion = convert(xml, kit.FACTS, style)
        written = dump_law(conversion.law)
        loaded = load_law(written.encode())
        assert loaded == read_11(written)
        assert [entry["number"] for entry in loaded["articles"]] == [entry.number for entry in conversion.law.articles]
        if style is Style.FULL:
            report = loss_report(xml, loaded)
            assert report.lost == ()
            words = set(re.findall(r"w[0-9]+x", xml.decode()))
            assert words <= set(re.findall(r"w[0-9]+x", written))
            scanned = set(re.findall(rb"BWBR[0-9]{7}", xml)) - {kit.BWB_ID.encode()}
            assert {found.encode() for found in conversion.referenced_bwb_ids} == scanned


def real_files() -> list[str]:
    return [str(path.relative_to(shared.FOLDER)) for path in shared.folder("data/bwb") if path.stat().st_size < 120_000]


OUR_OWN = kit.toestand(
    kit.article(
        "<lid><lidnr>1</lidnr><al>Een <extref doc='jci1.3:c:BWBR0001840'>wet</extref> met CO<inf>2</inf>.</al></lid>"
    ),
    before="<intitule>x</intitule>",
    after="<bijlage><kop><nr>1</nr></kop><table><tgroup cols='1'><tbody><row><entry><al>c</al></entry></row></tbody></tgroup></table></bijlage>",
)


def survives(xml: bytes) -> None:
    """Converts, or fails with nothing but the typed error."""
    for style in Style:
        try:
            written = dump_law(convert_alone(xml, style, day=kit.DAY).law)
        except ConversionError as failure:
            told = [failure.reason, failure.message]
            assert all(words and words.isprintable() for words in told)
        else:
            load_law(written.encode())


@given(st.data())
def test_a_broken_law_of_our_own_ends_in_success_or_the_typed_error(data: st.DataObject) -> None:
    survives(broken(data, OUR_OWN))


def broken(data: st.DataObject, xml: bytes) -> bytes:
    if data.draw(st.booleans()):
        return xml[: data.draw(st.integers(0, len(xml)))]
    changed = bytearray(xml)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(xml) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed)


@pytest.mark.parametrize("name", real_files())
@hypothesis.settings(max_examples=max(8, EXAMPLES // 50), suppress_health_check=list(hypothesis.HealthCheck))
@given(data=st.data())
def test_a_broken_real_file_ends_in_success_or_the_typed_error(name: str, data: st.DataObject) -> None:
    survives(broken(data, shared.path(name).read_bytes()))


def test_the_facts_of_a_broken_text_are_a_typed_error_too() -> None:
    with pytest.raises(ConversionError):
        facts_of(OUR_OWN[:-20])
