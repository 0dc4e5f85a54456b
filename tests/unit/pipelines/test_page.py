"""The page on pipelines names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "pipelines.md"
HERE = ROOT / "tests" / "integration" / "pipelines"


@pytest.mark.claim("S3-110")
def test_every_test_and_file_that_the_page_names_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"\b(test_\w+)`", text)) - {"test_money"}
    assert len(named) > 20
    missing = {name for name in named if not name.endswith("py") and f"def {name}(" not in tests}
    assert missing == set()
    for path in re.findall(r"`([\w/]+\.py)", text):
        assert (ROOT / path).exists() or (HERE / path).exists() or (ROOT / "schema" / "pipelines" / path).exists(), path


def test_each_work_item_has_its_row() -> None:
    rows = re.findall(r"^\| (\d) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [str(number) for number in range(1, 10)]
