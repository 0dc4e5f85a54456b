"""The command line as a user has it: a child process, its output, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
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
    """Ours without any setting of the product, plus ``settings``; nothing is kept in the caches of this machine."""
    ours = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    return {**ours, "HARVEST_CACHE_DIR": "off", **settings}


def run(*args: object, **settings: str) -> Done:
    """``regelrecht-supervisor args`` with these settings and no others. One that hangs fails the test with its stacks."""
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor", *map(str, args)],
        env=clean_environ(**settings, PYTHONFAULTHANDLER="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            out, err = process.communicate()
            pytest.fail(f"{args} still ran after {LIMIT_S} s\n{out}\n{err}")
    return Done(process.returncode, out, err)
