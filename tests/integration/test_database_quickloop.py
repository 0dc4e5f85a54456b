"""The quicker step of the bridge's loop does what the original does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio_asyncio

from actors.ports.database.quickloop import Step, quicken


async def test_callbacks_timers_and_coroutines_run_in_their_order() -> None:
    told: list[str] = []

    async def work() -> str:
        told.append("coroutine")
        await asyncio.sleep(0.02)
        return "slept"

    async with trio_asyncio.open_loop() as loop:
        quicken(loop)
        loop.call_later(0.05, told.append, "late")
        loop.call_later(0.01, told.append, "soon")
        loop.call_later(0.03, told.append, "never").cancel()
        loop.call_soon(told.append, "first")
        loop.call_soon(told.append, "second")
        assert await trio_asyncio.aio_as_trio(work)() == "slept"
        await trio.sleep(0.06)
    assert told == ["first", "second", "coroutine", "soon", "late"]


async def test_a_flood_of_callbacks_leaves_other_tasks_their_turn() -> None:
    turns = 0
    stop = False

    async with trio_asyncio.open_loop() as loop:
        quicken(loop)

        def again() -> None:
            if not stop:
                loop.call_soon(again)

        loop.call_soon(again)
        for _ in range(50):
            await trio.lowlevel.checkpoint()
            turns += 1
        stop = True
    assert turns == 50


async def test_cancelled_timers_are_thrown_away_unheard() -> None:
    async with trio_asyncio.open_loop() as loop:
        quicken(loop)
        for _ in range(1000):
            loop.call_later(3600, print).cancel()
        await trio_asyncio.aio_as_trio(asyncio.sleep)(0.001)
        assert len(loop._timers) == 0


async def test_an_error_in_a_callback_reaches_the_handler_of_the_loop_and_ends_nothing() -> None:
    seen: list[Any] = []

    async with trio_asyncio.open_loop() as loop:
        quicken(loop)
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        loop.call_soon(lambda: 1 / 0)
        await trio_asyncio.aio_as_trio(asyncio.sleep)(0.001)
    assert [type(error) for error in seen] == [ZeroDivisionError]


async def test_the_loop_can_be_cancelled_from_outside_while_it_waits() -> None:
    with trio.move_on_after(0.05) as scope:
        async with trio_asyncio.open_loop() as loop:
            quicken(loop)
            await trio_asyncio.aio_as_trio(asyncio.sleep)(3600)
    assert scope.cancelled_caught


async def test_a_release_that_looks_different_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    strange = SimpleNamespace(_main_loop_one=None)
    quicken(strange)
    assert strange == SimpleNamespace(_main_loop_one=None)
    async with trio_asyncio.open_loop() as loop:
        quicken(loop)
        assert isinstance(loop._main_loop_one, Step)
