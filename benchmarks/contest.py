"""Running contestants: each in a process of its own, so that no import of one side is a burden to the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT_S = 600


class ContestantFailed(Exception):
    """A contestant gave no figures."""


def figures(module: str, *args: object) -> dict[str, float]:
    """What ``benchmarks.contestants.<module>`` measured. ContestantFailed with the end of its stderr."""
    argv = [sys.executable, "-W", "ignore", "-m", f"benchmarks.contestants.{module}", *map(str, args)]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT_S, check=False)
    if ended.returncode != 0:
        raise ContestantFailed(f"{module} {args}: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found
