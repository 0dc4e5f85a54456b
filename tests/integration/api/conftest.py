"""The HTTP interface under test, on a database of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.ports.database import Database
from tests.kit.api import Api, serving
from tests.kit.pipelines import Shop


@pytest.fixture
async def shop(database: Database) -> Shop:
    return await Shop.open(database)


@pytest.fixture
async def api(shop: Shop, tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(shop, tmp_path / "blobs") as opened:
        yield opened
