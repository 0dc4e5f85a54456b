"""``python -m tests.kit.wrong_clock ...`` is ``python -m supervisor ...`` in a process whose wall clock is wrong.

``WRONG_CLOCK_SECS`` says by how much. Leases must not notice: they live by the database's clock and by the monotonic one.
"""

from __future__ import annotations

import datetime
import os
import time
import warnings
from typing import Any

OFFSET = "WRONG_CLOCK_SECS"


def shift(offset_s: float) -> None:
    """Make ``time`` and ``datetime`` of this process tell a time that is off by so much."""
    # extensions that compare the size of the class are content with the one they find
    warnings.filterwarnings("ignore", message="datetime.datetime size changed")
    right_time, right_ns, right = time.time, time.time_ns, datetime.datetime

    class Kind(type):
        """Values made in C are of the right class, and must count as ours."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, right)

    class Wrong(right, metaclass=Kind):  # type: ignore[valid-type, misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return right.now(tz) + datetime.timedelta(seconds=offset_s)

        @classmethod
        def utcnow(cls) -> Any:
            return right.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=offset_s)

    setattr(time, "time", lambda: right_time() + offset_s)  # noqa: B010 - mypy forbids the plain way
    setattr(time, "time_ns", lambda: right_ns() + int(offset_s * 1e9))  # noqa: B010
    setattr(datetime, "datetime", Wrong)  # noqa: B010


if __name__ == "__main__":
    shift(float(os.environ[OFFSET]))
    from supervisor.__main__ import main

    main()
