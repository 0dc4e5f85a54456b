"""Calls of agents on a mock clock: how they end, and what becomes of a job (D51, D52)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from actors.ports.agentprocess import Stopped
from protocols.dialects.base import VerdictKind
from protocols.failures import AgentFailed, AgentTimedOut, JobEnd, ProviderTrouble, verdict_of
from tests.kit.agentlines import (
    Played,
    api_error,
    init,
    opencode_error,
    result,
    step,
    tool,
)
from tests.kit.playedjob import Job

Clock = MockClock


# --- The ordinary way ------------------------------------------------------------------------------------------------


async def test_a_call_that_ends_well_is_no_failure_and_its_figures_are_known(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    job = Job(tmp_path, a=Played([init(), 5.0, tool(), 5.0, result(cost=0.25)]))
    end = await job.run()
    (outcome,) = end.outcomes
    assert end.failure is None
    assert outcome.verdict.ok
    assert outcome.usage_complete
    assert outcome.view.usage is not None
    assert outcome.view.usage.output_tokens == 20
    assert outcome.cost_millicents == 25_000
    assert (outcome.view.model, outcome.view.turns, outcome.view.tool_calls) == ("claude-opus-5-5", 1, 1)
    assert outcome.end is not None
    assert outcome.end.duration_s == pytest.approx(10.0)


async def test_bytes_cut_anywhere_give_the_same(tmp_path: Path, autojump_clock: Clock) -> None:
    stream = init() + tool() + result()
    job = Job(tmp_path, a=Played([part for byte in stream for part in (bytes([byte]), 0.001)]))
    end = await job.run()
    assert end.outcomes[0].verdict.ok
    assert end.outcomes[0].view.tool_calls == 1


async def test_the_cost_of_a_resumed_session_is_charged_once(tmp_path: Path, autojump_clock: Clock) -> None:
    job = Job(tmp_path, a=Played([init(), result(cost=0.25)]))
    await job.run()
    job.scripts["a"].script = [init(), result(cost=0.40)]
    job.recorded.clear()
    end = await job.run()
    assert end.outcomes[0].cost_millicents == 15_000


# --- Limits and ends -------------------------------------------------------------------------------------------------


async def test_a_call_over_its_limit_timed_out_and_did_not_stall(tmp_path: Path, autojump_clock: Clock) -> None:
    # OC-05: 1290 s for a translation at a job timeout of 3900 s.
    began = trio.current_time()
    job = Job(tmp_path, "opencode", a=Played([step("tool-calls")], hangs=True))
    end = await job.run(limit_s=1290.0)
    assert isinstance(end.failure, AgentTimedOut)
    assert "opencode timed out after 1290 s" in end.failure.message
    assert job.scripts["a"].stopped_at == pytest.approx(began + 1290.0)


async def test_a_cli_that_does_not_go_after_its_closing_word_is_stopped_after_30_seconds_and_did_well(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # AG-02
    began = trio.current_time()
    job = Job(tmp_path, a=Played([init(), 5.0, result()], hangs=True, dies_after_s=5.0))
    end = await job.run()
    assert end.failure is None
    assert end.outcomes[0].verdict.ok
    assert end.outcomes[0].stopped is Stopped.AFTER_RESULT
    assert job.scripts["a"].stopped_at == pytest.approx(began + 35.0)


async def test_a_background_task_that_goes_on_after_a_closing_word_is_let_go_on(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    stream: list[Any] = [init(), result(), 20.0, tool(message="msg_2"), 200.0, result()]
    end = await Job(tmp_path, a=Played(stream)).run()
    assert end.failure is None
    assert end.outcomes[0].stopped is None


async def test_a_good_closing_word_counts_though_the_limit_came_right_after_it(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    end = await Job(tmp_path, a=Played([init(), 9.0, result()], hangs=True)).run(limit_s=10.0)
    assert end.outcomes[0].stopped is Stopped.LIMIT
    assert end.failure is None


@pytest.mark.parametrize(
    ("stream", "code", "kind"),
    [
        ([init(), result()[:-20]], 0, VerdictKind.TRUNCATED),
        ([init(), tool()], 0, VerdictKind.NO_RESULT),
        ([init(), result(is_error=True, text="API Error: 529")], 0, VerdictKind.API_ERROR),
        ([init(), result()], 1, VerdictKind.UNFINISHED),
        ([init(), tool()], 143, VerdictKind.SIGNAL),
        ([], 1, VerdictKind.USAGE_ERROR),
    ],
)
async def test_exit_code_0_alone_is_no_success_and_a_good_result_alone_neither(
    tmp_path: Path, autojump_clock: Clock, stream: list[float | bytes], code: int, kind: VerdictKind
) -> None:
    end = await Job(tmp_path, a=Played(stream, code=code)).run()
    assert end.outcomes[0].verdict.kind is kind
    assert isinstance(end.failure, AgentFailed)
    assert end.failure.details["verdict"] == kind.value


@pytest.mark.parametrize("reason", ["length", "tool-calls", "unknown"])
async def test_an_opencode_call_that_ended_unfinished_with_exit_code_0_goes_on_to_the_gates(
    tmp_path: Path, autojump_clock: Clock, reason: str
) -> None:
    # D51
    end = await Job(tmp_path, "opencode", a=Played([step(reason, "text")])).run()
    assert end.failure is None
    assert not end.outcomes[0].verdict.ok


async def test_an_opencode_call_with_an_error_event_failed_whatever_its_exit_code(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # OC-03
    end = await Job(tmp_path, "opencode", a=Played([step("tool-calls"), opencode_error(status=400)])).run()
    assert isinstance(end.failure, AgentFailed)


@pytest.mark.parametrize(
    ("provider", "stream", "reason"),
    [
        (
            "claude",
            [
                init(),
                api_error("authentication_failed", 401, "Invalid API key"),
                result(is_error=True, text="Invalid API key · Fix external API key"),
            ],
            "auth",
        ),
        (
            "claude",
            [init(), api_error("billing_error", 400, "x"), result(is_error=True, text="Credit balance is too low")],
            "billing",
        ),
        ("opencode", [opencode_error(status=401)], "auth"),
        ("opencode", [opencode_error(status=402)], "billing"),
    ],
)
async def test_trouble_of_the_provider_is_told_from_trouble_of_the_law(
    tmp_path: Path, autojump_clock: Clock, provider: str, stream: list[Any], reason: str
) -> None:
    # D52
    end = await Job(tmp_path, provider, a=Played(stream, code=1)).run()
    assert isinstance(end.failure, ProviderTrouble)
    assert end.failure.details["reason"] == reason
    assert end.failure.details["provider"] == provider


@pytest.mark.parametrize(
    ("error", "status", "kind", "job_end"),
    [
        ("authentication_failed", 401, "provider_trouble", JobEnd.HAND_BACK),
        ("rate_limit", 429, "agent_failed", JobEnd.RETRY),
        ("overloaded", 529, "agent_failed", JobEnd.RETRY),
        ("invalid_request", 400, "bad_request", JobEnd.RETRY),
    ],
)
async def test_each_answer_of_the_api_has_a_class_of_its_own_and_only_a_refused_request_is_final_the_second_time(
    tmp_path: Path, autojump_clock: Clock, error: str, status: int, kind: str, job_end: JobEnd
) -> None:
    # AG-05
    stream = [init(), api_error(error, status, "x"), result(is_error=True, text=f"API Error: {status}")]
    failure = (await Job(tmp_path, a=Played(stream, code=1)).run()).failure
    assert failure is not None
    assert (failure.kind, verdict_of(failure).job) == (kind, job_end)
    second = verdict_of(failure).after(failure.to_result(), failure.kind)
    assert second.job is (JobEnd.TERMINAL if status == 400 else job_end)


async def test_words_of_the_agent_decide_nothing(tmp_path: Path, autojump_clock: Clock) -> None:
    text = "Invalid API key, credit balance is too low, YAML error, cannot fork"
    end = await Job(tmp_path, a=Played([init(), result(is_error=True, text=text)], code=1, stderr=text)).run()
    assert type(end.failure) is AgentFailed


async def test_the_cli_s_own_reason_is_in_the_error_and_secrets_are_not(tmp_path: Path, autojump_clock: Clock) -> None:
    text = "API Error: 500 for https://user:pw@host/ with canary-secret"
    end = await Job(tmp_path, a=Played([init(), tool(), result(is_error=True, text=text)], code=1)).run()
    assert end.failure is not None
    assert "API Error: 500" in end.failure.message
    assert "last: Edit laws/wet/law.yaml" in end.failure.message
    assert "canary-secret" not in end.failure.message
    assert "user:pw" not in end.failure.message


async def test_the_error_of_an_unknown_option_is_what_stderr_says(tmp_path: Path, autojump_clock: Clock) -> None:
    end = await Job(tmp_path, a=Played([], code=1, stderr="error: unknown option '--x'")).run()
    assert end.failure is not None
    assert "unknown option '--x'" in end.failure.message


# --- Cancellation and logs -------------------------------------------------------------------------------------------


async def test_cancelled_calls_are_on_record_too(tmp_path: Path, autojump_clock: Clock) -> None:
    job = Job(
        tmp_path,
        "opencode",
        a=Played([step("tool-calls"), 10.0, step("tool-calls", number=2)], hangs=True),
        b=Played([], hangs=True),
    )
    with trio.move_on_after(100):
        await job.run()
    assert sorted(outcome.slice for outcome in job.recorded) == [0, 1]
    usage = {outcome.slice: outcome.view.usage for outcome in job.recorded}
    assert usage[0] is not None
    assert usage[0].output_tokens == 50
    assert all(outcome.end is None and not outcome.usage_complete for outcome in job.recorded)
    assert job.view.live == []


@pytest.mark.claim("S0-124", "S0-126")
async def test_every_step_of_opencode_is_logged_and_cut_off_ones_as_a_warning(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # OC-08: three steps, two of them cut off.
    stream: list[Any] = [step("length", "abc", 1), step("tool-calls", "de", 2), step("length", "f", 3)]
    with capture_logs() as logs:
        end = await Job(tmp_path, "opencode", a=Played(stream, code=1)).run()
    steps = [entry for entry in logs if entry["event"].startswith("agent step")]
    assert [(entry["log_level"], entry["reason"], entry["text_chars"]) for entry in steps] == [
        ("warning", "length", 3),
        ("info", "tool-calls", 2),
        ("warning", "length", 1),
    ]
    assert steps[0]["event"] == "agent step cut off by the output limit"
    assert {"reasoning_chars", "tool_input_chars", "output_tokens"} <= steps[1].keys()
    assert "abc" not in str(logs)
    assert end.failure is not None
    assert "2 steps cut off" in end.failure.message


async def test_ten_thousand_lines_at_once_do_not_hold_the_loop(tmp_path: Path, autojump_clock: Clock) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    job = Job(tmp_path, a=Played([init() + tool() * 10_000 + result()]))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        end = await job.run()
        nursery.cancel_scope.cancel()
    assert end.outcomes[0].view.tool_calls == 10_000
    assert turns >= 50
