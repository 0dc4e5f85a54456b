"""What is known of the agents of a job."""

from __future__ import annotations

import pytest

from protocols.agentevents import Closing, ModelSeen, SessionSeen, ToolCall, ToolResult, Turn, Usage
from protocols.agentview import AgentView, SessionCosts, millicents


def tool(number: int, name: str = "Read") -> ToolCall:
    return ToolCall(f"t{number}", name, f"laws/{number}.yaml")


def test_the_last_five_tool_calls_are_kept_oldest_first() -> None:
    view = AgentView("claude")
    call = view.begin("translate", 0.0)
    for number in range(7):
        call.fold(tool(number))
    call.fold(ToolResult("t6", failed=True))
    call.fold(ToolResult("t0", failed=True))
    assert view.recent.summaries() == [
        "Read laws/2.yaml",
        "Read laws/3.yaml",
        "Read laws/4.yaml",
        "Read laws/5.yaml",
        "Read laws/6.yaml (error)",
    ]
    assert (view.tool_calls, call.tool_errors) == (7, 2)


def test_counts_and_tool_calls_add_up_over_calls_and_slices() -> None:
    view = AgentView("claude")
    first, second = view.begin("translate", 0.0), view.begin("translate", 1.0)
    first.fold(Turn())
    second.fold(Turn())
    first.fold(tool(1))
    second.fold(tool(2, "Edit"))
    view.end(first, 5.0)
    repair = view.begin("schema", 6.0)
    repair.fold(Turn())
    assert (view.turns, view.tool_calls, [call.label for call in view.live]) == (3, 2, ["translate", "schema"])
    assert view.recent.summaries() == ["Read laws/1.yaml", "Edit laws/2.yaml"]


@pytest.mark.claim("S0-080", "S0-081")
def test_progress_tells_call_age_silence_and_work() -> None:
    view = AgentView("claude")
    assert view.progress(9.0)["call"] is None
    call = view.begin("translate", 100.0, asked_model="claude-opus-5-5")
    assert view.progress(107.9) == {
        "call": "translate",
        "call_secs": 7,
        "quiet_secs": 7,
        "turns": 0,
        "tool_calls": 0,
        "recent_tools": [],
        "cut_off_steps": 0,
        "provider": "claude",
        "model": "claude-opus-5-5",
        "active_windows": 1,
    }
    call.times.bytes_at(110.0)
    for event in (ModelSeen("claude-opus-5-5-20260101"), Turn(), tool(1)):
        call.fold(event)
    progress = view.progress(113.0)
    assert (progress["call_secs"], progress["quiet_secs"], progress["turns"]) == (13, 3, 1)
    assert (progress["model"], progress["recent_tools"]) == ("claude-opus-5-5-20260101", ["Read laws/1.yaml"])


def test_progress_of_an_ended_job_stays_as_it_was() -> None:
    view = AgentView("opencode")
    call = view.begin("translate", 0.0, asked_model="vlam/kimi")
    call.times.bytes_at(20.0)
    view.end(call, 30.0)
    assert view.progress(1000.0) == view.progress(31.0)
    assert (view.progress(1000.0)["call_secs"], view.progress(1000.0)["quiet_secs"]) == (30, 10)
    assert view.progress(1000.0)["active_windows"] == 0


def test_silence_is_that_of_the_slice_that_spoke_last() -> None:
    view = AgentView("claude")
    one, two = view.begin("translate", 0.0), view.begin("translate", 0.0)
    one.times.bytes_at(50.0)
    two.times.bytes_at(90.0)
    assert view.quiet_s(100.0) == 10.0
    view.end(two, 95.0)
    assert view.quiet_s(100.0) == 50.0


def test_an_error_can_end_with_what_the_agent_did_last() -> None:
    view = AgentView("claude")
    assert view.last_done(0.0) == "last: no tool call, 0 turns, 0 tool calls, silent for 0s"
    call = view.begin("translate", 0.0)
    call.fold(Turn())
    call.fold(tool(1, "Edit"))
    call.times.bytes_at(10.0)
    assert view.last_done(610.0) == "last: Edit laws/1.yaml, 1 turns, 1 tool calls, silent for 600s"


def test_models_are_those_the_streams_name_else_those_asked_for_in_the_order_of_use() -> None:
    view = AgentView("claude")
    view.begin("translate", 0.0, asked_model="a")
    second = view.begin("schema", 0.0, asked_model="a")
    second.fold(ModelSeen("b"))
    second.fold(ModelSeen("c"))
    third = view.begin("checks", 0.0, asked_model="a")
    third.fold(ModelSeen("b"))
    assert view.models == ["a", "b", "c"]
    assert third.model == "b"


def closed(total: float | None) -> Closing:
    return Closing(is_error=False, usage=Usage(1, 2), total_cost_usd=total)


def test_each_call_of_a_session_costs_what_it_added_to_the_highest_total() -> None:
    # D54: totals of a resumed session include its earlier calls; a call that failed early can report less.
    view = AgentView("claude")
    charged = []
    for total in (0.0222, 0.02718, 0.0, 0.03216, None):
        call = view.begin("translate", 0.0)
        call.fold(SessionSeen("one"))
        call.fold(closed(total))
        charged.append(view.end(call, 1.0))
    assert charged == [2220, 498, 0, 498, None]


def test_sessions_do_not_share_their_totals() -> None:
    costs = SessionCosts()
    assert [costs.charge("a", 0.02), costs.charge("b", 0.02), costs.charge(None, 0.02)] == [2000, 2000, 2000]


def test_a_call_that_reported_nothing_has_no_cost() -> None:
    view = AgentView("claude")
    assert view.end(view.begin("translate", 0.0), 1.0) is None


def test_a_dollar_is_100_000_millicents() -> None:
    assert (millicents(1.0), millicents(0.064048), millicents(-1.0)) == (100_000, 6405, 0)
