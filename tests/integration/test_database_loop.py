"""The asyncio loop inside trio: what a statement costs in turns, and that nobody starves beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import trio
from attrs import define

from actors.ports.database import Database
from actors.ports.database.port import TURN
from schema.connection import Connection


@define(eq=False)
class Turns(trio.abc.Instrument):
    """Counts the turns of trio's scheduler."""

    count: int = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def one(connection: Connection) -> Any:
    return await connection.fetchval("SELECT 1")


async def test_a_statement_takes_few_turns_of_the_scheduler(database: Database) -> None:
    # the loop as it comes needs eight: also told by an upgrade that moves what the port relies on
    await database.run(one)
    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    for _ in range(20):
        assert await database.run(one) == 1
    trio.lowlevel.remove_instrument(turns)
    assert turns.count <= 20 * 6


async def test_callbacks_that_follow_each_other_for_ever_leave_room_for_others(database: Database) -> None:
    loop = database._bridge.loop
    ran = 0

    def again() -> None:
        nonlocal ran
        ran += 1
        if ran < 100 * TURN:
            loop.call_soon(again)

    loop.call_soon(again)
    seen = []
    while ran < 100 * TURN:
        await trio.lowlevel.checkpoint()
        seen.append(ran)
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 3 * TURN
    assert await database.run(one) == 1
