"""What a test sets up for logs ends with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that runs in the process of the tests sets a level and a stream, which would outlive it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    root.handlers[:], root.level = handlers, level
    if before is None:
        structlog.reset_defaults()
    else:
        structlog.configure(**before)
