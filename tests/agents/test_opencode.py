"""What only the opencode CLI does: silent retries, ends that look good, endless loops, a key in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from protocols.dialects.base import VerdictKind
from protocols.failures import AgentFailed, AgentStalled, ProviderTrouble
from protocols.stall import StallLimits
from tests.kit.agentworkshop import SECRETS, Workshop, workshop
from tests.kit.models.script import Answer, Refuses, Says, Silence, Stop, Thinks, Tokens, says

pytestmark = pytest.mark.agents


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop("opencode", tmp_path) as made:
        yield made


@pytest.mark.claim("S0-110")
async def test_a_step_that_is_cut_off_ends_as_if_done_and_is_counted_by_us(shop: Workshop) -> None:
    # OC-08, D51: the gates judge what was written so far
    shop.plays(
        Answer((shop.reads(),), tokens=Tokens(900, 60, 4096)),
        Answer((Thinks("Nu artikel 2. " * 40), Says("Half")), stop=Stop.LIMIT, tokens=Tokens(950, 32_000, 4096)),
    )
    with capture_logs() as logs:
        end = await shop.run(attach=str(shop.law.relative_to(shop.folder.checkout)))
    (outcome,) = end.outcomes
    assert end.failure is None
    assert outcome.verdict.kind is VerdictKind.CUT_OFF
    assert outcome.view.cut_off_steps == 1
    assert outcome.view.usage == shop.server.usage
    (cut_off,) = [line for line in logs if line["event"] == "agent step cut off by the output limit"]
    assert (cut_off["reasoning_chars"], cut_off["text_chars"]) == (14 * 40, 4)
    assert shop.server.asked[0].headers["authorization"] == f"Bearer {SECRETS['opencode']}"
    assert shop.server.asked[0].body["max_tokens"] == 32_000
    assert "Elke straat heeft een lantaarn." in str(shop.server.asked[0].body["messages"])  # D59: it was attached
    assert shop.server.aside == 1  # a title, whose tokens no event tells


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (says("Zonder einde.", stop=Stop.UNSAID), "10 equal steps"),
        (
            Refuses(400, "invalid_request_error", "maximum context length is 131072", code="context_length_exceeded"),
            "too long 3 times",
        ),
    ],
    ids=["no finish reason", "context overflow"],
)
async def test_an_endless_loop_is_stopped_although_it_looks_busy(
    shop: Workshop, step: Answer | Refuses, why: str
) -> None:
    shop.plays(step)
    end = await shop.run()
    assert isinstance(end.failure, AgentFailed)
    assert end.outcomes[0].verdict.kind is VerdictKind.LOOPING
    assert why in end.failure.message
    assert not shop.running()


async def test_a_refused_key_is_the_provider_s_trouble(shop: Workshop) -> None:
    shop.plays(Refuses(401, "invalid_request_error", "Incorrect API key provided", code="invalid_api_key"))
    end = await shop.run()
    assert isinstance(end.failure, ProviderTrouble)
    assert end.failure.details["reason"] == "auth"
    assert "Incorrect API key provided" in end.failure.message


async def test_no_first_line_in_time_is_a_stall_where_that_limit_is_set(tmp_path: Path) -> None:
    # D45
    async with workshop("opencode", tmp_path, limits=StallLimits(first_output_s=12)) as shop:
        shop.plays(Silence())
        end = await shop.run()
        assert isinstance(end.failure, AgentStalled)
        assert "nothing written since it was started" in end.failure.message
