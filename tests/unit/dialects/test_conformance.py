"""One suite over all dialects: the same scenarios, told in each CLI's own lines, mean the same."""

from __future__ import annotations

import pytest

from protocols.agentevents import (
    ApiError,
    Cause,
    ModelSeen,
    Retry,
    SessionSeen,
    StepEnded,
    StepStarted,
    ToolCall,
    Usage,
    Voided,
)
from protocols.agentview import millicents
from protocols.dialects import DIALECTS
from protocols.dialects.base import VerdictKind
from protocols.stall import named_wait_s
from tests.kit import agentstreams

PROVIDERS = list(DIALECTS)
each_dialect = pytest.mark.parametrize("provider", PROVIDERS)

# name: exit code, verdict, cause, turns, tool calls, tool errors, cut-off steps, retries
COMMON = {
    "plain": (0, "ok", None, 1, 0, 0, 0, 0),
    "work": (0, "ok", None, 4, 4, 2, 0, 0),
    "cut_in_tool": (0, "ok", None, 2, 1, 1, 1, 0),
    "half_line": (0, "truncated", None, None, 0, 0, 0, 0),
    "strange": (0, "ok", None, 1, 0, 0, 0, 0),
    "no_end": (0, None, None, None, 1, 0, 0, 0),
    "refused_key": (1, "api_error", "auth", 0, 0, 0, 0, None),
    "used_up": (1, "api_error", "quota", None, None, 0, 0, None),
    "retried": (0, "ok", None, 1, 0, 0, 0, None),
    "cut_off": (None, "cut_off", None, None, None, 0, None, 0),
}
CLAUDE = {
    "broken_stream": (0, "ok", None, 2, 0, 0, 0, 0),
    "begun_again": (0, "ok", None, 2, 0, 0, 0, 1),
    "unstreamed": (0, "ok", None, 3, 0, 0, 1, 1),
    "subagent": (0, "ok", None, 3, 2, 0, 0, 0),
    "session_first": (0, "ok", None, 1, 0, 0, 0, 0),
    "session_second": (0, "ok", None, 1, 0, 0, 0, 0),
    "no_session": (1, "usage_error", None, 0, 0, 0, 0, 0),
    "interrupted": (0, "signal", None, 1, 0, 0, 0, 0),
    "turn_limit": (1, "unfinished", None, 1, 1, 0, 0, 0),
}
OPENCODE = {
    "broken_stream": (0, "ok", None, 1, 1, 1, 0, 1),
    "loop": (-9, "looping", None, 12, 0, 0, 0, 0),
    "overflow": (-9, "looping", "context", 3, 0, 0, 0, 0),
    "no_figures": (0, "ok", None, 1, 0, 0, 0, 0),
    "stopped_early": (0, "unfinished", None, 1, 1, 1, 0, 0),
    "refused": (1, "api_error", "refused", 1, 0, 0, 0, 0),
}
CASES = [
    *((provider, name) for provider in PROVIDERS for name in COMMON),
    *(("claude", name) for name in CLAUDE),
    *(("opencode", name) for name in OPENCODE),
]


@pytest.mark.claim("S0-130", "S0-132", "C-024")
@pytest.mark.parametrize(("provider", "name"), CASES)
def test_a_scenario_means_the_same_in_every_dialect(provider: str, name: str) -> None:
    own = CLAUDE if provider == "claude" else OPENCODE
    code, kind, cause, *counts = (COMMON | own)[name]
    found = agentstreams.read(provider, agentstreams.fixture(provider, name))
    view, verdict = found.view, found.verdict(code or 0)
    if kind is not None:
        assert verdict.kind == kind
        assert verdict.ok is (kind == "ok")
    assert cause is None or verdict.cause == cause
    seen = [view.turns, view.tool_calls, view.tool_errors, view.cut_off_steps, view.retries]
    assert [got if want is not None else None for got, want in zip(seen, counts, strict=True)] == counts


@each_dialect
def test_every_fixture_is_in_a_table(provider: str) -> None:
    own = CLAUDE if provider == "claude" else OPENCODE
    assert agentstreams.fixture_names(provider) == sorted({*COMMON, *own})


@each_dialect
def test_the_facts_of_a_dialect_agree_with_its_streams(provider: str) -> None:
    dialect = DIALECTS[provider]
    found = agentstreams.read(provider, agentstreams.fixture(provider, "work"))
    assert dialect.name == provider
    assert any(isinstance(event, ModelSeen) for event in found.events) is dialect.names_model
    assert (found.view.closing is not None) is dialect.closing_total
    assert [type(event) for event in found.events].count(SessionSeen) == 1


@pytest.mark.claim("S0-107")
def test_the_table_of_dialects_says_what_differs() -> None:
    opencode, claude = DIALECTS["opencode"], DIALECTS["claude"]
    assert list(DIALECTS) == ["opencode", "claude"]
    assert (opencode.display_name, claude.display_name) == ("VLAM", "Claude")
    assert (opencode.continues_sessions, claude.continues_sessions) == (False, True)
    assert (opencode.quiet_means_stalled, claude.quiet_means_stalled) == (False, True)


