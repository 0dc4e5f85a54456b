"""What only the claude CLI does: sessions, retry notices, three tries to go on after a cut-off, a reason in its last line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from protocols import sessions
from protocols.agentevents import Usage
from protocols.dialects.base import VerdictKind
from protocols.failures import AgentFailed, AgentStalled, ProviderTrouble
from protocols.stall import StallLimits
from tests.kit.agentworkshop import EDITED, Workshop, workshop
from tests.kit.models.script import BROKEN, OVERLOADED, Answer, Break, How, Refuses, Stop, Tokens, says

pytestmark = pytest.mark.agents


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop("claude", tmp_path, CLAUDE_CODE_MAX_RETRIES="1") as made:
        yield made


async def test_a_resumed_session_knows_its_history_and_is_charged_for_its_own_part_only(shop: Workshop) -> None:
    # D54: the CLI adds up the cost of a session, and not its usage
    shop.plays(
        Answer((shop.reads(),), tokens=Tokens(10, 100, 0, 20_000)),
        says("Gelezen.", tokens=Tokens(10, 50, 20_000)),
        Answer((shop.edits(),), tokens=Tokens(10, 70, 20_000)),
        says("Klaar.", tokens=Tokens(10, 30, 20_100)),
    )
    session = uuid4()
    first = await shop.run("Lees de wet.", sessions.Open(session))
    second = await shop.run("Maak de wet af.", sessions.Resume(session))
    assert (first.failure, second.failure) == (None, None)
    opened, resumed = shop.recorded
    assert opened.view.session_id == resumed.view.session_id == str(session)
    assert shop.law.read_text() == EDITED
    history = " ".join(text for _, text in shop.server.asked[2].texts)
    assert history.index("Lees de wet.") < history.index("Gelezen.") < history.index("Maak de wet af.")
    told = [outcome.view.usage for outcome in (opened, resumed)]
    assert told[0] is not None
    assert told[1] is not None
    assert told[0] + told[1] == shop.server.usage
    costs = [outcome.cost_millicents for outcome in (opened, resumed)]
    total = resumed.view.total_cost_usd
    assert total is not None
    assert None not in costs
    assert abs(sum(cost or 0 for cost in costs) - round(total * 100_000)) <= 1


@pytest.mark.parametrize("how", [How.CLOSED, How.RESET])
async def test_an_answer_that_breaks_before_its_first_event_costs_nothing(shop: Workshop, how: How) -> None:
    shop.plays(says("Dit antwoord begint niet.", breaks=Break(0, how)), says("Toch nog."))
    end = await shop.run()
    assert end.failure is None
    assert len(shop.server.asked) == 2
    assert end.outcomes[0].view.usage == shop.server.usage == Usage(1200, 40)
    assert end.outcomes[0].view.retries == 1


async def test_an_answer_that_is_cut_off_goes_on_and_is_counted(shop: Workshop) -> None:
    shop.plays(says("Dit wordt afgebroken midden in", stop=Stop.LIMIT), says(" een zin, en afgemaakt."))
    end = await shop.run()
    assert end.failure is None
    assert end.outcomes[0].view.cut_off_steps == 1
    assert end.outcomes[0].view.usage == shop.server.usage


async def test_an_answer_that_is_always_cut_off_fails_with_the_cli_s_own_reason(shop: Workshop) -> None:
    shop.plays(says("Dit wordt afgebroken midden in", stop=Stop.LIMIT))
    end = await shop.run()
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.CUT_OFF
    assert "output token maximum" in end.failure.message
    assert "4 steps cut off by the output limit" in end.failure.message


@pytest.mark.claim("S0-088")
async def test_an_api_that_stays_away_fails_with_its_reason_and_what_was_done_last(shop: Workshop) -> None:
    # AG-05: stderr is empty then
    shop.plays(Answer((shop.reads(),)), OVERLOADED)
    end = await shop.run()
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.API_ERROR
    assert end.failure.message.startswith("claude failed (overloaded, exit code 1): API Error: 529 Overloaded")
    assert "; last: Read laws/" in end.failure.message
    assert end.failure.details["cause"] == "overloaded"


@pytest.mark.parametrize(
    ("refusal", "cause"),
    [
        (Refuses(401, "authentication_error", "invalid x-api-key"), "auth"),
        (
            Refuses(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
            "billing",
        ),
    ],
    ids=["401", "no credit"],
)
async def test_trouble_with_the_account_is_the_provider_s(shop: Workshop, refusal: Refuses, cause: str) -> None:
    # D52: the law is not to blame
    shop.plays(refusal)
    end = await shop.run()
    assert isinstance(end.failure, ProviderTrouble)
    assert end.failure.details["reason"] == cause


async def test_nothing_but_retries_is_a_stall_although_lines_keep_coming(tmp_path: Path) -> None:
    # D45: a dead server prints a retry line now and then
    async with workshop("claude", tmp_path, limits=StallLimits(retry_s=3)) as shop:
        shop.plays(Answer((shop.reads(),)), BROKEN)
        end = await shop.run()
        assert isinstance(end.failure, AgentStalled)
        assert "nothing but retries for 3 s" in end.failure.message
        assert end.outcomes[0].view.retries >= 2
        assert not shop.running()


async def test_a_stream_that_stops_in_the_middle_is_a_stall(tmp_path: Path) -> None:
    # AG-01
    async with workshop("claude", tmp_path, limits=StallLimits(idle_s=3)) as shop:
        shop.plays(Answer((shop.reads(),)), says("Begin van een antwoord. " * 5, breaks=Break(6, How.STALLED)))
        end = await shop.run()
        assert isinstance(end.failure, AgentStalled)
        assert "last: Read laws/" in end.failure.message
        assert not end.outcomes[0].usage_complete


async def test_a_session_that_is_not_there_is_told_as_a_mistake_of_ours(shop: Workshop) -> None:
    end = await shop.run(plan=sessions.Resume(uuid4()))
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.USAGE_ERROR
    assert not shop.server.asked
