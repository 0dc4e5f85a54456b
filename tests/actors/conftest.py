"""Logs of actors are kept as values: rendering tracebacks would take longer than all the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import EventDict


@pytest.fixture(autouse=True)
def said() -> Iterator[list[EventDict]]:
    """What was logged, one mapping a line."""
    before = structlog.get_config()
    capture = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    try:
        yield capture.entries
    finally:
        structlog.configure(**before)
