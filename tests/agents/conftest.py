"""What the scenarios of both CLIs share."""

from __future__ import annotations

import pytest

LIMIT_S = 55
"""Of one scenario (D61)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "agents" in item.path.parts and item.get_closest_marker("time_limit") is None:
            item.add_marker(pytest.mark.time_limit(LIMIT_S))
