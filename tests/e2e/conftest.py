"""Where supervisors of these tests live; a test file with other needs has a ``pod`` of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.postgres import PrivatePostgres
from tests.kit.supervisors import Fleet, fleet


@pytest.fixture
def pod(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as made:
        yield made


@pytest.fixture
def fragile_pod(private_postgres: PrivatePostgres, tmp_path: Path) -> Iterator[Fleet]:
    """On a database server of its own."""
    with fleet(private_postgres.url, tmp_path) as made:
        yield made
