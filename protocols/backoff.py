"""The pause before a failed job may run again (``queue.md`` 2.7)."""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 30.0
LONGEST_S: Final = 900.0


def retry_backoff(attempts: int) -> float:
    """Seconds to wait after ``attempts`` spent attempts: 30, 60, 120, 240, 480, then 900. Less than one counts as one.

    The exponent is bounded before anything is multiplied, else an interval overflows.
    """
    return min(FIRST_S * 2.0 ** min(max(attempts, 1) - 1, 30), LONGEST_S)
