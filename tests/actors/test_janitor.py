"""The janitor on the mock clock: one pass after the other, batch by batch, and trouble costs no more than time."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from actors.janitor import Janitor, JanitorRule
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
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
