"""How a call went, for every way in which it can end."""

from __future__ import annotations

import pytest

from protocols.agentevents import ApiError, Cause, Closing, SessionSeen, StepEnded, Turn
from protocols.agentview import CallView
from protocols.dialects import DIALECTS
from protocols.dialects.base import Ending, VerdictKind
from protocols.dialects.lineparser import LONGEST_REASON, cause_of_status, own_words

CLAUDE, OPENCODE = DIALECTS["claude"], DIALECTS["opencode"]
GOOD = Closing(is_error=False, kind="completed")
BAD = Closing(is_error=True, kind="api_error", reason="API Error: 529")
STOP = StepEnded("stop")


def view(*events: object) -> CallView:
    folded = CallView()
    for event in (SessionSeen("s"), Turn(), *events):
        folded.fold(event)  # type: ignore[arg-type]
    return folded


@pytest.mark.parametrize(
    ("closing", "code", "kind", "reason"),
    [
        # AG-04: result, exit code and the text of the answer disagree.
        (GOOD, 0, "ok", None),
        (GOOD, 1, "unfinished", None),
        (BAD, 0, "api_error", "API Error: 529"),
        (BAD, 1, "api_error", "API Error: 529"),
        (None, 0, "no_result", None),
        (None, 1, "no_result", None),
        (GOOD, -9, "signal", None),
        (BAD, -9, "signal", "API Error: 529"),
        (None, -9, "signal", None),
        (None, 143, "signal", None),
        (None, 129, "signal", None),
    ],
)
def test_claude_did_well_only_with_a_good_result_and_exit_code_0(
    closing: Closing | None, code: int, kind: str, reason: str | None
) -> None:
    verdict = CLAUDE.verdict(view(*([closing] if closing else [])), Ending(code))
    assert (verdict.kind, verdict.reason, verdict.ok) == (kind, reason, kind == "ok")


def test_a_cli_that_hangs_after_a_good_result_did_well() -> None:
    # AG-02: we end it after 30 s of silence.
    assert CLAUDE.verdict(view(GOOD), Ending(-15, after_result=True)).ok
    assert CLAUDE.verdict(view(GOOD), Ending(143, after_result=True)).ok
    assert not CLAUDE.verdict(view(BAD), Ending(-15, after_result=True)).ok


@pytest.mark.parametrize(
    ("step", "code", "kind"),
    [
        (STOP, 0, "ok"),
        (StepEnded("length", cut_off=True), 0, "cut_off"),
        (StepEnded("tool-calls"), 0, "unfinished"),
        (StepEnded("unknown"), 0, "unfinished"),
        (None, 0, "no_result"),
        (STOP, 1, "unfinished"),
        (STOP, -15, "signal"),
    ],
)
def test_opencode_did_well_only_when_its_last_step_stopped(step: StepEnded | None, code: int, kind: str) -> None:
    assert OPENCODE.verdict(view(*([step] if step else [])), Ending(code)).kind == kind


def test_an_error_event_is_a_failure_whatever_the_exit_code_says() -> None:
    # OC-03
    error = ApiError("APIError", "Session not found", Cause.BAD_REQUEST)
    verdict = OPENCODE.verdict(view(error, STOP), Ending(0))
    assert (verdict.kind, verdict.reason, verdict.cause) == ("api_error", "Session not found", "bad_request")


@pytest.mark.parametrize(("dialect", "events"), [(CLAUDE, [GOOD]), (OPENCODE, [STOP])])
def test_a_stream_that_ends_within_a_line_is_a_failure(dialect: object, events: list[object]) -> None:
    assert dialect.verdict(view(*events), Ending(0, truncated=True)).kind is VerdictKind.TRUNCATED  # type: ignore[attr-defined]


@pytest.mark.parametrize("provider", list(DIALECTS))
def test_a_command_line_that_is_not_taken_is_explained_by_stderr_alone(provider: str) -> None:
    ending = Ending(1, stderr="\x1b[91m\x1b[1mError: \x1b[0mno such option\nusage: ...\n")
    verdict = DIALECTS[provider].verdict(CallView(), ending)
    assert (verdict.kind, verdict.reason) == ("usage_error", "Error: no such option")


@pytest.mark.parametrize("provider", list(DIALECTS))
def test_stderr_is_no_reason_for_anything_else(provider: str) -> None:
    assert DIALECTS[provider].verdict(view(), Ending(-9, stderr="a warning")).reason is None


@pytest.mark.parametrize("provider", list(DIALECTS))
def test_what_we_stopped_as_looping_is_called_that(provider: str) -> None:
    assert DIALECTS[provider].verdict(view(STOP), Ending(-15, looping="10 equal steps")).kind is VerdictKind.LOOPING


def test_a_reason_is_one_clean_short_line_without_secrets() -> None:
    token = "sk-ant-oat01-" + "0" * 20
    words = own_words(f"\x1b[31mAPI Error:\x1b[0m bad\nkey {token} at http://user:pw@host/\x00" + "x" * 900)
    assert words is not None
    assert words.startswith("API Error: bad key *** at http://***@host/")
    assert len(words) == LONGEST_REASON
    assert own_words("") is own_words(None) is own_words(" \n") is None


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (None, "network"),
        (400, "bad_request"),
        (401, "auth"),
        (402, "billing"),
        (403, "auth"),
        (413, "context"),
        (429, "rate_limit"),
        (500, "server_error"),
        (503, "overloaded"),
        (529, "overloaded"),
        (200, "unknown"),
    ],
)
def test_the_cause_of_a_failure_is_read_from_the_status(status: int | None, cause: str) -> None:
    # AG-05
    assert cause_of_status(status) == cause
