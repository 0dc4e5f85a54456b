"""Pipelines under test, on a database of their own."""

from __future__ import annotations

import pytest

from actors.ports.database import Database
from tests.kit.pipelines import Shop


@pytest.fixture
async def shop(database: Database) -> Shop:
    return await Shop.open(database)
