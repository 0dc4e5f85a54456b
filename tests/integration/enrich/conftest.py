"""A bench for the enrich job, on a database and a repository of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.ports.database import Database
from tests.kit.enrichbench import EnrichBench
from tests.kit.jobrows import Rows


@pytest.fixture
async def rows(database: Database) -> Rows:
    return Rows(database)


@pytest.fixture
async def bench(rows: Rows, tmp_path: Path) -> EnrichBench:
    """A corpus with one law of three articles, and an obedient agent."""
    return EnrichBench.create(rows, tmp_path)
