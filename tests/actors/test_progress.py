"""Progress: latest wins, one statement for all, the last state never lost."""

from __future__ import annotations

import math

import pytest
import trio

from protocols.messages import FlushProgress, Phase
from tests.kit.actorhouse import ActorHouse


async def test_ten_thousand_reports_in_a_minute_without_database_are_one_write_of_the_newest(
    autojump_clock: trio.abc.Clock,
) -> None:
    # SD-07
    house = ActorHouse()
    job = house.add()
    claimed = await house.claim()
    house.queue.slow_s["write_progress"] = 60
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        house.board.put(claimed.lease, {"line": -1})
        await trio.sleep(10.5)  # the write of line -1 is stuck now
        begin = trio.current_time()
        for line in range(10_000):
            house.board.put(claimed.lease, {"line": line})
        assert trio.current_time() == begin
        house.queue.slow_s.clear()
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert house.memory.job(job.id).progress == {"line": 9_999}
    assert len(house.queue.times("write_progress")) == 2


@pytest.mark.claim("C-020")
async def test_all_jobs_are_written_in_one_statement_every_10_s(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    leases = []
    for number in range(4):
        house.add(f"law {number}")
        leases.append((await house.claim()).lease)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        for turn in range(35):
            for lease in leases:
                house.board.put(lease, {"turn": turn})
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert [round(at - begin) for at in house.queue.times("write_progress")] == [10, 20, 30]


async def test_nothing_new_writes_nothing(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    with trio.move_on_after(100):
        await house.progress().run()
    assert house.queue.calls == []


async def test_what_could_not_be_written_waits_and_gives_way_to_what_is_newer(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    first, second = house.add("law 1"), house.add("law 2")
    claims = {item.job.law_id: item for item in [await house.claim(), await house.claim()]}
    writer = house.progress()
    house.queue.down = True
    house.board.put(claims["law 1"].lease, {"step": 1})
    house.board.put(claims["law 2"].lease, {"step": 1})
    assert await writer.run_once() == 0
    house.board.put(claims["law 1"].lease, {"step": 2})
    house.queue.down = False
    assert await writer.run_once() == 2
    assert house.memory.job(first.id).progress == {"step": 2}
    assert house.memory.job(second.id).progress == {"step": 1}


async def test_a_flush_is_answered_at_once_also_when_nothing_could_be_written(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    house.add()
    claimed = await house.claim()
    house.queue.down = True
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        house.board.put(claimed.lease, {"step": 1})
        sender, receiver = trio.open_memory_channel[None](1)
        begin = trio.current_time()
        house.to_progress.send_nowait(FlushProgress(sender))
        await receiver.receive()
        assert trio.current_time() - begin < 1
        nursery.cancel_scope.cancel()


async def test_the_drain_writes_what_waits_and_ends_the_writer(autojump_clock: trio.abc.Clock) -> None:
    house = ActorHouse()
    job = house.add()
    claimed = await house.claim()
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        house.board.put(claimed.lease, {"step": "last"})
        house.lifecycle.advance(Phase.CLOSING)
    assert house.memory.job(job.id).progress == {"step": "last"}
    assert trio.current_time() < 1


@pytest.mark.parametrize("stuck_s", [5.0, math.inf])
async def test_a_write_that_is_cut_by_the_drain_is_tried_once_more(
    autojump_clock: trio.abc.Clock, stuck_s: float
) -> None:
    house = ActorHouse()
    job = house.add()
    claimed = await house.claim()
    house.queue.slow_s["write_progress"] = stuck_s
    async with trio.open_nursery() as nursery:
        await nursery.start(house.progress().run)
        house.board.put(claimed.lease, {"step": "last"})
        await trio.sleep(11)
        house.queue.slow_s.clear()
        house.lifecycle.advance(Phase.CLOSING)
    assert house.memory.job(job.id).progress == {"step": "last"}
