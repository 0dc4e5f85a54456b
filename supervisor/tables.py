"""Tables for people. On a terminal only columns of free text give way: an id that is cut cannot be used for anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import field, frozen
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from supervisor.terminaltext import harmless

LEAST_FLEXIBLE: Final = 11
"""Cells to which a column of free text may shrink. A terminal that is too narrow even so gets lines that it wraps."""


def _texts(rows: Sequence[Sequence[str | Text]]) -> tuple[tuple[Text, ...], ...]:
    """Text and no markup: what a law is called is somebody's words."""
    return tuple(tuple(cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row) for row in rows)


@frozen
class FittedTable:
    """``flexible`` are the headings of columns that may lose their end, the widest first; None: the last one.

    ``right`` are the headings of columns of numbers. Print with ``crop=False``. Styles of cells are kept where a cell is
    a ``Text``, which then must be harmless already.
    """

    headings: Sequence[str]
    rows: tuple[tuple[Text, ...], ...] = field(converter=_texts)
    flexible: Sequence[str] | None = None
    right: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths, gap = self.fit(options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, padding=(0, gap, 0, 0))
        for heading, width in zip(self.headings, widths, strict=True):
            justify = "right" if heading in self.right else "left"
            table.add_column(heading, width=width, justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*row)
        yield from console.render(table, options.update(width=sum(widths) + gap * len(widths)))

    def fit(self, room: int) -> tuple[list[int], int]:
        """The width of each column, and the gap between two; their sum is more than ``room`` only when it must be."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headings)
        natural = [
            max([cell_len(heading), *(cell.cell_len for cell in cells)])
            for heading, cells in zip(self.headings, columns, strict=True)
        ]
        gaps = len(natural) - 1
        widths = self._shrunk(natural, room - 2 * gaps)
        if sum(widths) + 2 * gaps <= room:
            return widths, 2
        return self._shrunk(natural, room - gaps), 1

    def _shrunk(self, natural: Sequence[int], room: int) -> list[int]:
        """The widest of those that may gives way first."""
        widths = list(natural)
        flexible = [self.headings.index(heading) for heading in self._flexible]
        for _ in range(sum(widths) - room):
            giving = [n for n in flexible if widths[n] > max(LEAST_FLEXIBLE, cell_len(self.headings[n]))]
            if not giving:
                break
            widths[max(giving, key=widths.__getitem__)] -= 1
        return widths

    @property
    def _flexible(self) -> Sequence[str]:
        return self.headings[-1:] if self.flexible is None else self.flexible
