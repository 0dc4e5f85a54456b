"""An agent's output, from bytes to a view of the call: against ``json.loads`` on the same lines, and its memory."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.bigstream import big_stream
from benchmarks.contest import figures
from benchmarks.contestants.lines import PASSED_BYTES
from benchmarks.report import Row, alternate, median_ratio

STREAM_BYTES = 16_000_000


def run() -> list[Row]:
    growth: list[float] = []
    with tempfile.TemporaryDirectory(prefix="regelrecht-bench-") as folder:
        path = Path(folder) / "stream.jsonl"
        path.write_bytes(big_stream(STREAM_BYTES))

        def ours() -> float:
            found = figures("lines", "ours", path)
            growth.append(found["growth_bytes"])
            return found["bytes_per_s"]

        pairs = alternate(ours, lambda: figures("lines", "json", path)["bytes_per_s"], rounds=7)
    mine, peer = (statistics.median(found) for found in zip(*pairs, strict=True))
    speeds = (f"{mine / 1e6:.0f} MB/s", f"{peer / 1e6:.0f} MB/s")
    most = max(growth)
    return [
        Row("agent output to events (json.loads)", *speeds, median_ratio(pairs), 3, at_least=True),
        Row(
            "  memory while 200 MB pass",
            f"{most / 1e6:.2f} MB",
            f"{PASSED_BYTES / 1e6:.0f} MB",
            most / PASSED_BYTES,
            0.01,
            at_least=False,
        ),
    ]
