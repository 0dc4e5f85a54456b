"""Every recording of the real CLIs, against what reading it by eye says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

from protocols.agentevents import Usage
from protocols.agentview import SessionCosts, millicents
from tests.kit import agentstreams, shared
from tests.unit.dialects import recorded


@frozen
class Row:
    provider: str
    name: str
    exit_code: int
    counts: tuple[int, ...]
    usage: Usage | None
    cost: int | None
    verdict: str
    cause: str | None
    reason_in: str | None
    cut_offs: list[tuple[int, ...]]


def rows() -> Iterator[Row]:
    for provider, table in (("claude", recorded.CLAUDE), ("opencode", recorded.OPENCODE)):
        for line in table.strip().splitlines():
            name, code, *cells = line.split()
            usage, cost, verdict, cause, reason_in, cut_offs = cells[6:]
            yield Row(
                provider,
                name,
                int(code),
                tuple(int(cell) for cell in cells[:6]),
                None if usage == "-" else Usage(*map(int, usage.split("/"))),
                None if cost == "-" else int(cost),
                verdict,
                None if cause == "-" else cause,
                None if reason_in == "-" else reason_in,
                [] if cut_offs == "-" else [tuple(map(int, step.split("/"))) for step in cut_offs.split("+")],
            )


ROWS = list(rows())
each_recording = pytest.mark.parametrize("row", ROWS, ids=[f"{row.provider}-{row.name}" for row in ROWS])


def load(provider: str, name: str, suffix: str = "jsonl") -> bytes:
    return shared.path(f"data/agent-streams/{provider}/{name}.{suffix}").read_bytes()


def stderr_of(row: Row) -> str:
    path = shared.path("data/agent-streams") / row.provider / f"{row.name}.stderr"
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.claim("S0-077", "S0-082", "S0-123", "S0-132", "S0-146")
@each_recording
def test_a_recording_gives_the_summary_that_reading_it_gives(row: Row) -> None:
    found = agentstreams.read(row.provider, load(row.provider, row.name))
    view, verdict = found.view, found.verdict(row.exit_code, stderr_of(row))

    counts = (view.turns, view.tool_calls, view.tool_errors, view.cut_off_steps, view.retries)
    assert (found.stream.lines, *counts) == row.counts
    assert view.usage == row.usage
    assert (None if view.total_cost_usd is None else millicents(view.total_cost_usd)) == row.cost
    assert (verdict.kind, verdict.cause) == (row.verdict, row.cause)
    assert verdict.ok is (row.verdict == "ok")
    assert [(cut.text_chars, cut.reasoning_chars, cut.tool_input_chars) for cut in view.cut_offs] == row.cut_offs
    assert (found.stream.bad_lines, found.stream.counts.unknown) == (0, 0)
    assert found.stream.truncated is ((row.provider, row.name) in recorded.TRUNCATED)


@pytest.mark.claim("S0-088")
@each_recording
def test_the_reason_of_a_failure_is_in_the_words_of_the_cli(row: Row) -> None:
    # AG-05: stderr is empty when an API fails; the only reason is in the stream.
    found = agentstreams.read(row.provider, load(row.provider, row.name)).verdict(row.exit_code, stderr_of(row))
    if row.reason_in is None:
        assert found.reason is None
    else:
        words = stderr_of(row) if row.reason_in == "stderr" else in_stream(row)
        assert found.reason is not None
        assert "".join(found.reason.split())[:60] in "".join(re.sub(r"\x1b\[[0-9;]*m", "", words).split())


def in_stream(row: Row) -> str:
    objects = [json.loads(line) for line in load(row.provider, row.name).split(b"\n") if line]
    if row.reason_in == "message":
        return str([entry["error"]["data"]["message"] for entry in objects if entry["type"] == "error"][-1])
    result: dict[str, Any] = [entry for entry in objects if entry["type"] == "result"][-1]
    assert row.reason_in in {"result", "errors"}
    return str(result["result"]) if row.reason_in == "result" else "; ".join(result["errors"])


@pytest.mark.claim("S0-083", "S0-129")
@pytest.mark.parametrize(("provider", "name"), recorded.LAST_TOOLS)
def test_the_last_tool_calls_are_shown_by_name_and_target(provider: str, name: str) -> None:
    found = agentstreams.read(provider, load(provider, name))
    assert found.view.recent.summaries() == recorded.LAST_TOOLS[provider, name]


@pytest.mark.claim("S0-140", "S0-144")
@each_recording
def test_claude_names_model_and_session_and_opencode_only_the_session(row: Row) -> None:
    content = load(row.provider, row.name)
    view = agentstreams.read(row.provider, content).view
    objects = [json.loads(line) for line in content.split(b"\n")[:-1]]
    ids = {entry.get("session_id" if row.provider == "claude" else "sessionID") for entry in objects}
    assert {view.session_id} == (ids or {None})
    named = any(entry.get("subtype") == "init" for entry in objects)
    assert view.models == (["claude-opus-5-5"] if named else [])


@each_recording
def test_small_reads_give_the_same_events_as_large_ones(row: Row) -> None:
    content = load(row.provider, row.name)
    whole, small = agentstreams.read(row.provider, content), agentstreams.read(row.provider, content, 997)
    assert small.events == whole.events
    assert small.stream.truncated == whole.stream.truncated


def test_nel_is_no_end_of_a_line() -> None:
    for provider, lines in (("claude", 263), ("opencode", 4)):
        content = load(provider, "unicode")
        assert len(content.decode().splitlines()) > lines
        assert agentstreams.read(provider, content).stream.lines == lines


def test_the_cost_of_a_resumed_session_is_not_counted_twice() -> None:
    # D54: 0.0222, 0.02718 and 0.03216 dollars are totals of one session.
    costs = SessionCosts()
    charged = []
    for call in (1, 2, 3):
        view = agentstreams.read("claude", load("claude", f"resume.{call}")).view
        assert view.total_cost_usd is not None
        charged.append(costs.charge(view.session_id, view.total_cost_usd))
    assert charged == [2220, 498, 498]


def test_a_loop_without_end_is_seen_after_ten_equal_steps() -> None:
    found = agentstreams.read("opencode", load("opencode", "no_finish"))
    assert found.looping == "looping: 10 equal steps without a tool call"


def test_all_recordings_are_in_the_table() -> None:
    index = shared.path("data/agent-streams/INDEX.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert {(row.provider, row.name) for row in ROWS} == {tuple(line.split("\t")[:2]) for line in index}
