"""What an agent reports besides the law, and the guard against runs that show nothing (``enrich.md`` 5.5)."""

from __future__ import annotations

import pytest

from protocols.envelope import Gain, merge_envelopes, no_op, read_envelope, without_report
from protocols.failures import ContentFailure, JobEnd, LawEnd, NoOutput, verdict_of
from protocols.lawyaml import load_law

FULL = b"""\
law_id: BWBR0000001
# van de vorige ronde
related_legislation:
  - name: Regeling lantaarns   # genoemd in artikel 2
    relation: delegated_regeling
    bwb_id: BWBR0000002
  - relation: no name
chunk_report:
  articles_reviewed: ['1', 2, 2.5]
  articles_skipped:
    - number: 3
      reason: begripsbepaling
    - reason: no number
extra: {a: 1}
"""


def test_a_full_envelope_is_read_and_numbers_are_compared_as_texts() -> None:
    envelope = read_envelope(FULL)

    assert [entry.name for entry in envelope.related] == ["Regeling lantaarns"]
    assert envelope.reported == {"1", "2", "2.5", "3"}
    assert envelope.skipped[0].reason == "begripsbepaling"


@pytest.mark.parametrize("content", [None, b"", b"a: [", b"- 1", b"chunk_report: 1\nrelated_legislation: {a: 1}\n"])
def test_an_absent_or_malformed_envelope_is_an_empty_one(content: bytes | None) -> None:
    envelope = read_envelope(content)

    assert not envelope.related
    assert not envelope.reported


def test_a_stale_report_is_taken_out_and_everything_else_stays_as_written() -> None:
    stripped = without_report(FULL)

    assert stripped is not None
    assert b"chunk_report" not in stripped
    assert stripped == FULL[: FULL.index(b"chunk_report")] + b"extra: {a: 1}\n"


def test_a_report_in_flow_style_or_alone_is_taken_out_too() -> None:
    assert load_law(without_report(b"{chunk_report: {a: 1}, law_id: x}") or b"") == {"law_id": "x"}
    assert not (without_report(b"chunk_report: {}\n") or b"").strip()


@pytest.mark.parametrize("content", [None, b"a: [", b"- 1", b"law_id: x\n"])
def test_what_has_no_report_is_left_alone(content: bytes | None) -> None:
    assert without_report(content) == content


def test_envelopes_of_slices_are_united() -> None:
    one = b"chunk_report: {articles_reviewed: ['1']}\nrelated_legislation: [{name: A}, {name: B}]\n"
    two = b"chunk_report: {articles_reviewed: ['2'], articles_skipped: [{number: '3'}]}\nrelated_legislation: [{name: B}]\n"
    base = b"law_id: x\nrelated_legislation: [{name: Z}]\n"

    merged = read_envelope(merge_envelopes(base, [one, None, two]))

    assert merged.raw["law_id"] == "x"
    assert [entry.name for entry in merged.related] == ["Z", "A", "B"]
    assert merged.reported == {"1", "2", "3"}
    assert merge_envelopes(base, [None, b"a: ["]) == base
    assert merge_envelopes(None, [None]) is None


def gain(**changes: object) -> Gain:
    values: dict[str, object] = {
        "windowed": True,
        "missing_before": 4,
        "gained_in_law": 0,
        "gained_in_window": 0,
        "gaps_before": 1,
        "gaps_after": 1,
        "window_numbers": ("1", "2"),
    }
    return Gain(**{**values, **changes})  # type: ignore[arg-type]


def report(text: str) -> bytes:
    return f"chunk_report: {text}\n".encode()


@pytest.mark.parametrize(
    ("changes", "envelope"),
    [
        ({"gained_in_window": 1}, None),
        ({"gaps_after": 2}, None),
        ({}, report("{articles_reviewed: ['2']}")),
        ({}, report("{articles_skipped: [{number: 1}]}")),
        ({"window_numbers": ()}, None),
        ({"windowed": False, "missing_before": 0}, None),
        ({"windowed": False, "gained_in_law": 1}, None),
    ],
)
def test_a_model_a_gap_or_a_report_about_the_window_is_enough(
    changes: dict[str, object], envelope: bytes | None
) -> None:
    assert no_op(gain(**changes), read_envelope(envelope)) is None


@pytest.mark.parametrize(
    ("changes", "envelope"),
    [
        ({}, None),
        ({"gained_in_law": 3}, None),
        ({"gaps_after": 0}, None),
        ({}, report("{}")),
        ({}, report("{articles_reviewed: ['7']}")),
    ],
)
@pytest.mark.claim("S0-125")
def test_a_window_without_anything_to_show_is_tried_again(changes: dict[str, object], envelope: bytes | None) -> None:
    # AG-06
    failure = no_op(gain(**changes), read_envelope(envelope), cut_off_steps=3, denied_tools=["Bash"])

    assert isinstance(failure, NoOutput)
    assert failure.message.startswith("enrichment chunk produced no reviewable output")
    assert "3 steps were cut off" in failure.message
    assert "no machine_readable sections" not in failure.message
    assert verdict_of(failure).job is JobEnd.RETRY


def test_a_whole_law_without_one_model_is_given_up() -> None:
    failure = no_op(gain(windowed=False), read_envelope(report("{articles_reviewed: ['1']}")))

    assert isinstance(failure, ContentFailure)
    assert "no machine_readable sections" in failure.message
    assert verdict_of(failure).law is LawEnd.EXHAUST
