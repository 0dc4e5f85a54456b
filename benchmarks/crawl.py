"""A crawl of local pages against the larger of its two unavoidable costs, and its memory over ten thousand pages."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.report import Row, alternate, median_ratio

PAGES = 1_000
MANY = 10_000
_CONTESTANTS = "benchmarks.contestants"


@contextmanager
def _site() -> Iterator[str]:
    """The port of a site that serves until the end of the block."""
    command = [sys.executable, "-m", f"{_CONTESTANTS}.crawl_site"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()  # leaving closes its input, which ends it


def _figures(name: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", f"{_CONTESTANTS}.{name}", *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])  # logs stand before it
    return figures


def run() -> list[Row]:
    """Against the larger of two costs: fetching and extracting overlap, so the slower of them is the floor."""

    def ours() -> float:
        return _figures("crawl_ours", port, "pages", PAGES)["took_s"]

    def floor() -> float:
        loop = _figures("crawl_loop", port, "pages", PAGES)["took_s"]
        return max(loop, _figures("crawl_pool", PAGES)["took_s"])

    with _site() as port:
        pairs = alternate(ours, floor, rounds=3)
        many = _figures("crawl_ours", port, "texts", MANY)
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    early, most = many["early_bytes"], many["most_bytes"]
    return [
        Row(
            "crawl of 1,000 pages (httpx loop, pool)",
            f"{mine:.1f} s",
            f"{theirs:.1f} s",
            median_ratio(pairs),
            1.3,
            at_least=False,
        ),
        Row(
            "  memory after 10,000 pages (1,000)",
            f"{most / 1e6:.0f} MB",
            f"{early / 1e6:.0f} MB",
            most / early,
            1.1,
            at_least=False,
        ),
    ]
