"""What holds for both CLIs, each against its own API: work, recovery, stops, standard input, what is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from protocols.agentevents import Usage
from protocols.agentview import CallView
from protocols.dialects.base import VerdictKind
from protocols.failures import AgentFailed, AgentStalled, AgentTimedOut
from protocols.stall import StallLimits
from tests.kit.agentworkshop import EDITED, LAW, LAW_TEXT, SECRETS, Workshop, lay_law, workshop
from tests.kit.models.script import (
    OVERLOADED,
    Answer,
    Break,
    HalfCall,
    How,
    Says,
    Script,
    Silence,
    Thinks,
    Tokens,
    by_turn,
    by_words,
    says,
)
from tests.kit.processes import until

pytestmark = pytest.mark.agents


@pytest.fixture(params=["claude", "opencode"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop(request.param, tmp_path) as made:
        yield made


@pytest.mark.claim("S0-076", "C-023")
async def test_a_call_that_reads_and_edits_is_told_in_full(shop: Workshop) -> None:
    shop.plays(
        Answer((Thinks("Eerst lezen."), Says("Ik lees."), shop.reads()), tokens=Tokens(14, 310, 21_000)),
        Answer((shop.edits(),), tokens=Tokens(8, 520, 21_900, reasoning=400)),
        says("Klaar.", tokens=Tokens(8, 60, 22_800)),
    )
    end = await shop.run()
    (outcome,) = end.outcomes
    assert (end.failure, outcome.verdict.kind) == (None, VerdictKind.OK)
    assert shop.law.read_text() == EDITED
    assert outcome.view.usage == shop.server.usage
    assert outcome.usage_complete
    assert outcome.view.model == shop.lane.model
    assert (outcome.view.turns, outcome.view.tool_calls, outcome.view.tool_errors) == (3, 2, 0)
    assert [line.lower() for line in outcome.view.recent.summaries()] == [f"read {LAW}", f"edit {LAW}"]
    assert shop.recorded == [outcome]
    assert SECRETS[shop.provider] in str(shop.server.asked[0].headers)


@pytest.mark.claim("S0-092")
async def test_an_overloaded_model_is_asked_again_until_it_answers(shop: Workshop) -> None:
    shop.plays(OVERLOADED, OVERLOADED, says("Toch nog."))
    end = await shop.run()
    assert end.failure is None
    assert len(shop.server.asked) == 3
    assert end.outcomes[0].view.usage == shop.server.usage
    assert end.outcomes[0].view.retries == (2 if shop.lane.dialect.closing_total else 0)  # opencode retries in silence


@pytest.mark.parametrize(
    ("shop", "how"),
    [
        ("claude", How.CLOSED),
        ("claude", How.RESET),
        ("claude", How.ERROR),
        ("opencode", How.RESET),
        ("opencode", How.ERROR),
    ],
    indirect=["shop"],
)
async def test_an_answer_that_breaks_off_is_asked_for_again(shop: Workshop, how: How) -> None:
    # what the CLI had heard of the cost of the first answer counts, so that it must have heard it for certain
    heard = trio.Event()
    shop.plays(says("Dit antwoord breekt halverwege af.", breaks=Break(3, how, once=heard)), says("Toch nog."))
    ended = []

    async def run() -> None:
        ended.append(await shop.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await shop.server.until_asked(1)
        await until(lambda: _tells_of_an_answer(shop.calls.view.calls[0]), limit_s=30)
        heard.set()
    (end,) = ended
    assert end.failure is None
    assert len(shop.server.asked) == 2
    assert end.outcomes[0].view.usage == shop.server.usage


def _tells_of_an_answer(call: CallView) -> bool:
    """claude tells of its beginning, opencode with its first line."""
    return call.turns == 1 if call.models else call.session_id is not None


async def test_a_tool_call_that_was_cut_in_half_is_an_error_and_the_work_goes_on(shop: Workshop) -> None:
    half = HalfCall(shop.edits().tool, '{"file_path": "' + str(shop.law) + '", "old_str')
    shop.plays(Answer((half,)), Answer((shop.reads(),)), Answer((shop.edits(),)), says("Hersteld."))
    end = await shop.run()
    assert end.failure is None
    assert (end.outcomes[0].view.tool_calls, end.outcomes[0].view.tool_errors) == (3, 1)
    assert shop.law.read_text() == EDITED


async def test_long_answers_arrive_whole_to_the_last_line(shop: Workshop) -> None:
    text = "".join(f"Lid {number:05}: de verzekerde heeft aanspraak op een toeslag.\n" for number in range(4000))
    shop.plays(says(text, piece_chars=4096), says("Klaar."))
    end = await shop.run()
    (outcome,) = end.outcomes
    assert outcome.verdict.ok
    assert not outcome.truncated
    assert outcome.end is not None
    assert outcome.end.output_bytes > len(text)
    assert outcome.view.last_step is not None
    assert outcome.view.last_step.text_chars == len(text)


# --- stops --------------------------------------------------------------------------------------------------------------


async def test_a_model_that_never_answers_ends_at_the_first_limit_that_is_for_this_cli(tmp_path: Path) -> None:
    # OC-10: silence counts for the CLI that streams only
    limits = StallLimits(idle_s=3)
    async with workshop("claude", tmp_path, limits=limits) as shop:
        shop.plays(Silence())
        end = await shop.run()
        assert isinstance(end.failure, AgentStalled)
        assert "stalled: nothing written for 3 s; last: no tool call" in end.failure.message
        assert not shop.running()


async def test_silence_of_a_cli_that_prints_finished_parts_ends_at_the_limit_of_the_call(tmp_path: Path) -> None:
    async with workshop("opencode", tmp_path, limits=StallLimits(idle_s=3)) as shop:
        shop.plays(Silence())
        end = await shop.run(limit_s=12)
        assert isinstance(end.failure, AgentTimedOut)
        assert end.failure.message.startswith("opencode timed out after 12 s")
        assert not shop.running()


async def test_cancelled_in_the_middle_nothing_of_it_is_left_and_it_is_on_record(shop: Workshop) -> None:
    shop.plays(Answer((shop.reads(),)), says("Een lang antwoord. " * 200, pause_s=0.1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.run)
        await shop.server.until_asked(2)
        await until(lambda: shop.calls.view.tool_calls == 1)
        assert shop.clis()
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 8
    assert not shop.running()
    (outcome,) = shop.recorded
    assert outcome.end is None
    assert outcome.view.tool_calls == 1


async def test_a_cli_that_somebody_else_ends_has_failed(shop: Workshop) -> None:
    shop.plays(Answer((shop.reads(),)), says("Een lang antwoord. " * 200, pause_s=0.1))
    ended = []

    async def run() -> None:
        ended.append(await shop.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await shop.server.until_asked(2)
        await until(lambda: shop.calls.view.tool_calls == 1)
        for pid in shop.clis():
            os.kill(pid, signal.SIGTERM)
    (end,) = ended
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.SIGNAL
    assert "1 tool calls" in end.failure.message
    assert not end.outcomes[0].usage_complete


async def test_two_slices_work_at_once_each_in_its_own_folder(shop: Workshop) -> None:
    folders = [shop.folder.slice(0), shop.folder.slice(1)]
    scripts: dict[str, Script] = {}
    for number, folder in enumerate(folders):
        lay_law(folder)
        law = folder.checkout / LAW
        scripts[str(folder.checkout)] = by_turn(
            Answer((Says("Ik lees de wet. " * 8), shop.reads(law)), pause_s=0.2),
            Answer((shop.edits("null", f"{{slice: {number}}}", law),)),
            says("Klaar."),
        )
    shop.server.script = by_words(scripts)
    end = await shop.run(folders=folders)
    assert end.failure is None
    assert [outcome.view.turns for outcome in end.outcomes] == [3, 3]
    for number, folder in enumerate(folders):
        assert (folder.checkout / LAW).read_text() == LAW_TEXT.replace("null", f"{{slice: {number}}}")
    assert shop.server.most_answering == 2
    assert sum((outcome.view.usage or Usage() for outcome in end.outcomes), Usage()) == shop.server.usage


# --- standard input -----------------------------------------------------------------------------------------------------


DASHED, QUOTED, LONG = "--help", 'Maak "artikel 1" af.\nRegel twee met een \\ en een \t tab.', "Lang: " + "é" * 60_000


@pytest.mark.parametrize(
    ("shop", "prompt"),
    [("claude", DASHED), ("claude", QUOTED), ("claude", LONG), ("opencode", QUOTED), ("opencode", LONG)],
    ids=["claude, like an option", "claude, quotes", "claude, 120 KB", "opencode, quotes", "opencode, 120 KB"],
    indirect=["shop"],
)
async def test_every_prompt_arrives_as_it_is(shop: Workshop, prompt: str) -> None:
    # AG-11: the CLI never waits for our own standard input
    shop.plays(says("Klaar."))
    end = await shop.run(prompt)
    assert end.failure is None
    assert any(prompt in text for _, text in shop.server.asked[0].texts)
