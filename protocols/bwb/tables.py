"""CALS tables as Markdown tables (D32).

A cell that spans columns has its text in the first of them and ``←`` in the others; one that spans rows has ``↑`` in
the rows below. Paragraphs and list items inside a cell are separated by ``<br>``, a bar is escaped. A table without a
heading row gets an empty one, which Markdown needs.
"""

import re
from collections.abc import Callable
from typing import Final

import attrs
from lxml import etree

from protocols.bwb.elements import METADATA
from protocols.bwb.inline import Entry, tail_words
from protocols.bwb.walk import Task

MAX_COLUMNS: Final = 200
MAX_SPAN_ROWS: Final = 10_000
ROOM_PER_CELL: Final = 50
"""Bounds for what a hostile file can ask for; real tables have a dozen columns."""

_ACROSS: Final = "←"
_DOWN: Final = "↑"

_DASH_LINES = re.compile(r"\n(?=- )")
"""Only the lines of a list stay apart in a cell; any other line break in a paragraph is layout of the file."""

CellBlocks = Callable[[Entry, etree._Element, list[str]], Task[str]]


@attrs.define
class _Grid:
    """Rows of cells under construction. ``hanging`` maps a column to how many more rows a cell above still covers.

    ``room`` is how many more cells may be made that the file does not hold: spans and gaps cost a few bytes there and
    could fill the memory here.
    """

    names: dict[str, int]
    rows: list[list[str]] = attrs.field(factory=list)
    hanging: dict[int, int] = attrs.field(factory=dict)
    room: int = 1000

    def start_row(self) -> None:
        self.rows.append([])

    def end_row(self, spans: dict[int, int]) -> None:
        """Fill what cells above cover; ``spans`` are the columns that cells of this row cover below."""
        row = self.rows[-1]
        if self.hanging:
            self.gap(row, max(self.hanging) + 1)
        for column in list(self.hanging):
            if column < len(row) and not row[column]:
                row[column] = _DOWN
            self.hanging[column] -= 1
            if self.hanging[column] <= 0:
                del self.hanging[column]
        self.hanging.update(spans)

    def add(self, entry: etree._Element, text: str, spans: dict[int, int]) -> None:
        """Put a cell where its column name says, else in the next free column."""
        row = self.rows[-1]
        self.room += ROOM_PER_CELL
        first = self.names.get(entry.get("namest") or entry.get("colname") or "", -1)
        last = self.names.get(entry.get("nameend") or "", first)
        width = max(1, last - first + 1) if first >= 0 else 1
        if first < len(row):
            first = len(row)
            while first in self.hanging:
                first += 1
        self.gap(row, first)
        first = len(row)
        row.append(text)
        self.gap(row, first + width, _ACROSS)
        below = _whole(entry.get("morerows"), MAX_SPAN_ROWS)
        if below:
            spans.update(dict.fromkeys(range(first, len(row)), below))

    def gap(self, row: list[str], upto: int, filler: str = "") -> None:
        missing = min(upto - len(row), self.room)
        if missing > 0:
            self.room -= missing
            row += [filler] * missing


def markdown_table(entry: Entry, group: etree._Element, cell_blocks: CellBlocks) -> Task[str]:
    """One ``tgroup`` as a Markdown table; text that stands outside its cells comes before it, as its own lines."""
    grid = _Grid(_column_names(group))
    heading_rows = 0
    outside: list[str] = []
    for part in group:
        if part.tag in ("thead", "tbody", "tfoot"):
            for row in part:
                if row.tag == "row":
                    yield _row(entry, row, grid, cell_blocks, outside)
                elif row.tag not in METADATA:
                    yield cell_blocks(entry, row, outside)
                _keep(outside, tail_words(row))
            _keep(outside, part.text)
            if part.tag == "thead" and not heading_rows:
                heading_rows = len(grid.rows)
        elif part.tag not in METADATA:
            yield cell_blocks(entry, part, outside)
        _keep(outside, tail_words(part))
    _keep(outside, group.text)
    table = _markdown(grid, heading_rows)
    return "\n\n".join([*outside, table] if table else outside)


def _row(entry: Entry, row: etree._Element, grid: _Grid, cell_blocks: CellBlocks, outside: list[str]) -> Task[str]:
    grid.start_row()
    spans: dict[int, int] = {}
    for cell in row:
        if cell.tag in METADATA:
            continue
        blocks: list[str] = []
        yield cell_blocks(entry, cell, blocks)
        if len(grid.rows[-1]) >= MAX_COLUMNS:
            outside += blocks
        else:
            grid.add(cell, _cell_text(blocks), spans)
        _keep(outside, tail_words(cell))
    grid.end_row(spans)
    _keep(outside, row.text)
    return ""


def _keep(outside: list[str], text: str | None) -> None:
    if text and not text.isspace():
        outside.append(text.strip())


def _cell_text(blocks: list[str]) -> str:
    lines = [" ".join(line.split()) for text in blocks for line in _DASH_LINES.split(text)]
    joined = "<br>".join(filter(None, lines))
    return joined.replace("|", "\\|") if "|" in joined else joined


def _column_names(group: etree._Element) -> dict[str, int]:
    names: dict[str, int] = {}
    for position, column in enumerate(group.iterchildren("colspec")):
        number = _whole(column.get("colnum"), MAX_COLUMNS)
        place = number - 1 if number else position
        if place < MAX_COLUMNS:
            names[column.get("colname") or f"col{place + 1}"] = place
    for place in range(_whole(group.get("cols"), MAX_COLUMNS)):
        names.setdefault(f"col{place + 1}", place)
    return names


def _whole(text: str | None, limit: int) -> int:
    """A whole number from an attribute, at most ``limit``; zero for anything else."""
    return min(int(text), limit) if text and text.isdecimal() and len(text) < 10 else 0


def _markdown(grid: _Grid, heading_rows: int) -> str:
    rows = grid.rows
    if not any(any(row) for row in rows):
        return ""
    columns = max(map(len, rows))
    for row in rows:
        grid.gap(row, columns)
    heading = rows[0] if heading_rows else [""] * columns
    body = rows[1:] if heading_rows else rows
    lines = [heading, ["---"] * columns, *body]
    return "\n".join([f"| {' | '.join(line)} |" for line in lines])
