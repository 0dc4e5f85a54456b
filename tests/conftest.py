"""Rules for every test: a limit in time, a random seed that can be repeated, claims that are real ids."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

import hypothesis
import pytest
import trio

pytest_plugins = ["tests.kit.postgres"]

ASYNC_LIMIT_S = 30.0
"""An async test that waits longer is cancelled with its cleanup, and the next test runs in a clean loop."""

_MOCK_CLOCKS = {"autojump_clock", "mock_clock"}

hypothesis.settings.register_profile("default", max_examples=60, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "nightly",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Wrap each coroutine test in a limit.

    Limits by signal would break out of the trio run and poison the next test; a cancel scope inside the run does not.
    Mock-clock tests are left alone: their deadline would be virtual, and the clock jumps straight to it.
    """
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
