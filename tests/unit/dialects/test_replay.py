"""``replay``: what the product makes of a recorded stream."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from supervisor import exitcodes
from supervisor.commands.replay import command
from tests.kit import agentstreams, cli

FIELDS = [
    *("provider", "model", "session_id", "turns", "tool_calls", "tool_errors", "cut_off_steps", "retries", "usage"),
    *("cost_millicents", "ok", "reason", "lines", "bad_lines", "truncated"),
]


def replay(provider: str, name: str, *options: str) -> Result:
    path = agentstreams.FIXTURES / provider / f"{name}.jsonl"
    return CliRunner().invoke(command, [str(path), "--provider", provider, *options], catch_exceptions=False)


def test_a_good_claude_call_as_json() -> None:
    found = json.loads(replay("claude", "work", "--json").output)
    assert list(found) == FIELDS
    assert found == {
        "provider": "claude",
        "model": "claude-opus-5-5",
        "session_id": "00000000-0000-4000-8000-000000000001",
        "turns": 4,
        "tool_calls": 4,
        "tool_errors": 2,
        "cut_off_steps": 0,
        "retries": 0,
        "usage": {"input_tokens": 40, "output_tokens": 700, "cache_read_tokens": 9000, "cache_write_tokens": 800},
        "cost_millicents": 12345,
        "ok": True,
        "reason": None,
        "lines": 70,
        "bad_lines": 0,
        "truncated": False,
    }


def test_opencode_names_no_model() -> None:
    found = json.loads(replay("opencode", "work", "--json").output)
    assert list(found) == FIELDS
    assert (found["model"], found["cost_millicents"], found["usage"]["output_tokens"]) == (None, 300, 450)


@pytest.mark.parametrize(
    ("provider", "name", "code", "expected"),
    [
        ("claude", "plain", 0, {"ok": True, "reason": None}),
        ("claude", "plain", 1, {"ok": False, "reason": None}),
        ("claude", "plain", -9, {"ok": False}),
        ("claude", "refused_key", 1, {"ok": False, "reason": "Invalid key", "retries": 2}),
        ("claude", "turn_limit", 1, {"ok": False, "reason": "Reached maximum number of turns (1)"}),
        (
            "claude",
            "half_line",
            0,
            {"ok": False, "truncated": True, "usage": None, "cost_millicents": None, "lines": 10},
        ),
        ("claude", "no_end", 143, {"ok": False, "usage": None, "reason": None}),
        ("claude", "strange", 0, {"ok": True, "bad_lines": 7, "lines": 20}),
        ("opencode", "plain", 0, {"ok": True, "cost_millicents": 0}),
        ("opencode", "cut_off", 0, {"ok": False, "cut_off_steps": 1, "reason": None}),
        ("opencode", "refused_key", 1, {"ok": False, "reason": "Incorrect key", "usage": None, "turns": 0}),
        ("opencode", "stopped_early", 0, {"ok": False, "tool_errors": 1}),
        ("opencode", "half_line", 0, {"ok": False, "truncated": True, "lines": 2}),
        ("opencode", "loop", -9, {"ok": False, "turns": 12, "reason": None}),
    ],
)
def test_ok_and_reason_of_other_calls(provider: str, name: str, code: int, expected: dict[str, object]) -> None:
    done = replay(provider, name, "--exit-code", str(code), "--json")
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert {key: found[key] for key in expected} == expected


def test_the_timeline_tells_what_happened_line_by_line() -> None:
    shown = replay("claude", "work", "--exit-code", "0").output
    assert "model claude-opus-5-5" in shown
    assert "tool Edit laws/wet_op_de_voorbeelden/2024-01-01.yaml" in shown
    assert "step ends: tool_use" in shown
    assert "denied tools: Bash" in shown
    assert "verdict   ok" in shown
    retries = replay("claude", "retried").output
    assert "retry: overloaded (529), attempt 2 of 10, waits 1 s" in retries


def test_the_timeline_of_opencode_has_the_time_of_each_line() -> None:
    shown = replay("opencode", "cut_off").output
    assert "10:00:00.250  session ses_0001" in shown
    assert "step ends: length (cut off by the output limit), 0 text, 15 reasoning" in shown
    assert "looping: 10 equal steps" in replay("opencode", "loop", "--exit-code", "-9").output


@pytest.mark.claim("S0-085")
@pytest.mark.parametrize("provider", ["claude", "opencode"])
def test_no_law_text_is_shown(provider: str) -> None:
    for name in agentstreams.fixture_names(provider):
        for options in ((), ("--json",)):
            assert agentstreams.CANARY not in replay(provider, name, *options).output, name


def test_a_stream_can_come_from_standard_input() -> None:
    content = agentstreams.fixture("claude", "plain")
    done = CliRunner().invoke(command, ["-", "--provider", "claude", "--json"], input=content)
    assert json.loads(done.output)["ok"] is True


def test_an_empty_stream_is_told_as_unknown(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    done = CliRunner().invoke(command, [str(path), "--provider", "opencode", "--exit-code", "1", "--json"])
    found = json.loads(done.output)
    assert (found["model"], found["session_id"], found["usage"], found["cost_millicents"]) == (None, None, None, None)
    assert (found["lines"], found["turns"], found["ok"]) == (0, 0, False)


@pytest.mark.parametrize(
    "arguments", [[], ["FILE"], ["FILE", "--provider", "other"], ["absent.jsonl", "--provider", "claude"]]
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str]) -> None:
    path = str(agentstreams.FIXTURES / "claude" / "plain.jsonl")
    done = CliRunner().invoke(command, [path if word == "FILE" else word for word in arguments])
    assert done.exit_code == 2


def test_it_is_a_command_of_the_product() -> None:
    path = agentstreams.FIXTURES / "claude" / "plain.jsonl"
    done = cli.run("replay", path, "--provider", "claude", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["turns"] == 1


def test_reading_partial_events_is_at_least_three_times_as_fast_as_json_alone() -> None:
    lines = agentstreams.fixture("claude", "work").split(b"\n")
    partial = [line for line in lines if b"content_block_delta" in line]
    content = (b"\n".join(partial) + b"\n") * 200 + agentstreams.fixture("claude", "work") * 20

    def bare() -> None:
        for line in content.split(b"\n"):
            if line:
                json.loads(line)

    def best_of(rounds: int) -> tuple[float, float]:
        ours, theirs = [], []
        for _ in range(rounds):
            start = time.process_time()
            agentstreams.read("claude", content)
            middle = time.process_time()
            bare()
            ours.append(middle - start)
            theirs.append(time.process_time() - middle)
        return min(ours), min(theirs)

    ours, theirs = best_of(7)
    assert theirs > 3 * ours


@pytest.mark.parametrize(("name", "provider"), [("claude", "opencode"), ("opencode", "claude")])
def test_what_is_no_stream_of_the_provider_is_told_and_fails(name: str, provider: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("# notes\n\nof a run\n")
    for file in (agentstreams.FIXTURES / name / "work.jsonl", notes):
        done = cli.run("replay", file, "--provider", provider)
        assert done.code == exitcodes.ESCALATED
        assert f"nothing in {file} is what {provider} prints" in done.err
        assert done.out.startswith("verdict ")
        assert cli.run("replay", file, "--provider", provider, "--json").code == exitcodes.ESCALATED


def test_a_stream_that_has_not_begun_is_none_of_anybody_else(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    done = cli.run("replay", tmp_path / "empty", "--provider", "claude")
    assert (done.code, done.err) == (exitcodes.CLEAN, "")
