"""The command line as a user has it: a child process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from attrs import frozen

from supervisor.settings import AREAS
from supervisor.settings.reader import specs

LIMIT_S = 60
_SETTINGS = {name for cls in AREAS for _, spec in specs(cls) for name in (spec.name, *spec.fallbacks)}


@frozen
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def clean_environ(**settings: str) -> dict[str, str]:
    """Ours without any setting of the product, plus ``settings``."""
    return {**{name: value for name, value in os.environ.items() if name not in _SETTINGS}, **settings}


def run(*args: object, **settings: str) -> Done:
    """``regelrecht-supervisor args`` with these settings and no others."""
    done = subprocess.run(
        [sys.executable, "-m", "supervisor", *map(str, args)],
        env=clean_environ(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
