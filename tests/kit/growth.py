"""Does a process grow? Figures of a running supervisor over time, and a judgement that is not fooled by a short peak."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict, frozen


@frozen
class Vitals:
    """One moment of a process. ``tasks`` of its loop, where somebody knows them (the gauge ``tasks`` of /metrics)."""

    files: int
    threads: int
    rss_bytes: int
    children: int
    tasks: int = 0


def vitals(pid: int, *, tasks: int = 0, files: int | None = None) -> Vitals:
    """What /proc tells of ``pid``. ProcessLookupError or FileNotFoundError: it has ended.

    ``files``: where the process tells itself (the gauge ``open_files`` of /metrics); only root may count those of another.
    """
    proc = Path("/proc") / str(pid)
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    children = [(proc / "task" / task / "children").read_text().split() for task in os.listdir(proc / "task")]
    return Vitals(
        files=len(os.listdir(proc / "fd")) if files is None else files,
        threads=int(status["Threads"]),
        rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
        children=sum(map(len, children)),
        tasks=tasks,
    )


def growth(samples: Sequence[Vitals]) -> dict[str, float]:
    """By figure: the median of the last third over that of the second. 1.0 is flat; the first third is warming up.

    ValueError: fewer than nine samples say nothing.
    """
    if len(samples) < 9:
        raise ValueError(f"{len(samples)} samples are too few to tell growth")
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    return {
        name: statistics.median(getattr(one, name) for one in after)
        / max(1.0, statistics.median(getattr(one, name) for one in before))
        for name in asdict(samples[0])
    }


def grown(samples: Sequence[Vitals], *, allowed: float = 1.15) -> dict[str, float]:
    """The figures that grew by more than ``allowed`` (and by more than two, for those that are small numbers)."""
    last = samples[2 * len(samples) // 3 :]
    return {
        name: ratio
        for name, ratio in growth(samples).items()
        if ratio > allowed and statistics.median(getattr(one, name) for one in last) * (1 - 1 / ratio) > 2
    }
