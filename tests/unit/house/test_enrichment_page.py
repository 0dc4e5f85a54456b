"""The page for operators of enrichment names what there is: settings, failures, the words of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import actors.jobs.enrich
import schema.enrich
from protocols.failures import SupervisorError
from supervisor.settings import AREAS
from supervisor.settings.reader import specs

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "enrichment.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOADED = (actors.jobs.enrich, schema.enrich)
"""Imported so that every failure of an enrichment is a known subclass."""


def section(title: str) -> str:
    return re.split(r"^#+ ", PAGE.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def kinds(failure: type[SupervisorError] = SupervisorError) -> Iterator[str]:
    yield failure.kind
    for narrower in failure.__subclasses__():
        yield from kinds(narrower)


@pytest.mark.parametrize("text", [PAGE, README], ids=["page", "readme"])
def test_every_setting_that_is_named_exists(text: str) -> None:
    known = {spec.name for cls in AREAS for _, spec in specs(cls)}
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=\d+)?`", text))
    assert named - known == set()
    assert {"ENRICH_HOURLY_LIMIT", "CLAUDE_CODE_OAUTH_TOKEN", "VLAM_API_URL"} <= named


def test_every_failure_that_is_named_exists() -> None:
    first_cells = re.findall(r"^\| (`.+?) \|", section("Failures"), re.MULTILINE)
    named = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert named <= set(kinds())
    assert {"stalled", "base_drift", "law_unfit", "provider_trouble"} <= named


@pytest.mark.claim("S0-122", "S0-128")
def test_an_operator_can_read_the_three_counts_of_a_step_that_was_cut_off() -> None:
    told = section("Cut-off steps")
    log = (ROOT / "actors" / "agentcalls.py").read_text(encoding="utf-8")
    for word in ("agent step cut off by the output limit", "reasoning_chars", "text_chars", "tool_input_chars"):
        assert word in told
        assert word in log
    assert "VLAM reports no reasoning tokens" in told


@pytest.mark.claim("S0-118")
def test_the_check_of_the_model_service_says_what_equal_counts_mean() -> None:
    assert "Equal counts prove nothing" in section("VLAM check")
