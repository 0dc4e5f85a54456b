"""Tables on a terminal: what can be typed again stays whole, however narrow it is and however long a text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from supervisor.tables import LEAST_FLEXIBLE, FittedTable

HEADINGS = ("ID", "TYPE", "LAW", "STATUS", "PRIO", "TRIES", "CREATED UTC", "NOTE")
LONG = "BWBR0018451 is not in the repository: https://repository.example/bwb/BWBR0018451/manifest.xml " * 3
ROW = ("0a1b2c3d", "harvest", "BWBR0018451", "completed", "50", "1/3", "2026-03-10 12:00", LONG)


def lines_of(table: FittedTable, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(table, crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_only_the_note_of_a_job_gives_way(width: int) -> None:
    heading, row = lines_of(FittedTable(HEADINGS, (ROW,), ("NOTE", "LAW")), width)
    assert heading.split() == " ".join(HEADINGS).split()
    assert tuple(row.split()[:4]) == ROW[:4]
    assert row.split()[4:8] == ["50", "1/3", "2026-03-10", "12:00"]
    assert len(row) == width
    assert row.endswith("…")
    assert "BWBR0018451" in row[70:] or width == 80


def test_what_fits_is_not_cut_and_has_two_spaces_between() -> None:
    short = (*ROW[:-1], "by pod-1")
    assert lines_of(FittedTable(HEADINGS, (short,)), 200)[1] == (
        "0a1b2c3d  harvest  BWBR0018451  completed  50    1/3    2026-03-10 12:00  by pod-1"
    )


def test_a_terminal_that_is_too_narrow_even_so_wraps_lines_and_loses_nothing_but_the_end_of_texts() -> None:
    row = lines_of(FittedTable(HEADINGS, (ROW,), ("NOTE",)), 40)[1]
    assert row.startswith("0a1b2c3d harvest BWBR0018451 completed 50   1/3   2026-03-10 12:00 BWBR001845…")
    assert len(row.rpartition("12:00 ")[2]) == LEAST_FLEXIBLE


def test_of_several_texts_the_widest_gives_way_first() -> None:
    row = lines_of(FittedTable(("ID", "NAME", "NOTE"), (("1", "n" * 60, "m" * 20),), ("NAME", "NOTE")), 60)[1]
    assert "m" * 20 in row
    assert len(row) == 60


def test_numbers_are_never_cut_and_stand_at_the_right() -> None:
    table = FittedTable(("LAW", "TOKENS"), (("x" * 90, "1,204,331"), ("y", "7")), ("LAW",), right=("TOKENS",))
    first, second = lines_of(table, 40)[1:]
    assert first.endswith("…  1,204,331")
    assert second.endswith("         7")


def test_a_table_without_rows_is_its_headings() -> None:
    assert lines_of(FittedTable(("ID", "NOTE"), ()), 80) == ["ID  NOTE"]


def test_cells_are_harmless_and_no_markup() -> None:
    row = lines_of(FittedTable(("ID", "NAME"), (("1", "[red]a\x1b[2Jb"),)), 80)[1]
    assert row == "1   [red]a\ufffd[2Jb"
