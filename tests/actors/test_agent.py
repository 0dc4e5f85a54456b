"""One agent actor on a mock clock: what it tells its job, and when (D46)."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import trio
from attrs import evolve
from trio.testing import MockClock

from actors.agent import AgentActor, CallOutcome
from actors.ports.agentprocess import AgentEnd, Stop
from actors.ports.launcher import AgentCommand
from actors.ports.spool import Spool
from protocols.agentevents import Closing, ModelSeen, Output, ToolCall
from protocols.agentview import CallView
from protocols.dialects import DIALECTS
from protocols.dialects.base import VerdictKind
from protocols.failures import Permanent, ResourceExhausted
from protocols.messages import AgentActive, AgentMessage, AgentSaid
from tests.kit.agentlines import Played, PlayedRunner, init, partial, result, slice_call, step, tool


async def run(
    folder: Path, played: Played, provider: str = "claude"
) -> tuple[CallOutcome, list[tuple[float, AgentMessage]]]:
    """What the actor came to, and all it told, with the moment it was told."""
    sender, receiver = trio.open_memory_channel[AgentMessage](math.inf)
    told: list[tuple[float, AgentMessage]] = []
    began = trio.current_time()

    async def listen() -> None:
        told.extend([(trio.current_time() - began, message) async for message in receiver])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        view = CallView(label="translate", started_at=began)
        runner = PlayedRunner({"a": played})
        actor = AgentActor(0, slice_call("a", folder), DIALECTS[provider], view, runner, sender)
        outcome = await actor.run()
        await sender.aclose()
    return outcome, told


async def test_a_busy_stream_is_told_as_one_activity_in_a_tenth_of_a_second(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    tokens = [part for _ in range(1000) for part in (0.001, partial())]
    _, told = await run(tmp_path, Played([init(), *tokens, result()]))
    active = [at for at, message in told if isinstance(message, AgentActive)]
    assert 9 <= len(active) <= 11
    assert all(later - earlier >= 0.0999 for earlier, later in pairwise(active))


async def test_typed_events_are_told_in_order_and_tokens_never(tmp_path: Path, autojump_clock: MockClock) -> None:
    _, told = await run(tmp_path, Played([init() + partial() * 50 + tool() + partial() * 50 + result()]))
    said = [message.event for _, message in told if isinstance(message, AgentSaid)]
    assert not any(isinstance(event, Output) for event in said)
    kept = [type(event) for event in said if isinstance(event, ModelSeen | ToolCall | Closing)]
    assert kept == [ModelSeen, ToolCall, Closing]


async def test_the_reader_stamps_bytes_that_the_parser_has_not_seen_yet(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    spool_times: list[float] = []
    view = CallView(started_at=trio.current_time())

    async def half_lines(command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float) -> AgentEnd:
        for _ in range(3):
            await trio.sleep(10)
            spool.put(b"{")
            spool_times.append(view.times.last_bytes)
        spool.close()
        return AgentEnd(0, None, 30)

    sender, _receiver = trio.open_memory_channel[AgentMessage](math.inf)
    actor = AgentActor(0, slice_call("a", tmp_path), DIALECTS["claude"], view, half_lines, sender)
    outcome = await actor.run()
    assert [at - view.started_at for at in spool_times] == [10, 20, 30]
    assert outcome.verdict.kind is VerdictKind.TRUNCATED
    assert not outcome.usage_complete


async def test_usage_is_a_lower_bound_when_a_signal_may_have_cut_a_step_that_nobody_told_of(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    # OC-02: the next step is asked for before anything is printed of it
    ended, _ = await run(tmp_path, Played([step("tool-calls")]), "opencode")
    cut = evolve(ended, end=AgentEnd(None, 15, 1.0))
    assert (ended.usage_complete, cut.usage_complete) == (True, False)


async def test_a_cli_that_cannot_be_started_or_written_out_is_a_typed_fault_of_the_outcome(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    faults = [Permanent("cannot start claude: not found; install it"), OSError(28, "No space left on device")]
    for fault, kind in zip(faults, (Permanent, ResourceExhausted), strict=True):

        async def broken(
            command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float, fault: Exception = fault
        ) -> AgentEnd:
            raise fault

        sender, _receiver = trio.open_memory_channel[AgentMessage](math.inf)
        actor = AgentActor(0, slice_call("a", tmp_path), DIALECTS["claude"], CallView(), broken, sender)
        assert isinstance((await actor.run()).fault, kind)
