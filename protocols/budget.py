"""The hourly claude budget: which runs count, and how many the clock hour allows (D11, ``queue.md`` 5)."""

from __future__ import annotations

import datetime as dt
from typing import Final

CLAUDE: Final = "claude"
OPENCODE: Final = "opencode"
PROVIDERS: Final = (OPENCODE, CLAUDE)
"""In the order in which jobs are made for them."""

NIGHT_ENDS_HOUR: Final = 8
"""Local hours 0 to 7 are night."""

_SQL_INT_MAX: Final = 2**31 - 1


def effective_provider(named: str | None, default: str) -> str:
    """Who runs a job: the provider its payload names; for an absent or unknown name, the default of the worker."""
    return named if named in PROVIDERS else default


def hourly_cap(limit: int, night_multiplier: int, local_hour: int) -> int:
    """Claude runs allowed in the clock hour ``local_hour`` (0..23, Europe/Amsterdam). 0 or less stays 0: no run at all."""
    if limit <= 0:
        return 0
    factor = max(1, night_multiplier) if local_hour < NIGHT_ENDS_HOUR else 1
    return min(limit * factor, _SQL_INT_MAX)


def next_hour(at: dt.datetime) -> dt.datetime:
    """When the clock hour of ``at`` (aware) ends. Amsterdam is whole hours from UTC, so its hours end when those of UTC do.

    That holds in the doubled hour of autumn too: its halves are two clock hours (D11).
    """
    return at.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=1)
