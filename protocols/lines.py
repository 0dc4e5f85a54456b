"""Chunks of bytes to lines, whatever the chunks are (D46, AG-08).

Only ``b"\\n"`` ends a line: agent CLIs write U+0085, U+2028 and U+2029 raw inside their lines, so ``str.splitlines`` cuts
them in pieces. The cost is linear in the bytes, also for a line that arrives byte by byte.
"""

from __future__ import annotations

from typing import Final

LINE_LIMIT_BYTES: Final = 16 << 20
"""The longest line that is kept, its newline not counted."""


class LineSplitter:
    """Feed it chunks, get whole lines back. How the bytes were cut into chunks makes no difference.

    A line over the limit is skipped up to its newline and counted in ``oversized``; the lines after it are read as usual.
    """

    def __init__(self, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._partial = bytearray()
        self._skipping = False
        self.oversized = 0
        """Lines that ended and were too long to keep."""

    @property
    def unfinished(self) -> bool:
        """Bytes came after the last newline. At the end of a stream: its last line was cut off."""
        return self._skipping or bool(self._partial)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without their newline; empty ones included."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._keep(tail)
            return []
        lines = head.split(b"\n")
        if self._skipping or self._partial:
            self._complete(lines)
        if len(chunk) > self._limit:
            whole = [line for line in lines if len(line) <= self._limit]
            self.oversized += len(lines) - len(whole)
            lines = whole
        self._keep(tail)
        return lines

    def _complete(self, lines: list[bytes]) -> None:
        """Put what was kept in front of the first line, or drop that line when it is the end of one too long."""
        if self._skipping or len(self._partial) + len(lines[0]) > self._limit:
            self.oversized += 1
            del lines[0]
        else:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
        self._partial = bytearray()
        self._skipping = False

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._partial) + len(piece) > self._limit:
            self._partial = bytearray()
            self._skipping = True
        else:
            self._partial += piece
