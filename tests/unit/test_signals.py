"""Signals in every stage of a process's life (SD-05)."""

from __future__ import annotations

import signal

import pytest

from supervisor.drain import SIGNALS, Signals


@pytest.mark.parametrize("number", SIGNALS)
def test_before_the_loop_a_signal_ends_the_process_with_0(number: int) -> None:
    with Signals(), pytest.raises(SystemExit) as ended:
        signal.raise_signal(number)
    assert ended.value.code == 0


def test_after_the_loop_a_signal_keeps_the_exit_code() -> None:
    with Signals() as signals:
        with signals.kept():
            signals.exit_code = 1
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 1


def test_a_signal_while_the_loop_starts_is_kept_for_it() -> None:
    heard: list[int] = []
    with Signals() as signals, signals.kept():
        signal.raise_signal(signal.SIGINT)
        with signals.listening(heard.append):
            signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGINT, signal.SIGTERM]


def test_a_signal_after_the_last_actor_is_no_surprise() -> None:
    heard: list[int] = []
    with Signals() as signals, signals.kept():
        with signals.listening(heard.append):
            pass
        signal.raise_signal(signal.SIGTERM)
    assert heard == []


def test_the_handlers_of_before_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("first", SIGNALS)
def test_a_closed_terminal_begins_the_end_and_never_hurries_it(first: int) -> None:
    """The kernel and the shell both tell of it, one after the other."""
    heard: list[int] = []
    with Signals() as signals, signals.kept(), signals.listening(heard.append):
        signal.raise_signal(first)
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        assert (heard, signals.count) == ([first], 1)
        signal.raise_signal(signal.SIGTERM)
        assert (heard, signals.count) == ([first, signal.SIGTERM], 2)


def test_under_nohup_a_closed_terminal_means_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