# --- What may be seen ------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-085")
@pytest.mark.parametrize(("provider", "name"), CASES)
def test_no_law_text_and_nothing_written_is_in_an_event_or_a_summary(provider: str, name: str) -> None:
    content = agentstreams.fixture(provider, name)
    found = agentstreams.read(provider, content)
    assert agentstreams.CANARY not in repr(found.events)
    assert agentstreams.CANARY not in " ".join(found.view.recent.summaries())
    assert agentstreams.CANARY not in repr(found.verdict(1))
    if name == "work":
        assert content.count(agentstreams.CANARY.encode()) > 8


@pytest.mark.claim("S0-083", "S0-085")
def test_summaries_name_tool_and_target() -> None:
    law = "laws/wet_op_de_voorbeelden/2024-01-01.yaml"
    claude = agentstreams.read("claude", agentstreams.fixture("claude", "work"))
    assert claude.view.recent.summaries() == [
        f"Read {law}",
        f"Edit {law}",
        "Grep laws (error)",
        "Bash printf (error)",
    ]
    opencode = agentstreams.read("opencode", agentstreams.fixture("opencode", "work"), cwd="/home/agent/corpus")
    assert opencode.view.recent.summaries() == [
        f"read {law}",
        f"edit {law}",
        "grep laws (error)",
        "bash printf (error)",
    ]


# --- Figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-146")
def test_usage_is_the_last_result_or_the_sum_of_the_steps_with_reasoning_as_output() -> None:
    claude = agentstreams.read("claude", agentstreams.fixture("claude", "work")).view
    assert claude.usage == Usage(40, 700, 9000, 800)
    assert claude.total_cost_usd is not None
    assert millicents(claude.total_cost_usd) == 12345
    opencode = agentstreams.read("opencode", agentstreams.fixture("opencode", "work")).view
    assert opencode.usage == Usage(1180, 40 + 60 + 300 + 30 + 20, 3050, 10)
    assert opencode.total_cost_usd is not None
    assert millicents(opencode.total_cost_usd) == 300


@each_dialect
def test_a_stream_without_figures_has_no_usage_rather_than_zeros(provider: str) -> None:
    view = agentstreams.read(provider, agentstreams.fixture(provider, "half_line")).view
    assert view.usage is None
    assert view.total_cost_usd is None
    assert not view.usage_complete(truncated=True)


def test_a_missing_last_step_leaves_a_lower_bound() -> None:
    # OC-02: the process exits before its stream is drained.
    found = agentstreams.read("opencode", agentstreams.fixture("opencode", "no_end"))
    assert found.view.usage == Usage(100, 9)
    assert not found.view.usage_complete(truncated=False)
    assert found.verdict().kind is VerdictKind.UNFINISHED


def test_steps_whose_server_gives_no_figures_are_not_complete() -> None:
    view = agentstreams.read("opencode", agentstreams.fixture("opencode", "no_figures")).view
    assert not view.usage_complete(truncated=False)
    assert agentstreams.read("opencode", agentstreams.fixture("opencode", "plain")).view.usage_complete(truncated=False)


def test_of_several_results_the_last_counts_and_the_usage_is_a_lower_bound() -> None:
    view = agentstreams.read("claude", agentstreams.fixture("claude", "subagent")).view
    assert (view.closings, view.usage, view.total_cost_usd) == (2, Usage(100, 5), 0.01)
    assert not view.usage_complete(truncated=False)


# --- Steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-126", "S0-129")
@pytest.mark.parametrize(
    ("provider", "name", "chars"),
    [
        ("claude", "cut_in_tool", (14, 0, 148)),
        ("claude", "cut_off", (26, 0, 0)),
        ("claude", "unstreamed", (15, 0, 0)),
        ("opencode", "cut_in_tool", (14, 0, 212)),
        ("opencode", "cut_off", (0, 15, 0)),
    ],
)
def test_a_cut_off_step_tells_what_it_was_writing(provider: str, name: str, chars: tuple[int, int, int]) -> None:
    cut = agentstreams.read(provider, agentstreams.fixture(provider, name)).view.cut_offs[0]
    assert (cut.text_chars, cut.reasoning_chars, cut.tool_input_chars) == chars


@pytest.mark.claim("S0-126")
def test_every_opencode_step_is_an_event_with_reason_tokens_and_characters() -> None:
    # OC-08
    found = agentstreams.read("opencode", agentstreams.fixture("opencode", "work"))
    steps = [event for event in found.events if isinstance(event, StepEnded)]
    assert [step.reason for step in steps] == ["tool-calls", "tool-calls", "tool-calls", "stop"]
    assert (steps[0].text_chars, steps[0].reasoning_chars, steps[0].tool_calls) == (9, 12, 1)
    assert steps[0].usage == Usage(1000, 100)
    assert steps[3].tool_input_chars == 0


