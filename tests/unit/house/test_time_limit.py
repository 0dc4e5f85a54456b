"""The limit that tests/kit/timelimit.py puts around async tests."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A test folder with the plugin and little patience."""
    pytester.makeconftest(
        """
        pytest_plugins = ["tests.kit.timelimit"]

        def pytest_configure():
            from tests.kit import timelimit
            timelimit.ASYNC_LIMIT_S = 0.2
        """
    )
    pytester.makeini("[pytest]\ntrio_mode = true\nfilterwarnings = error\nmarkers = time_limit(seconds): x\n")
    return pytester


def test_an_async_test_that_hangs_is_cancelled_with_its_cleanup_and_the_next_one_runs(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import trio
        cleaned = []
        async def test_hangs():
            try:
                await trio.sleep_forever()
            finally:
                cleaned.append(True)
        async def test_next():
            assert cleaned == [True]
        """
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*still running after 0.2 s*"])


def test_a_mock_clock_test_may_pass_hours_and_a_marked_test_has_its_own_limit(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest, trio
        async def test_hours(autojump_clock):
            await trio.sleep(36_000)
        @pytest.mark.time_limit(5)
        async def test_marked():
            await trio.sleep(0.3)
        """
    )
    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_property_tests_are_limited_too(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import trio
        from hypothesis import given, settings, strategies as st
        @settings(max_examples=1, deadline=None, database=None)
        @given(st.just(1))
        async def test_hangs(value):
            await trio.sleep_forever()
        """
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*still running after 0.2 s*"])
