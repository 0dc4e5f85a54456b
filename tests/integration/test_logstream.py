"""Log lines on a real pipe: who does not read them holds nobody up, and learns afterwards how many are missing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from attrs import define

from supervisor.logstream import LogStream

PATIENCE_S = 0.1
ROOM = 65_536
"""Of a pipe."""


@define
class Pipe:
    read: int
    write: int

    def stream(self) -> LogStream:
        return LogStream(self.write, lambda lines: f"{lines} dropped", patience_s=PATIENCE_S)

    def fill(self) -> None:
        os.set_blocking(self.write, False)
        try:
            while True:
                os.write(self.write, b"." * 1024)
        except BlockingIOError:
            os.set_blocking(self.write, True)

    def drained(self) -> str:
        """All that is in it now."""
        os.set_blocking(self.read, False)
        text = b""
        try:
            while block := os.read(self.read, ROOM):
                text += block
        except BlockingIOError:
            pass
        return text.decode().lstrip(".")


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(*os.pipe())
    yield made
    for end in (made.read, made.write):
        try:
            os.close(end)
        except OSError:
            continue  # the test closed it


def test_lines_arrive_whole_and_in_order(pipe: Pipe) -> None:
    stream = pipe.stream()
    for line in ("one\n", "größer\n", "\udce4 odd\n", "x" * 20_000 + "\n"):
        stream.write(line)
    assert pipe.drained() == "one\ngrößer\n\\udce4 odd\n" + "x" * 20_000 + "\n"
    assert stream.dropped == 0


def test_a_reader_that_stopped_is_waited_for_once_and_told_later_what_is_missing(pipe: Pipe) -> None:
    stream = pipe.stream()
    pipe.fill()
    begin = time.monotonic()
    stream.write("lost\n")
    assert PATIENCE_S <= time.monotonic() - begin < PATIENCE_S + 2
    begin = time.monotonic()
    for _ in range(1000):
        stream.write("lost too\n")
    assert time.monotonic() - begin < 2  # nobody waits for what nobody reads
    assert stream.dropped == 1001
    pipe.drained()
    stream.write("here again\n")
    assert pipe.drained() == "1001 dropped\nhere again\n"
    stream.write("and well\n")
    assert pipe.drained() == "and well\n"


def test_a_reader_that_is_only_slow_misses_nothing(pipe: Pipe) -> None:
    stream = LogStream(pipe.write, lambda lines: f"{lines} dropped", patience_s=20)
    pipe.fill()
    reader = threading.Timer(0.05, lambda: os.read(pipe.read, ROOM))
    reader.start()
    stream.write("patience\n")
    reader.join()
    assert pipe.drained() == "patience\n"
    assert stream.dropped == 0


def test_a_line_that_was_torn_is_ended_before_the_next_one(pipe: Pipe) -> None:
    stream = pipe.stream()
    stream.write("y" * (2 * ROOM) + "\n")
    torn = pipe.drained()
    assert set(torn) == {"y"}
    stream.write("whole\n")
    assert pipe.drained() == "\n1 dropped\nwhole\n"


@pytest.mark.parametrize("end", ["reader", "own"])
def test_an_end_that_is_closed_raises_nothing(pipe: Pipe, end: str) -> None:
    stream = pipe.stream()
    os.close(pipe.read if end == "reader" else pipe.write)
    stream.write("nobody\n")
    stream.flush()
    assert stream.dropped == 1
    assert not stream.isatty()


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    fd = os.open(full, os.O_WRONLY)
    try:
        stream = LogStream(fd, str)
        log = structlog.wrap_logger(structlog.WriteLogger(stream), processors=[structlog.processors.JSONRenderer()])  # type: ignore[arg-type]
        log.info("no space left")
        assert stream.dropped == 1
    finally:
        os.close(fd)
