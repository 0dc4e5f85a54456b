"""Numbers on the command line: what neither the database nor a clock could take is refused where it is typed."""

from __future__ import annotations

import math
from typing import Any, Final

import click
from click.types import IntParamType

HIGHEST_ID: Final = 2**63 - 1
MOST_MICROS: Final = 10**15
"""In one entry: a thousand million euros."""

MOST_ROWS: Final = 1_000_000


class IdType(IntParamType):
    """A number that names a row. Unlike a range it is not spelled out in the help."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuses what no row can have."""
        number: int = super().convert(value, param, ctx)
        if not 1 <= number <= HIGHEST_ID:
            self.fail(f"{number} is no id: ids begin at 1.", param, ctx)
        return number


class FiniteRange(click.FloatRange):
    """A range of numbers without ``nan``, which is in every range, and ``inf``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As the range does."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to count with.", param, ctx)
        return number


ID: Final = IdType()
