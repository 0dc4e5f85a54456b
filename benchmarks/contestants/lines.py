"""An agent's output in chunks as a pipe gives them: ``ours`` to events and a view of the call, ``json`` to plain values.

Measured in processor time, as one thread that waits for nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.contestants import tell
from benchmarks.contestants.memory import growth_bytes

CHUNK_BYTES = 65_536
TIMES = 5
PASSED_BYTES = 200 * 1000 * 1000


def chunks(path: Path, least_bytes: int) -> Iterator[bytes]:
    """The file, again and again, until so much has passed."""
    passed = 0
    while passed < least_bytes:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                passed += len(chunk)
                yield chunk


def ours(path: Path, least_bytes: int) -> None:
    from protocols.agentstream import AgentStream
    from protocols.agentview import CallView
    from protocols.dialects import DIALECTS
    from protocols.stall import LoopWatch, StallLimits

    dialect = DIALECTS["claude"]
    stream, view = AgentStream(dialect.parser()), CallView()
    watch = LoopWatch(StallLimits().for_call(quiet_means_stalled=dialect.quiet_means_stalled, enrichment=True))
    for chunk in chunks(path, least_bytes):
        for event in stream.read(stream.split(chunk)):
            view.fold(event)
            watch.note(event)
    assert view.tool_calls > 0


def bare(path: Path, least_bytes: int) -> None:
    rest = b""
    for chunk in chunks(path, least_bytes):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            json.loads(line)


def main(side: str, path: Path) -> None:
    read: Callable[[Path, int], None] = {"ours": ours, "json": bare}[side]
    size = path.stat().st_size
    read(path, 1)  # imports and caches
    times = []
    for _ in range(TIMES):
        begin = time.process_time()
        read(path, size)
        times.append(time.process_time() - begin)
    growth = growth_bytes(lambda: ours(path, PASSED_BYTES)) if side == "ours" else 0
    tell(bytes_per_s=size / statistics.median(times), growth_bytes=growth)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
