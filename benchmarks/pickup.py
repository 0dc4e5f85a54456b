"""From asking for a job to the first line of its body, when a worker waits for a notification."""

from __future__ import annotations

import statistics

from benchmarks.contest import figures
from benchmarks.report import Row, alternate, median_ratio
from benchmarks.stage import Stage

JOBS = 100


def run(stage: Stage) -> list[Row]:
    return [_row(stage, "procrastinate"), _row(stage, "pgqueuer")]


def _row(stage: Stage, rival: str) -> Row:
    def ours() -> float:
        return figures("pickup_ours", stage.database(), JOBS)["p50_s"]

    def theirs() -> float:
        return figures(f"pickup_{rival}", stage.database(migrated=False), JOBS)["p50_s"]

    pairs = alternate(ours, theirs, rounds=3)
    mine, peer = (statistics.median(found) for found in zip(*pairs, strict=True))
    shown = (f"{mine * 1e3:.1f} ms", f"{peer * 1e3:.1f} ms")
    return Row(f"pick-up by NOTIFY, p50 ({rival})", *shown, median_ratio(pairs), 1.0, at_least=False)
