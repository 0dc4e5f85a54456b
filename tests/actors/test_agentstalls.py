"""Agents that look alive or dead, on a mock clock: silence, retries, loops, slices (D45)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.ports.agentprocess import Stopped
from protocols.dialects.base import VerdictKind
from protocols.failures import AgentFailed, AgentStalled, ProviderTrouble
from protocols.stall import StallLimits
from tests.kit.agentlines import (
    Played,
    init,
    opencode_error,
    partial,
    result,
    retry,
    step,
    tool,
)
from tests.kit.playedjob import Job

Clock = MockClock


# --- Stalls ----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-089", "S0-091", "C-025")
async def test_silence_of_600_seconds_is_a_stall_to_the_second(tmp_path: Path, autojump_clock: Clock) -> None:
    # AG-01
    job = Job(tmp_path, a=Played([init(), 10.0, tool()], hangs=True))
    began = trio.current_time()
    end = await job.run()
    assert job.scripts["a"].stopped_at == pytest.approx(began + 610.0)
    assert isinstance(end.failure, AgentStalled)
    assert end.outcomes[0].stopped is Stopped.STALLED


@pytest.mark.claim("S0-087")
async def test_the_error_of_a_stall_says_how_long_and_ends_with_what_the_agent_did_last(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    job = Job(tmp_path, a=Played([init(), tool()], hangs=True))
    end = await job.run()
    assert end.failure is not None
    assert "claude stalled: nothing written for 600 s" in end.failure.message
    assert end.failure.message.endswith("last: Edit laws/wet/law.yaml, 1 turns, 1 tool calls, silent for 600s")


async def test_an_agent_is_alive_at_599_9_seconds(tmp_path: Path, autojump_clock: Clock) -> None:
    job = Job(tmp_path, a=Played([init(), 599.9, result()]))
    assert (await job.run()).failure is None


async def test_a_partial_event_every_599_seconds_for_two_hours_is_no_stall(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # AG-01: the time limit decides.
    job = Job(tmp_path, a=Played([init(), *[599.0, partial()] * 12, result()]))
    assert (await job.run(limit_s=float("inf"))).failure is None


async def test_any_byte_is_life_also_half_a_line(tmp_path: Path, autojump_clock: Clock) -> None:
    whole = result()
    job = Job(tmp_path, a=Played([init(), 590.0, whole[:5], 590.0, whole[5:]]))
    assert (await job.run()).failure is None


async def test_a_cli_that_never_prints_is_stalled_from_its_start_on(tmp_path: Path, autojump_clock: Clock) -> None:
    began = trio.current_time()
    job = Job(tmp_path, a=Played([], hangs=True))
    assert isinstance((await job.run()).failure, AgentStalled)
    assert job.scripts["a"].stopped_at == pytest.approx(began + 600.0)


async def test_zero_switches_the_limit_off(tmp_path: Path, autojump_clock: Clock) -> None:
    job = Job(tmp_path, limits=StallLimits(idle_s=0), a=Played([init(), 5000.0, result()]))
    assert (await job.run()).failure is None


@pytest.mark.claim("S0-094")
@pytest.mark.parametrize(
    ("provider", "enrichment", "stalls"),
    [("claude", True, True), ("opencode", True, False), ("claude", False, False), ("opencode", False, False)],
)
async def test_silence_counts_for_enrichment_with_claude_only(
    tmp_path: Path, autojump_clock: Clock, provider: str, enrichment: bool, stalls: bool
) -> None:
    # OC-10: the same silence under (claude, enrich), (opencode, enrich), (claude, law_convert).
    stream = [init(), 900.0, result()] if provider == "claude" else [900.0, step()]
    job = Job(tmp_path, provider, a=Played(stream))
    end = await job.run(enrichment=enrichment)
    assert isinstance(end.failure, AgentStalled) is stalls
    assert (end.failure is None) is not stalls


# --- Slices ----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-097", "C-022", "C-026")
async def test_the_job_stalls_only_once_every_live_slice_is_quiet(tmp_path: Path, autojump_clock: Clock) -> None:
    began = trio.current_time()
    job = Job(
        tmp_path,
        dead=Played([init()], hangs=True),
        chatty=Played([init(), *[500.0, partial()] * 4], hangs=True),
    )
    end = await job.run()
    assert isinstance(end.failure, AgentStalled)
    # The chatty one wrote for the last time at 2000 s and kept the dead one alive until 2600 s.
    assert [played.stopped_at for played in job.scripts.values()] == [pytest.approx(began + 2600.0)] * 2
    assert [outcome.stopped for outcome in end.outcomes] == [Stopped.STALLED] * 2


async def test_a_finished_slice_neither_keeps_the_others_alive_nor_blocks_them(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    began = trio.current_time()
    job = Job(tmp_path, done=Played([init(), 300.0, result()]), dead=Played([init()], hangs=True))
    end = await job.run()
    assert isinstance(end.failure, AgentStalled)
    assert job.scripts["dead"].stopped_at == pytest.approx(began + 600.0)
    assert end.outcomes[0].verdict.ok


async def test_the_first_failure_stops_the_other_slices_and_is_the_one_of_the_job(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    began = trio.current_time()
    job = Job(
        tmp_path,
        works=Played([init(), *[60.0, partial()] * 60], hangs=True),
        fails=Played([init(), 90.0, result(is_error=True, text="API Error: 500")], code=1),
    )
    end = await job.run()
    assert isinstance(end.failure, AgentFailed)
    assert "API Error: 500" in end.failure.message
    assert job.scripts["works"].stopped_at == pytest.approx(began + 90.0)
    assert end.outcomes[0].stopped is Stopped.SIBLING


# --- Retries, first output, loops ------------------------------------------------------------------------------------


async def test_nothing_but_retry_notices_is_a_stall_when_that_limit_is_set(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # A dead model server: one notice every 361 s, which no idle limit of 600 s ever sees.
    storm: list[Any] = [init(), partial(), *[361.0, retry()] * 20]
    began = trio.current_time()
    job = Job(tmp_path, limits=StallLimits(idle_s=600, retry_s=900), a=Played(storm, hangs=True))
    end = await job.run()
    assert isinstance(end.failure, AgentStalled)
    assert job.scripts["a"].stopped_at == pytest.approx(began + 361.0 + 900.0)
    assert "nothing but retries for 900 s" in end.failure.message


async def test_output_of_the_model_clears_the_retry_clock(tmp_path: Path, autojump_clock: Clock) -> None:
    calm: list[Any] = [init(), *[400.0, retry(), 400.0, partial()] * 4, result()]
    job = Job(tmp_path, limits=StallLimits(idle_s=600, retry_s=900), a=Played(calm))
    assert (await job.run()).failure is None


@pytest.mark.claim("S0-092")
async def test_retries_are_no_stall_by_default(tmp_path: Path, autojump_clock: Clock) -> None:
    storm: list[Any] = [init(), *[361.0, retry()] * 10, result()]
    assert (await Job(tmp_path, a=Played(storm)).run()).failure is None


async def test_an_opencode_call_without_a_first_byte_is_stalled_when_that_limit_is_set(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    began = trio.current_time()
    limits = StallLimits(first_output_s=120)
    job = Job(tmp_path, "opencode", limits, a=Played([], hangs=True))
    assert isinstance((await job.run()).failure, AgentStalled)
    assert job.scripts["a"].stopped_at == pytest.approx(began + 120.0)
    late = Job(tmp_path, "opencode", limits, a=Played([119.0, step("tool-calls"), 5000.0, step()]))
    assert (await late.run()).failure is None


async def test_equal_steps_without_a_tool_call_are_a_loop_though_they_look_busy(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    endless: list[Any] = [part for n in range(50) for part in (1.0, step("unknown", "again", n))]
    job = Job(tmp_path, "opencode", a=Played(endless, hangs=True))
    end = await job.run()
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.LOOPING
    assert "10 equal steps" in end.failure.message
    assert end.outcomes[0].view.steps == 10


async def test_too_many_steps_are_a_loop(tmp_path: Path, autojump_clock: Clock) -> None:
    many: list[Any] = [part for n in range(50) for part in (1.0, step("unknown", f"{n}", n))]
    job = Job(tmp_path, "opencode", StallLimits(max_steps=20), a=Played(many, hangs=True))
    end = await job.run()
    assert end.outcomes[0].view.steps == 20
    assert end.outcomes[0].verdict.kind is VerdictKind.LOOPING


async def test_a_conversation_that_overflows_again_and_again_is_a_loop(tmp_path: Path, autojump_clock: Clock) -> None:
    overflow: list[Any] = [1.0, opencode_error("ContextOverflowError", 400)] * 10
    job = Job(tmp_path, "opencode", a=Played(overflow, hangs=True))
    began = trio.current_time()
    end = await job.run()
    assert job.scripts["a"].stopped_at == pytest.approx(began + 3.0)
    assert end.outcomes[0].verdict.kind is VerdictKind.LOOPING


async def test_a_wait_longer_than_five_minutes_ends_the_call_at_once_and_is_the_provider_s(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    # OC-06: three notices, reset in two hours.
    began = trio.current_time()
    job = Job(tmp_path, a=Played([init(), 1.0, retry(), 1.0, retry(7_200_000, 429)], hangs=True))
    end = await job.run()
    assert isinstance(end.failure, ProviderTrouble)
    assert end.failure.details["reason"] == "quota"
    assert end.failure.details["retry_after_s"] == 7200
    assert job.scripts["a"].stopped_at == pytest.approx(began + 2.0)
