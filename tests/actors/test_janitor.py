"""The janitor on the mock clock: one pass after the other, batch by batch, and trouble costs no more than time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest
import trio
from attrs import define, field
from structlog.typing import EventDict

from actors.janitor import Janitor, JanitorRule, ResultJanitor
from actors.ports.database import Units
from protocols.failures import DatabaseUnavailable, InvalidInput, OutcomeUnclear
from schema.retention import Batch

RULE = JanitorRule(jitter=0)


def spot(number: int) -> UUID:
    return UUID(int=number)


async def test_a_pass_goes_on_where_the_batch_before_it_ended(autojump_clock: trio.abc.Clock) -> None:
    asked: list[UUID | None] = []
    batches = iter([Batch(5, spot(1)), Batch(0, spot(2)), Batch(3, None)])

    async def prune(after: UUID | None) -> Batch:
        asked.append(after)
        return next(batches)

    janitor = Janitor(prune, RULE)
    assert await janitor.run_once() == 8
    assert asked == [None, spot(1), spot(2)]
    assert trio.current_time() == pytest.approx(2 * RULE.batch_s)


@pytest.mark.parametrize("error", [DatabaseUnavailable("away"), OutcomeUnclear("lost")])
async def test_after_trouble_the_batch_is_tried_again(autojump_clock: trio.abc.Clock, error: Exception) -> None:
    asked: list[UUID | None] = []

    async def prune(after: UUID | None) -> Batch:
        asked.append(after)
        if len(asked) == 2:
            raise error
        return Batch(1, spot(1) if len(asked) == 1 else None)

    assert await Janitor(prune, RULE).run_once() == 2
    assert asked == [None, spot(1), spot(1)]
    assert trio.current_time() > RULE.trouble_s


async def test_a_batch_that_another_supervisor_kept_us_from_is_looked_at_later(autojump_clock: trio.abc.Clock) -> None:
    asked: list[UUID | None] = []

    async def prune(after: UUID | None) -> Batch:
        asked.append(after)
        return Batch(last=after, busy=True) if len(asked) < 3 else Batch(4)

    assert await Janitor(prune, RULE).run_once() == 4
    assert asked == [None, None, None]


async def test_passes_have_a_rest_between_them_and_do_not_begin_at_the_start(autojump_clock: trio.abc.Clock) -> None:
    at: list[float] = []

    async def prune(after: UUID | None) -> Batch:
        at.append(trio.current_time())
        return Batch()

    with trio.move_on_after(3.5 * RULE.pass_s):
        await Janitor(prune, RULE).run()
    assert at == pytest.approx([RULE.pass_s, 2 * RULE.pass_s, 3 * RULE.pass_s])


async def test_janitors_that_start_together_do_not_walk_together(autojump_clock: trio.abc.Clock) -> None:
    at: list[float] = []

    async def prune(after: UUID | None) -> Batch:
        at.append(trio.current_time())
        return Batch()

    with trio.move_on_after(2 * RULE.pass_s):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(Janitor(prune).run)
    assert len(set(at)) == len(at) >= 5


# --- results ------------------------------------------------------------------------------------------------------------


@define
class Shelf:
    """A database with nothing to do, and an empty store. ``trouble`` by the name of a unit is raised instead of an answer."""

    trouble: dict[str, Exception] = field(factory=dict)
    asked: list[str] = field(factory=list)
    sweeps: list[float] = field(factory=list)
    backend_name: str = "local"

    async def run(self, unit: Callable[..., Any], *args: object, **more: object) -> Any:
        self.asked.append(unit.__name__)
        if unit.__name__ in self.trouble:
            raise self.trouble[unit.__name__]
        return 0 if unit.__name__ == "expire_results" else []

    transact = run

    async def delete(self, key: str) -> None:
        raise AssertionError("nothing is to be deleted")

    async def sweep_parts(self) -> int:
        self.sweeps.append(trio.current_time())
        return 0

    async def open(self) -> Shelf:
        return self

    def janitor(self) -> ResultJanitor:
        return ResultJanitor(cast(Units, self), self.open, RULE)


async def test_the_store_is_looked_after_now_and_then(autojump_clock: trio.abc.Clock) -> None:
    shelf = Shelf()
    with trio.move_on_after(2.5 * RULE.pass_s):
        await shelf.janitor().run()
    assert shelf.sweeps == pytest.approx([RULE.pass_s, 2 * RULE.pass_s])
    assert shelf.asked[:3] == ["expire_results", "repair", "removable"]


async def test_a_part_that_fails_does_not_keep_the_others_from_their_work(
    autojump_clock: trio.abc.Clock, said: list[EventDict]
) -> None:
    shelf = Shelf({"expire_results": ValueError("a defect")})
    await shelf.janitor().run_once(shelf)
    assert (shelf.asked, len(shelf.sweeps)) == (["expire_results", "repair", "removable"], 1)
    assert [line["event"] for line in said] == ["janitor failed"]


@pytest.mark.parametrize("error", [DatabaseUnavailable("away"), OutcomeUnclear("lost")])
async def test_without_a_database_the_pass_is_over_and_the_next_one_comes(
    autojump_clock: trio.abc.Clock, error: Exception
) -> None:
    shelf = Shelf({"repair": error})
    with trio.move_on_after(1.5 * RULE.pass_s):
        await shelf.janitor().run()
    assert shelf.asked == ["expire_results", "repair"]
    shelf.trouble.clear()
    await shelf.janitor().run_once(shelf)
    assert len(shelf.sweeps) == 1


async def test_a_store_that_cannot_be_used_is_told_before_anything_begins(autojump_clock: trio.abc.Clock) -> None:
    async def refuse() -> Shelf:
        raise InvalidInput("BLOB_LOCAL_ROOT cannot be used")

    async with trio.open_nursery() as nursery:
        with pytest.raises(InvalidInput, match="BLOB_LOCAL_ROOT"):
            await nursery.start(ResultJanitor(cast(Units, Shelf()), refuse, RULE).run)
