"""Payload and result of an enrich job (``enrich.md`` 1)."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocols.enrichpayload import (
    EnrichPayload,
    ForeignTarget,
    law_path,
    payload_document,
    provider_of,
    read_enrich_payload,
)
from protocols.enrichresult import (
    AgentCallRecord,
    AgentUsage,
    EnrichResult,
    is_complete,
    result_document,
)
from protocols.failures import InvalidInput, InvalidPayload, JobEnd, LawEnd, verdict_of
from protocols.lawstats import CapturedUntranslatable

PERSON = "0d5b8f8e-1f5c-4d6f-9d6a-0a8a3c2b1f00"
MINIMAL = {"law_id": "BWBR0000001", "yaml_path": "regulation/nl/wet/a/2025-01-01.yaml"}
TASK = {
    **MINIMAL,
    "provider": "claude",
    "depth": 1,
    "requested_by": PERSON,
    "deliver": "task",
    "traject_id": PERSON,
    "traject_ref": "proef-0d5b8f8e",
    "source_etag": 'W/"1"',
    "new_law": True,
}


def test_an_old_payload_parses_and_unset_values_are_absent_when_written() -> None:
    payload = read_enrich_payload({**MINIMAL, "unknown": 1})

    assert payload == EnrichPayload("BWBR0000001", MINIMAL["yaml_path"])
    assert payload_document(payload) == MINIMAL
    assert not payload.is_task_flow


def test_all_fields_survive_a_round_trip() -> None:
    payload = read_enrich_payload(TASK)

    assert payload.is_task_flow
    assert payload.requested_by == UUID(PERSON)
    assert payload_document(payload) == TASK


def test_the_next_window_keeps_what_it_needs_and_nothing_of_this_run() -> None:
    restarted = read_enrich_payload({**MINIMAL, "depth": 1, "restart": True, "source_etag": "x"})

    assert restarted.continuation("claude") == {**MINIMAL, "provider": "claude", "depth": 1}
    assert read_enrich_payload(TASK).task_continuation("claude") == TASK
    assert EnrichPayload("a", "b.yaml", traject_ref="t").continuation("claude")["traject_ref"] == "t"


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {"law_id": "a"},
        {**MINIMAL, "law_id": 7},
        {**MINIMAL, "yaml_path": "/etc/passwd"},
        {**MINIMAL, "depth": "1"},
        {**MINIMAL, "depth": True},
        {**MINIMAL, "new_law": "yes"},
        {**MINIMAL, "deliver": "task"},
        {**MINIMAL, "deliver": "task", "requested_by": PERSON},
        {**MINIMAL, "deliver": "task", "requested_by": PERSON, "traject_id": "not an id"},
    ],
)
def test_a_payload_that_can_never_work_fails_for_good_and_leaves_the_law_alone(payload: object) -> None:
    with pytest.raises(InvalidPayload) as failure:
        read_enrich_payload(payload)
    assert verdict_of(failure.value).job is JobEnd.TERMINAL
    assert verdict_of(failure.value).law is LawEnd.KEEP


@pytest.mark.parametrize("field", [{"traject_id": PERSON}, {"traject_ref": "proef-0d5b8f8e"}])
@pytest.mark.parametrize("deliver", [{}, {"deliver": "push"}, {"deliver": "Task"}])
def test_a_law_of_a_traject_is_never_pushed(field: dict[str, str], deliver: dict[str, str]) -> None:
    with pytest.raises(ForeignTarget, match="review-taak"):
        read_enrich_payload({**MINIMAL, **field, **deliver})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("laws/a/law.yaml", "laws/a/law.yaml"),
        ("/tmp/corpus-repo/laws/a/law.yaml", "laws/a/law.yaml"),
        ("/tmp/regulation-repo/laws/a/law.yaml", "laws/a/law.yaml"),
    ],
)
def test_paths_are_relative_and_two_old_prefixes_are_taken_off(path: str, expected: str) -> None:
    assert law_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "/tmp/corpus-repo//tmp/regulation-repo/a",
        "laws/../../etc/passwd",
        "laws/a..b.yaml",
        "laws/é.yaml",
        "laws/a b.yaml",
        "-rf/law.yaml",
        "laws/.git/config",
        "a//b.yaml",
        "./a.yaml",
        "a\n.yaml",
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        law_path(path)


@pytest.mark.claim("S0-106")
def test_the_provider_of_the_job_wins_and_an_unknown_one_is_refused() -> None:
    assert provider_of(read_enrich_payload({**MINIMAL, "provider": "claude"}), "opencode") == "claude"
    assert provider_of(read_enrich_payload(MINIMAL), "opencode") == "opencode"
    with pytest.raises(InvalidPayload):
        provider_of(read_enrich_payload({**MINIMAL, "provider": "gemini"}), "opencode")


@pytest.mark.claim("S0-073")
def test_a_result_has_every_field_and_the_usage_of_all_calls() -> None:
    calls = (
        AgentCallRecord("translate", usage=AgentUsage(1, 2, 3, 4, 5), model="m", turns=2),
        AgentCallRecord("schema", resumed=True, usage=AgentUsage(10, 20, 30, 40, 50), model="m"),
        AgentCallRecord("checks", usage=None),
    )
    result = EnrichResult(
        "BWBR0000001",
        "a.yaml",
        4,
        2,
        0.5,
        "claude",
        "enrich/claude",
        law_complete=False,
        enrich_cursor=2,
        untranslatables=(CapturedUntranslatable("2", "x", "y"),),
        agent_calls=calls,
        models=("m",),
        session_reuse="window",
    )

    document = result_document(result)

    assert document["usage"] == {
        "input_tokens": 11,
        "output_tokens": 22,
        "cache_read_tokens": 33,
        "cache_write_tokens": 44,
        "cost_millicents": 55,
    }
    assert document["law_complete"] is False
    assert document["enrich_cursor"] == 2
    assert document["untranslatables"] == [{"article": "2", "construct": "x", "reason": "y", "accepted": False}]
    assert [call["step"] for call in document["agent_calls"]] == ["translate", "schema", "checks"]
    assert document["agent_calls"][2]["usage"] is None
    assert "usage" not in result_document(EnrichResult("a", "b", 0, 0, 0.0, "claude", "enrich/claude"))


def test_an_old_result_covers_the_whole_law() -> None:
    assert is_complete({"law_id": "a"})
    assert is_complete(None)
    assert not is_complete({"law_complete": False})
