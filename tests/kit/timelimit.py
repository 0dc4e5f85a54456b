"""A limit for every async test, with its cleanup; the next test runs in a clean loop.

Limits by signal would break out of the trio run and poison the next test; a cancel scope inside the run does not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

ASYNC_LIMIT_S = 30.0

_MOCK_CLOCKS = {"autojump_clock", "mock_clock"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Wrap each coroutine test. Mock-clock tests are left alone: the clock would jump straight to the deadline."""
    for item in items:
        if isinstance(item, pytest.Function) and not _MOCK_CLOCKS & set(item.fixturenames):
            mark = item.get_closest_marker("time_limit")
            _limit(item, float(mark.args[0]) if mark else ASYNC_LIMIT_S)


def _limit(item: pytest.Function, seconds: float) -> None:
    hypothesis_handle = getattr(item.obj, "hypothesis", None)
    if hypothesis_handle is not None:
        if inspect.iscoroutinefunction(hypothesis_handle.inner_test):
            hypothesis_handle.inner_test = _within(seconds, hypothesis_handle.inner_test)
    elif inspect.iscoroutinefunction(item.obj):
        item.obj = _within(seconds, item.obj)


def _within(seconds: float, test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def limited(*args: Any, **kwargs: Any) -> None:
        with trio.move_on_after(seconds) as scope:
            await test(*args, **kwargs)
        if scope.cancelled_caught:
            pytest.fail(f"still running after {seconds:g} s (another limit: @pytest.mark.time_limit(seconds))")

    return limited
