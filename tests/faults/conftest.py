"""One server for all rounds of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.ground import Ground, ground


@pytest.fixture(scope="session")
def battleground() -> Iterator[Ground]:
    """A private PostgreSQL server whose databases come and go with the rounds."""
    with ground() as opened:
        yield opened
