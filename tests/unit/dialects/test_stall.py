"""When an agent counts as stuck."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.agentevents import OUTPUT, ApiError, Cause, Retry, StepEnded, StepStarted, ToolCall, ToolResult, Turn
from protocols.dialects import DIALECTS
from protocols.stall import LoopWatch, SliceTimes, StallLimits, named_wait_s, time_left

IDLE = StallLimits(idle_s=600.0)
RETRY = StallLimits(idle_s=600.0, retry_s=900.0)


@pytest.mark.claim("S0-089", "S0-091")
def test_silence_of_600_seconds_is_a_stall_and_any_byte_starts_it_anew() -> None:
    # AG-01: alive at 599.9, stalled at 600.
    times = SliceTimes(1000.0)
    assert time_left([times], IDLE, 1000.0) == 600.0
    assert times.why(IDLE, 1599.9) is None
    assert times.why(IDLE, 1600.0) == "stalled: nothing written for 600 s"
    for number in range(1, 13):
        times.bytes_at(1000.0 + 599 * number)
        assert time_left([times], IDLE, 1000.0 + 599 * number) == 600.0


@pytest.mark.claim("S0-093")
def test_zero_switches_the_check_off() -> None:
    times = SliceTimes(0.0)
    assert time_left([times], StallLimits(idle_s=0.0), 1e9) == math.inf
    assert times.why(StallLimits(idle_s=0.0), 1e9) is None


@pytest.mark.claim("S0-096", "S0-097")
def test_a_job_is_stalled_only_when_every_live_slice_is_quiet() -> None:
    dead, alive = SliceTimes(0.0), SliceTimes(0.0)
    alive.bytes_at(500.0)
    assert time_left([dead, alive], IDLE, 700.0) == 400.0
    assert time_left([dead], IDLE, 700.0) < 0
    assert time_left([], IDLE, 700.0) == math.inf


def test_nothing_but_retries_is_a_stall_of_its_own_when_that_limit_is_set() -> None:
    # A dead model server prints a retry line each 361 s and is never silent for 600 s.
    times, now = SliceTimes(0.0), 0.0
    for attempt in range(1, 4):
        now = 361.0 * attempt
        times.bytes_at(now)
        times.note(Retry(attempt=attempt), now)
    assert times.retry_since == 361.0
    assert time_left([times], IDLE, now) == 600.0
    assert time_left([times], RETRY, now) == pytest.approx(361.0 + 900.0 - now)
    assert times.why(RETRY, 1261.0) == "stalled: nothing but retries for 900 s"
    assert times.why(RETRY, 1260.0) is None


@pytest.mark.claim("S0-092")
def test_the_silent_retry_after_an_overload_is_no_stall() -> None:
    # Eleven attempts with waits of up to 40 s: the longest silence is one wait and one attempt.
    times, now = SliceTimes(0.0), 0.0
    for wait in (0.5, 1.1, 2.3, 4.5, 9, 18, 35, 40, 40, 40):
        times.note(Retry(delay_s=wait), now)
        now += wait
        assert time_left([times], IDLE, now) > 0
        times.bytes_at(now)


@pytest.mark.parametrize("event", [OUTPUT, ToolCall("t", "Read"), ToolResult("t")])
def test_output_and_tool_results_end_a_row_of_retries(event: object) -> None:
    times = SliceTimes(0.0)
    times.note(Retry(), 10.0)
    times.note(event, 20.0)  # type: ignore[arg-type]
    assert times.retry_since is None


@pytest.mark.parametrize("event", [Turn(), StepStarted(again=True), Retry()])
def test_nothing_else_ends_it(event: object) -> None:
    times = SliceTimes(0.0)
    times.note(Retry(), 10.0)
    times.note(event, 20.0)  # type: ignore[arg-type]
    assert times.retry_since == 10.0


def test_a_cli_that_never_says_anything_is_stopped_when_that_limit_is_set() -> None:
    limits = StallLimits(idle_s=0.0, first_output_s=120.0)
    times = SliceTimes(50.0)
    assert time_left([times], limits, 100.0) == 70.0
    assert times.why(limits, 170.0) == "stalled: nothing written since it was started 120 s ago"
    times.bytes_at(169.0)
    assert time_left([times], limits, 170.0) == math.inf
    assert times.why(limits, 1e6) is None


@pytest.mark.claim("S0-094", "S0-095")
def test_silence_counts_for_enrichment_with_a_cli_that_streams_and_for_nothing_else() -> None:
    # OC-10
    settings = StallLimits(idle_s=600.0, retry_s=900.0, first_output_s=60.0)
    facts = {name: dialect.quiet_means_stalled for name, dialect in DIALECTS.items()}
    cases = [("claude", True, 600.0), ("opencode", True, 0.0), ("claude", False, 0.0), ("opencode", False, 0.0)]
    for provider, enrichment, idle in cases:
        limits = settings.for_call(quiet_means_stalled=facts[provider], enrichment=enrichment)
        assert limits.idle_s == idle
        assert limits.retry_s == (900.0 if idle else 0.0)
        assert limits.first_output_s == (60.0 if (provider, enrichment) == ("opencode", True) else 0.0)
        assert limits.max_steps == (400 if provider == "opencode" else 0)


@given(
    starts=st.lists(st.floats(0, 100), min_size=1, max_size=4),
    heard=st.lists(st.floats(100, 200), min_size=4, max_size=4),
    now=st.floats(200, 2000),
)
def test_the_time_left_is_over_exactly_when_every_slice_has_a_reason(
    starts: list[float], heard: list[float], now: float
) -> None:
    slices = [SliceTimes(start) for start in starts]
    for times, at in zip(slices, heard, strict=False):
        times.bytes_at(at)
    left = time_left(slices, IDLE, now)
    assert all(times.why(IDLE, now + left + 1e-3) for times in slices)
    assert not all(times.why(IDLE, now + left - 1e-3) for times in slices)


# --- Loops -----------------------------------------------------------------------------------------------------------


def steps(watch: LoopWatch, *events: StepEnded) -> list[str | None]:
    return [watch.note(event) for event in events]


def test_ten_equal_steps_without_a_tool_call_are_a_loop() -> None:
    said = steps(LoopWatch(StallLimits()), *[StepEnded("unknown", text_chars=9, fingerprint=7)] * 10)
    assert said == [None] * 9 + ["looping: 10 equal steps without a tool call"]


def test_steps_that_differ_or_call_tools_are_no_loop() -> None:
    watch = LoopWatch(StallLimits())
    equal = StepEnded("unknown", fingerprint=7)
    for event in (*[equal] * 9, StepEnded("unknown", fingerprint=8), *[equal] * 9):
        assert watch.note(event) is None
    assert watch.note(StepEnded("tool-calls", tool_calls=1, fingerprint=7)) is None
    assert set(steps(watch, *[equal] * 9)) == {None}


def test_more_steps_than_allowed_are_a_loop() -> None:
    watch = LoopWatch(StallLimits(max_steps=3))
    said = steps(watch, *[StepEnded("tool-calls", tool_calls=1)] * 3)
    assert said == [None, None, "looping: 3 steps"]


def test_three_context_overflows_are_a_loop() -> None:
    watch = LoopWatch(StallLimits())
    overflow = ApiError("ContextOverflowError", "too long", Cause.CONTEXT)
    other = ApiError("APIError", "no", Cause.OVERLOADED)
    assert [watch.note(event) for event in (overflow, other, overflow)] == [None] * 3
    assert watch.note(overflow) == "looping: the conversation was too long 3 times"


def test_zero_switches_each_loop_limit_off() -> None:
    watch = LoopWatch(StallLimits(max_steps=0, equal_steps=0, context_overflows=0))
    assert set(steps(watch, *[StepEnded("unknown")] * 1000)) == {None}
    assert {watch.note(ApiError("x", "", Cause.CONTEXT)) for _ in range(10)} == {None}


def test_a_wait_of_more_than_five_minutes_is_not_sat_out() -> None:
    # OC-06
    assert named_wait_s(Retry(delay_s=300.0)) is None
    assert named_wait_s(Retry(delay_s=301.0)) == 301.0
    assert named_wait_s(ApiError("APIError", "", Cause.RATE_LIMIT, retry_after_s=7200.0)) == 7200.0
    assert named_wait_s(Turn()) is None
