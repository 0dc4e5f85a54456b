"""Nothing that an agent starts survives it: both CLIs leave shells behind when they are killed (AG-07)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.kit.agentworkshop import Workshop, workshop
from tests.kit.models.hands import Hands
from tests.kit.models.script import Answer, Calls, Silence, says
from tests.kit.processes import alive, pids_in, until

pytestmark = pytest.mark.agents

SLEEPS = ": > {folder}/$$; exec sleep 300"
ORPHANS = f"""(sh -c 'trap "" TERM HUP; {SLEEPS}' & setsid sh -c '{SLEEPS}' &) < /dev/null > /dev/null 2>&1;"""
"""A deaf child and one in a session of its own."""


@pytest.fixture(params=["claude", "opencode"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop(request.param, tmp_path) as made:
        made.folder.tmp.joinpath("pids").mkdir()
        made.permit_bash()
        yield made


def order(shop: Workshop, then: str) -> Calls:
    """The model wants a command that leaves orphans in the folder of the checkout, where every call may write."""
    return Hands(shop.provider).shell(ORPHANS.format(folder=pids(shop)) + then)


def pids(shop: Workshop) -> Path:
    folder = shop.folder.checkout / "pids"
    folder.mkdir(exist_ok=True)
    return folder


async def test_orphans_of_a_tool_are_gone_when_the_cli_has_ended_well(shop: Workshop) -> None:
    shop.plays(Answer((order(shop, " sleep 0.5"),)), says("Klaar."))
    end = await shop.run(bash=True)
    assert end.failure is None
    assert len(pids_in(pids(shop))) == 2
    assert not alive(pids_in(pids(shop)))
    assert end.outcomes[0].end is not None
    assert end.outcomes[0].end.survivors == ()


async def test_a_tool_that_hangs_is_gone_with_its_orphans_when_the_call_is_given_up(shop: Workshop) -> None:
    shop.plays(Answer((order(shop, " sleep 300"),)), Silence())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(shop.run, bash=True))
        await until(lambda: len(pids_in(pids(shop))) == 2, limit_s=40)
        agents = pids_in(pids(shop)) | shop.running()
        assert len(alive(agents)) >= 4
        nursery.cancel_scope.cancel()
    assert not alive(agents)
    assert not shop.running()
