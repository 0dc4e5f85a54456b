"""The queue under test, on a database of its own."""

from __future__ import annotations

import pytest

from actors.ports.database import Database
from tests.kit.jobrows import Rows


@pytest.fixture
async def rows(database: Database) -> Rows:
    return Rows(database)
