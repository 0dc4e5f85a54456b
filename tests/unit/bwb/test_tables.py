"""CALS tables as Markdown tables: headings, spans, lists in cells, and hostile shapes (D32)."""

from __future__ import annotations

import time

from protocols.lawyaml import dump_law, load_law
from tests.kit import toestand as kit
from tests.kit.toestand import text


def table(body: str, columns: int = 3, before: str = "") -> str:
    specs = "".join(f'<colspec colname="k{n}" colnum="{n}"/>' for n in range(1, columns + 1))
    return f'<table>{before}<tgroup cols="{columns}">{specs}{body}</tgroup></table>'


def row(*cells: str) -> str:
    return (
        "<row>"
        + "".join(cell if cell.startswith("<") else f"<entry><al>{cell}</al></entry>" for cell in cells)
        + "</row>"
    )


def test_a_table_with_a_heading_row_and_a_title() -> None:
    body = f"<thead>{row('Jaar', 'Bedrag', 'Noot')}</thead><tbody>{row('2024', '€ 1,50', '')}</tbody>"
    assert text(table(body, before="<title>Tarieven</title>")) == (
        "**Tarieven**\n\n| Jaar | Bedrag | Noot |\n| --- | --- | --- |\n| 2024 | € 1,50 |  |"
    )


def test_a_table_without_a_heading_row_gets_an_empty_one() -> None:
    assert text(table(f"<tbody>{row('a', 'b')}</tbody>", 2)) == "|  |  |\n| --- | --- |\n| a | b |"


def test_spans_are_marked_in_the_cells_they_cover() -> None:
    body = (
        "<tbody>"
        + row('<entry namest="k1" nameend="k3"><al>Breed</al></entry>')
        + row('<entry colname="k1" morerows="1"><al>Hoog</al></entry>', "x", "y")
        + row('<entry colname="k2"><al>p</al></entry>', '<entry colname="k3"><al>q</al></entry>')
        + row('<entry colname="k3"><al>laatste</al></entry>')
        + "</tbody>"
    )
    assert text(table(body)).split("\n")[2:] == [
        "| Breed | ← | ← |",
        "| Hoog | x | y |",
        "| ↑ | p | q |",
        "|  |  | laatste |",
    ]


def test_a_span_over_rows_moves_cells_without_a_column_name_aside() -> None:
    high = '<entry morerows="1"><al>Hoog</al></entry>'
    body = f"<tbody>{row(high, 'x')}{row('y')}{row('a', 'b')}</tbody>"
    specless = f'<table><tgroup cols="2">{body}</tgroup></table>'
    assert text(specless).split("\n")[2:] == ["| Hoog | x |", "| ↑ | y |", "| a | b |"]


def test_paragraphs_and_nested_lists_in_a_cell_are_lines_and_bars_are_escaped() -> None:
    cell = (
        "<entry><al>eerst\n   vervolgd</al><lijst><li><li.nr>a.</li.nr><al>x|y</al></li><li><li.nr>b.</li.nr><al>z</al></li></lijst>"
        '<lijst type="ongemarkeerd"><li><al>p</al></li><li><al>q</al></li></lijst></entry>'
    )
    assert text(table(f"<tbody>{row(cell)}</tbody>", 1)).split("\n")[2] == (
        "| eerst vervolgd<br>a. x\\|y<br>b. z<br>- p<br>- q |"
    )


def test_links_and_notes_in_cells_belong_to_the_entry() -> None:
    cell = '<entry><al><extref doc="jci1.3:c:BWBR0001840">wet</extref><noot><noot.nr>1</noot.nr><noot.al>n</noot.al></noot></al></entry>'
    assert text(table(f"<tbody>{row(cell)}</tbody>", 1)).split("\n")[2:] == [
        "| [wet][ref1][^1] |",
        "",
        "[^1]: n",
        "",
        "[ref1]: https://wetten.overheid.nl/BWBR0001840",
    ]


def test_two_groups_are_two_tables_and_the_number_of_a_lid_stands_above_its_table() -> None:
    group = f"<tgroup><tbody>{row('a')}</tbody></tgroup>"
    content = f"<lid><lidnr>1</lidnr><table>{group}{group}</table></lid>"
    assert text(content) == "1\n\n|  |\n| --- |\n| a |\n\n|  |\n| --- |\n| a |"


def test_rows_are_never_broken_by_line_filling() -> None:
    long = "woord " * 60
    law = kit.law(kit.article("<al>Tabel:</al>" + table(f"<tbody>{row(long, 'x', 'y')}</tbody>")))
    loaded = load_law(dump_law(law).encode())
    assert f"| {long.strip()} | x | y |" in loaded["articles"][0]["text"].split("\n")


def test_what_stands_outside_the_cells_is_kept() -> None:
    content = "<table>los<tgroup><al>groep</al><tbody><row><entry><al>a</al></entry></row></tbody></tgroup><bron>Bron: X</bron></table>"
    assert text(content) == "los\n\ngroep\n\n|  |\n| --- |\n| a |\n\nBron: X"


def test_a_table_of_spans_that_would_fill_the_memory_stays_small() -> None:
    wide = '<colspec colname="ver" colnum="200"/>'
    cell = '<row><entry namest="a" nameend="ver" morerows="999999"><al>x</al></entry></row>'
    rows = "<row/>" * 50_000
    start = time.process_time()
    found = text(f'<table><tgroup><colspec colname="a"/>{wide}<tbody>{cell}{rows}</tbody></tgroup></table>')
    assert len(found) < 2_000_000
    assert time.process_time() - start < 5