def test_a_tool_event_after_its_step_is_added_to_what_that_step_had_written() -> None:
    lines = agentstreams.fixture("opencode", "cut_off").split(b"\n")
    late = next(line for line in lines if b'"tool_use"' in line)
    view = agentstreams.read("opencode", b"\n".join([*lines[:-1], late, b""])).view
    assert view.cut_offs[0].tool_input_chars > 50


def test_what_a_step_wrote_before_it_was_asked_for_again_is_void() -> None:
    found = agentstreams.read("opencode", agentstreams.fixture("opencode", "retried"))
    [step] = [event for event in found.events if isinstance(event, StepEnded)]
    assert step.text_chars == len("Tweede poging.")
    assert [event.again for event in found.events if isinstance(event, StepStarted)] == [False, True]


def test_the_partial_events_of_a_broken_stream_count_for_nothing() -> None:
    found = agentstreams.read("claude", agentstreams.fixture("claude", "broken_stream"))
    assert found.view.tool_calls == 0
    [step] = [event for event in found.events if isinstance(event, StepEnded)]
    assert step.text_chars == len("Hersteld.")
    assert any(isinstance(event, Voided) for event in found.events)


def test_an_answer_that_broke_off_costs_what_its_beginning_told_and_wrote_nothing() -> None:
    # the CLI counts it, in tokens as in dollars: figures of our own would contradict its cost
    found = agentstreams.read("claude", agentstreams.fixture("claude", "begun_again"))
    begun, whole = Usage(100, 1, 5000), Usage(100, 9, 5000)
    assert found.view.usage == begun + whole
    assert found.view.total_cost_usd == 0.00625
    assert found.view.usage_complete(truncated=False)
    [step] = [event for event in found.events if isinstance(event, StepEnded)]
    assert step.text_chars == len("KANARIE: heel.")
    assert found.events.count(Voided()) == 1


def test_synthetic_messages_are_no_turns_and_no_model() -> None:
    view = agentstreams.read("claude", agentstreams.fixture("claude", "refused_key")).view
    assert (view.turns, view.models) == (0, ["claude-opus-5-5"])


def test_without_partial_events_turns_come_from_the_messages() -> None:
    lines = agentstreams.fixture("claude", "work").split(b"\n")
    spare = b"\n".join(line for line in lines if b'"stream_event"' not in line)
    view = agentstreams.read("claude", spare).view
    assert (view.turns, view.tool_calls, view.tool_errors) == (4, 4, 2)


# --- Strange lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("provider", "bad", "malformed", "unknown"), [("claude", 5, 2, 3), ("opencode", 5, 1, 2)])
def test_lines_that_cannot_be_read_are_told_apart_and_counted(
    provider: str, bad: int, malformed: int, unknown: int
) -> None:
    found = agentstreams.read(provider, agentstreams.fixture(provider, "strange"))
    counts = found.stream.counts
    assert (counts.bad, counts.malformed, counts.unknown) == (bad, malformed, unknown)
    assert found.stream.bad_lines == bad + malformed


@pytest.mark.parametrize("provider", PROVIDERS)
def test_colours_odd_line_ends_and_half_surrogate_pairs_do_not_lose_a_line(provider: str) -> None:
    found = agentstreams.read(provider, agentstreams.fixture(provider, "strange"))
    [step] = [event for event in found.events if isinstance(event, StepEnded)]
    assert step.text_chars == len("regel\u0085twee\u2028drie") + len("half \ufffd paar, heel \U0001f600 paar")


# --- Trouble ---------------------------------------------------------------------------------------------------------


def test_a_used_up_allowance_is_told_apart_from_a_busy_server() -> None:
    # OC-06, D52
    claude = agentstreams.read("claude", agentstreams.fixture("claude", "used_up"))
    assert claude.view.limit is not None
    assert claude.view.limit.resets_at == 1740830400
    assert [named_wait_s(event) for event in claude.events if isinstance(event, Retry)] == [400.0]
    opencode = agentstreams.read("opencode", agentstreams.fixture("opencode", "used_up"))
    assert [named_wait_s(event) for event in opencode.events if isinstance(event, ApiError)] == [7200.0]
    assert opencode.verdict(1).cause is Cause.QUOTA


def test_a_tool_of_claude_is_shown_as_failed_by_its_result() -> None:
    found = agentstreams.read("claude", agentstreams.fixture("claude", "work"))
    assert not any(event.failed for event in found.events if isinstance(event, ToolCall))
    assert found.view.recent.last == "Bash printf (error)"


def test_denied_tools_are_in_the_closing() -> None:
    # AG-06
    found = agentstreams.read("claude", agentstreams.fixture("claude", "work"))
    assert found.view.closing is not None
    assert found.view.closing.denied_tools == ("Bash",)
