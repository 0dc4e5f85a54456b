"""Completions share statements: none is lost, none is told another's outcome, whoever is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from actors.ports.completions import Completions
from actors.ports.database import Refused
from protocols.failures import DatabaseUnavailable, JsonObject, LeaseLost, OutcomeUnclear
from schema.queue import endings
from schema.rows import Lease


def lease() -> Lease:
    return Lease(uuid4(), uuid4(), 1)


@define
class SlowDatabase:
    """Each statement takes a second. ``lost`` leases are not ours, ``refused`` ones cannot be stored."""

    lost: set[Lease] = field(factory=set)
    refused: set[Lease] = field(factory=set)
    away: bool = False
    statements: list[list[Lease]] = field(factory=list)

    async def run(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        together = fn is endings.complete_many
        leases: list[Lease] = list(args[0]) if together else [args[0]]
        self.statements.append(leases)
        await trio.sleep(1)
        if self.away:
            raise DatabaseUnavailable("no route")
        if self.refused.intersection(leases):
            raise Refused("a value it cannot store")
        ours = {one for one in leases if one not in self.lost}
        if not together and not ours:
            raise LeaseLost("gone")
        return ours


@define
class Desk:
    database: SlowDatabase = field(factory=SlowDatabase)
    completions: Completions = field(init=False)
    ended: dict[Lease, BaseException | None] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.completions = Completions(self.database)  # type: ignore[arg-type]

    async def complete(self, one: Lease, result: JsonObject | None = None) -> None:
        try:
            await self.completions.complete(one, result)
        except Exception as error:
            self.ended[one] = error
        except BaseException as error:
            self.ended[one] = error
            raise
        else:
            self.ended[one] = None


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_who_comes_first_does_not_wait_and_who_comes_meanwhile_goes_together(
    desk: Desk, autojump_clock: MockClock
) -> None:
    first, *others = [lease() for _ in range(20)]
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.complete, first)
        await trio.sleep(0.5)
        for one in others:
            nursery.start_soon(desk.complete, one)
    assert trio.current_time() - begin == pytest.approx(2)
    assert [len(statement) for statement in desk.database.statements] == [1, 19]
    assert desk.ended == dict.fromkeys([first, *others])
    await desk.complete(last := lease())
    assert desk.database.statements[-1] == [last]


async def test_who_ends_in_the_same_moment_shares_the_first_statement(desk: Desk, autojump_clock: MockClock) -> None:
    leases = [lease() for _ in range(20)]
    async with trio.open_nursery() as nursery:
        for one in leases:
            nursery.start_soon(desk.complete, one)
    assert [set(statement) for statement in desk.database.statements] == [set(leases)]


async def test_a_lost_lease_and_a_refused_result_concern_nobody_else(desk: Desk, autojump_clock: MockClock) -> None:
    leases = [lease() for _ in range(6)]
    desk.database.lost, desk.database.refused = {leases[2], leases[4]}, {leases[3]}
    async with trio.open_nursery() as nursery:
        for one in leases:
            nursery.start_soon(desk.complete, one)
    kinds = [type(desk.ended[one]) for one in leases]
    assert kinds[3] is Refused
    assert [isinstance(desk.ended[one], LeaseLost) for one in leases] == [False, False, True, False, True, False]
    assert kinds.count(type(None)) == 3


async def test_a_database_that_is_away_is_told_to_each_by_an_error_of_its_own(
    desk: Desk, autojump_clock: MockClock
) -> None:
    leases = [lease() for _ in range(4)]
    desk.database.away = True
    async with trio.open_nursery() as nursery:
        for one in leases:
            nursery.start_soon(desk.complete, one)
    errors = list(desk.ended.values())
    assert all(isinstance(error, DatabaseUnavailable) for error in errors)
    assert len(set(map(id, errors))) == 4


@pytest.mark.parametrize("victim", range(5))
@pytest.mark.parametrize("at_s", [0.5, 1, 1.5, 2])
async def test_whoever_is_cancelled_whenever_all_others_end_and_are_told_the_truth(
    desk: Desk, victim: int, at_s: float, autojump_clock: MockClock
) -> None:
    leases = [lease() for _ in range(5)]
    scope = trio.CancelScope()

    async def cancelled_one() -> None:
        with scope:
            await desk.complete(leases[victim])

    async with trio.open_nursery() as nursery:
        for index, one in enumerate(leases):
            nursery.start_soon(*((cancelled_one,) if index == victim else (desk.complete, one)))
        await trio.sleep(at_s)
        scope.cancel()
    sent = [one for statement in desk.database.statements for one in statement]
    for index, one in enumerate(leases):
        if index != victim:
            assert one in sent
            assert desk.ended[one] is None or isinstance(desk.ended[one], OutcomeUnclear)
    await desk.complete(last := lease())
    assert desk.ended[last] is None
