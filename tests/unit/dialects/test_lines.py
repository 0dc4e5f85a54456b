"""Chunks to lines."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.lines import LINE_LIMIT_BYTES, LineSplitter

MIB = 1 << 20


def feed(splitter: LineSplitter, content: bytes, sizes: list[int]) -> list[bytes]:
    lines, start = [], 0
    for size in sizes:
        lines += splitter.feed(content[start : start + size])
        start += size
    return [*lines, *splitter.feed(content[start:])]


@given(
    content=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\x85", "\u2028".encode(), b"\x00", b"x" * 9])).map(
        b"".join
    ),
    sizes=st.lists(st.integers(0, 12)),
    limit=st.integers(1, 14),
)
def test_any_cutting_of_the_bytes_gives_the_same_lines(content: bytes, sizes: list[int], limit: int) -> None:
    splitter = LineSplitter(limit)
    lines = feed(splitter, content, sizes)
    *whole, tail = content.split(b"\n")
    assert lines == [line for line in whole if len(line) <= limit]
    assert splitter.oversized == len(whole) - len(lines)
    assert splitter.unfinished is bool(tail)


def test_only_a_newline_ends_a_line() -> None:
    line = "regel\u0085een\u2028twee\u2029drie\rvier\x0bvijf".encode()
    assert LineSplitter().feed(line + b"\n") == [line]


def test_a_limit_leaves_the_next_lines_alone() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"1234567890\n12345678901\nkort\n1234") == [b"1234567890", b"kort"]
    assert splitter.feed(b"5678901 en meer") == []
    assert splitter.unfinished
    assert splitter.feed(b"\nverder\n") == [b"verder"]
    assert (splitter.oversized, splitter.unfinished) == (2, False)


@pytest.mark.parametrize("size", [65_535, 65_536, MIB + 1, 15 * MIB, 17 * MIB])
def test_long_lines_are_read_up_to_16_mib_and_memory_stays_bounded(size: int) -> None:
    # AG-08: a reader with a small limit crashes on a line that carries a whole file.
    splitter, piece = LineSplitter(), b"x" * 65_536
    tracemalloc.start()
    try:
        for start in range(0, size, len(piece)):
            assert splitter.feed(piece[: size - start]) == []
        [*long, short] = splitter.feed(b"\nklaar\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert short == b"klaar"
    assert [len(line) for line in long] == ([size] if size <= LINE_LIMIT_BYTES else [])
    assert splitter.oversized == (size > LINE_LIMIT_BYTES)
    assert peak < 3 * LINE_LIMIT_BYTES


def test_a_line_of_15_mib_in_small_pieces_costs_time_in_proportion_to_its_length() -> None:
    # AG-08. A cost that grows with the square would take minutes for pieces of 16 bytes, not seconds.
    def seconds(size: int) -> float:
        splitter, start = LineSplitter(), time.process_time()
        for _ in range(size // 16):
            splitter.feed(b"0123456789abcdef")
        assert len(splitter.feed(b"\n")[0]) == size
        return time.process_time() - start

    seconds(MIB)
    assert seconds(15 * MIB) < 15 * 3 * max(seconds(MIB), 0.01)
