"""Working off a full queue of jobs that do nothing: one by one against procrastinate, in batches against pgqueuer."""

from __future__ import annotations

import statistics

from benchmarks.claims import fill
from benchmarks.contest import figures
from benchmarks.report import Row, alternate, median_ratio
from benchmarks.stage import Stage, on

SINGLES = 2000
BATCHED = 20_000


def run(stage: Stage) -> list[Row]:
    return [
        _row(stage, "single", SINGLES, "drain_procrastinate", "single-claim drain (procrastinate)", 3.0),
        _row(stage, "batch", BATCHED, "drain_pgqueuer", "batch drain, 50 at once (pgqueuer)", 1.5),
    ]


def _row(stage: Stage, side: str, jobs: int, rival: str, name: str, aim: float) -> Row:
    url = stage.database()

    def ours() -> float:
        on(url, fill, jobs)
        return figures("drain_ours", side, url, jobs)["jobs_per_s"]

    def theirs() -> float:
        return figures(rival, stage.database(migrated=False), jobs)["jobs_per_s"]

    pairs = alternate(ours, theirs, rounds=5)
    mine, peer = (statistics.median(found) for found in zip(*pairs, strict=True))
    return Row(name, f"{mine:.0f}/s", f"{peer:.0f}/s", median_ratio(pairs), aim, at_least=True)
