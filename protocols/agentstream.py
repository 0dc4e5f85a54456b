"""From the bytes of an agent's stdout to its events (D46): split, parse, count. Nothing here waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from protocols.agentevents import ONLY_OUTPUT, AgentEvent
from protocols.dialects.lineparser import LineCounts, LineParser
from protocols.lines import LINE_LIMIT_BYTES, LineSplitter

LINES_AT_ONCE: Final = 200
"""Read at most so many lines before letting others run (D46)."""


class AgentStream:
    """Reads one call. The events are the same however the bytes were cut into chunks and lines into batches.

    Partial events come down to one :class:`~protocols.agentevents.Output` per run of them, and lines without meaning to
    none at all: signs of life are the bytes themselves.
    """

    def __init__(self, parser: LineParser, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._parser = parser
        self._splitter = LineSplitter(limit_bytes)
        self._read = 0
        self._last: tuple[AgentEvent, ...] = ()

    def split(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, to be handed to :meth:`read` in order."""
        return self._splitter.feed(chunk)

    def read(self, lines: Iterable[bytes]) -> list[AgentEvent]:
        """What these lines say. The hot path: a synchronous loop, one identity test per partial event."""
        parse, last, count = self._parser.line, self._last, 0
        events: list[AgentEvent] = []
        for line in lines:
            count += 1
            found = parse(line)
            if not found or (found is last and found is ONLY_OUTPUT):
                continue
            events += found
            last = found
        self._read += count
        self._last = last
        return events

    def finish(self) -> list[AgentEvent]:
        """The stream ended. A last line without its newline is no line and is not read."""
        return list(self._parser.finish())

    @property
    def truncated(self) -> bool:
        """The stream so far ends within a line."""
        return self._splitter.unfinished

    @property
    def lines(self) -> int:
        """Lines with their newline, the unreadable and the oversized among them."""
        return self._read + self._splitter.oversized

    @property
    def oversized_lines(self) -> int:
        return self._splitter.oversized

    @property
    def counts(self) -> LineCounts:
        return self._parser.counts

    @property
    def bad_lines(self) -> int:
        """Lines that should have been read and could not: no JSON object, oversized, or an event of another shape."""
        return self.counts.bad + self.counts.malformed + self._splitter.oversized

    @property
    def stamp_ms(self) -> int | None:
        """The last time of day that the stream gave, in unix milliseconds; None where it gives none."""
        return self._parser.stamp_ms
