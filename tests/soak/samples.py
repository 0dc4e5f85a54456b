"""What is measured of the watched supervisor, and when it counts as flat."""

from __future__ import annotations

import os
import statistics
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from attrs import frozen

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TASKS = "regelrecht_supervisor_tasks "


@frozen
class Sample:
    """``at_s`` from the start. ``tasks`` None: the loop did not answer in that moment."""

    at_s: float
    memory_mib: float
    descriptors: int
    threads: int
    connections: int
    tasks: int | None


def sample(pid: int, metrics_url: str, connections: int, at_s: float) -> Sample:
    """Blocks for up to two seconds. FileNotFoundError or ProcessLookupError when the process is gone."""
    folder = Path(f"/proc/{pid}")
    return Sample(
        at_s=at_s,
        memory_mib=int((folder / "statm").read_text().split()[1]) * _PAGE_BYTES / 2**20,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=len(list((folder / "task").iterdir())),
        connections=connections,
        tasks=_tasks(metrics_url),
    )


def _tasks(url: str) -> int | None:
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return None
    return next((int(float(line.removeprefix(_TASKS))) for line in lines if line.startswith(_TASKS)), None)


@frozen
class Quantity:
    """``room``: so much more in the last quarter than in the second is no growth; ``share`` of the former likewise."""

    unit: str
    read: Callable[[Sample], float | None]
    room: float
    share: float = 0.0


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "memory": Quantity("MiB", lambda one: one.memory_mib, room=8, share=0.05),
        "tasks": Quantity("", lambda one: one.tasks, room=6),
        "descriptors": Quantity("", lambda one: one.descriptors, room=6),
        "threads": Quantity("", lambda one: one.threads, room=4),
        "connections": Quantity("", lambda one: one.connections, room=2),
    }
)


@frozen
class Trend:
    """Medians: jobs come and go, so single values say little. The first quarter is the warm-up."""

    name: str
    second_quarter: float
    last_quarter: float
    highest: float
    flat: bool


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """ValueError for fewer than eight samples."""
    if len(samples) < 8:
        raise ValueError(f"{len(samples)} samples show no trend")
    quarter = len(samples) // 4
    found = []
    for name, quantity in QUANTITIES.items():
        early = _values(quantity, samples[quarter : 2 * quarter])
        late = _values(quantity, samples[-quarter:])
        before, after = statistics.median(early), statistics.median(late)
        flat = after - before <= max(quantity.room, quantity.share * before)
        found.append(Trend(name, before, after, max(_values(quantity, samples)), flat))
    return found


def _values(quantity: Quantity, samples: Sequence[Sample]) -> list[float]:
    return [value for one in samples if (value := quantity.read(one)) is not None]
