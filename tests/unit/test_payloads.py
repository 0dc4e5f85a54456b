"""Harvest payloads and results as the existing services write and read them (queue.md 3.2, 10.4), backoff, budget."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.backoff import retry_backoff
from protocols.budget import effective_provider, hourly_cap
from protocols.failures import InvalidPayload
from protocols.payloads import (
    Change,
    HarvestPayload,
    HarvestResult,
    read_harvest_payload,
    read_harvest_result,
    to_document,
)

LAW = "BWBR0018451"


@pytest.mark.parametrize(
    "document",
    [
        {"bwb_id": LAW},
        {"bwb_id": LAW, "date": "2025-01-01", "max_size_mb": 200, "depth": 3},
        {"cvdr_id": "CVDR100394_2"},
        {"bwb_id": LAW, "depth": 0},
        {"bwb_id": LAW, "max_depth": 2, "no_follow": True},
    ],
)
def test_a_payload_reads_and_writes_back_without_absent_fields(document: dict[str, Any]) -> None:
    assert to_document(read_harvest_payload(document, LAW)) == document


def test_unknown_keys_and_nulls_are_ignored() -> None:
    payload = read_harvest_payload({"bwb_id": LAW, "url": "https://x", "cvdr_id": None, "date": None}, LAW)
    assert payload == HarvestPayload(bwb_id=LAW)


@pytest.mark.parametrize(("law_id", "field"), [(LAW, "bwb_id"), ("CVDR100394", "cvdr_id"), ("wet_x", "bwb_id")])
def test_a_job_without_payload_is_for_the_law_of_its_row(law_id: str, field: str) -> None:
    payload = read_harvest_payload(None, law_id)
    assert getattr(payload, field) == law_id
    assert payload.law_id == law_id


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"date": "2025-01-01"},
        {"bwb_id": 5},
        {"bwb_id": ""},
        {"bwb_id": LAW, "depth": "3"},
        {"bwb_id": LAW, "depth": True},
        {"bwb_id": LAW, "depth": 1.0},
        {"bwb_id": LAW, "date": "01-01-2025"},
        {"bwb_id": LAW, "date": "2025-02-30"},
        {"bwb_id": LAW, "no_follow": 1},
        [],
        "BWBR0018451",
        7,
    ],
)
def test_a_payload_that_cannot_be_meant_is_refused_with_a_reason(wrong: Any) -> None:
    with pytest.raises(InvalidPayload, match=r"harvest (payload|job)"):
        read_harvest_payload(wrong, LAW)


def test_the_prefix_decides_where_a_law_comes_from() -> None:
    assert HarvestPayload.for_law(LAW, "2025-01-01") == HarvestPayload(bwb_id=LAW, date="2025-01-01")
    assert HarvestPayload.for_law("CVDR1234") == HarvestPayload(cvdr_id="CVDR1234")


@pytest.mark.claim("S0-037")
@pytest.mark.parametrize(("depth", "follows"), [(None, True), (998, True), (999, True), (1000, False), (5000, False)])
def test_the_chain_of_references_has_an_end(depth: int | None, follows: bool) -> None:
    assert HarvestPayload(bwb_id=LAW, depth=depth).follows is follows


def test_a_result_of_an_existing_worker_is_read_with_its_defaults() -> None:
    document = {
        "law_name": "Wet",
        "slug": "wet",
        "layer": "WET",
        "file_path": "a.yaml",
        "harvest_date": "2025-01-01",
        "article_count": 3,
        "warnings": ["w"],
        "later": 1,
    }
    result = read_harvest_result(document)
    assert (result.source_type, result.changed, result.change, result.warnings) == ("bwb", True, Change.TEXT, ("w",))
    with pytest.raises(InvalidPayload, match="law_name"):
        read_harvest_result({})
    with pytest.raises(InvalidPayload, match="warnings"):
        read_harvest_result({**document, "warnings": "w"})


def test_a_result_is_written_whole() -> None:
    result = HarvestResult("Wet", "wet", "WET", "a.yaml", "2025-01-01", referenced_bwb_ids=(LAW,), change=Change.NONE)
    document = to_document(result)
    assert (document["referenced_bwb_ids"], document["change"], document["changed"]) == ([LAW], "none", True)
    assert read_harvest_result(document) == result


def test_the_pause_doubles_from_thirty_seconds_to_a_quarter_of_an_hour() -> None:
    assert [retry_backoff(n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]


@given(st.integers(-(10**9), 10**12))
def test_no_count_of_attempts_breaks_the_pause(attempts: int) -> None:
    assert 30 <= retry_backoff(attempts) <= 900
    assert retry_backoff(min(attempts, 1)) == 30


@pytest.mark.parametrize(
    ("limit", "multiplier", "hour", "cap"),
    [
        (10, 3, 0, 30),
        (10, 3, 7, 30),
        (10, 3, 8, 10),
        (10, 3, 23, 10),
        (10, 1, 3, 10),
        (10, 0, 3, 10),
        (0, 5, 3, 0),
        (-1, 5, 3, 0),
        (2**31, 9, 3, 2**31 - 1),
    ],
)
def test_the_night_has_its_own_cap(limit: int, multiplier: int, hour: int, cap: int) -> None:
    assert hourly_cap(limit, multiplier, hour) == cap


@pytest.mark.parametrize(
    ("named", "default", "runs"),
    [
        ("claude", "opencode", "claude"),
        ("opencode", "claude", "opencode"),
        (None, "claude", "claude"),
        ("x", "opencode", "opencode"),
    ],
)
def test_a_job_runs_with_the_provider_it_names_or_with_the_worker_s(named: str | None, default: str, runs: str) -> None:
    assert effective_provider(named, default) == runs
