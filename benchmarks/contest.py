"""Running contestants: each in a process of its own, so that no import of one side is a burden to the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def contestant(module: str, *args: object) -> Iterator[Callable[[object], dict[str, float]]]:
    """A contestant that stays: a function that sends it a line and gives the figures that it answers."""
    argv = [sys.executable, "-W", "ignore", "-m", f"benchmarks.contestants.{module}", *map(str, args)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send, receive = process.stdin, process.stdout

        def ask(line: object) -> dict[str, float]:
            print(line, file=send, flush=True)
            answer = receive.readline()
            if not answer:
                raise ContestantFailed(f"{module} {args} ended; its errors are above")
            found: dict[str, float] = json.loads(answer)
            return found

        yield ask
        send.close()
        process.wait(LIMIT_S)
