"""The process that turns pages into Markdown: pages come on standard input, answers go to standard output.

Started and stopped by :mod:`actors.ports.extraction`. Both are MessagePack behind a length, of known types: whatever a
hostile page may make of this process, its parent reads nothing but text. Its environment holds a mark and no secret.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from typing import BinaryIO, Final

import msgspec
from attrs import frozen

from actors.ports import prctl
from protocols.webpage.extract import Extracted, PageLimits, RawPage, extract

READY: Final = b"+"
LENGTH_BYTES: Final = 4
NICENESS: Final = 5
"""Beats and claims of the supervisor go first on a small machine."""
_SPARE_S: Final = 2.0


@frozen
class Order:
    page: RawPage
    limits: PageLimits
    time_limit_s: float


def frame(message: Order | Extracted) -> bytes:
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def main() -> int:
    """Until the input ends; ``argv[2]`` is the limit of memory."""
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGHUP):  # what the terminal says is the supervisor's to answer
        signal.signal(number, signal.SIG_IGN)
    prctl.forbid_new_privileges()
    os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    importlib.import_module("trafilatura")  # before the first page, whose time is limited
    answers.write(READY)
    answers.flush()
    while (order := _next_order(sys.stdin.buffer)) is not None:
        # The parent kills us in time; but it may be gone, and a parser in its C code looks at nothing else.
        signal.setitimer(signal.ITIMER_REAL, order.time_limit_s + _SPARE_S)
        answers.write(frame(_extracted(order)))
        answers.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _next_order(stream: BinaryIO) -> Order | None:
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    return msgspec.msgpack.decode(stream.read(int.from_bytes(head, "big")), type=Order)


def _extracted(order: Order) -> Extracted:
    try:
        return extract(order.page, order.limits)
    except RecursionError:
        return Extracted(problem="the page is nested too deeply")
    except MemoryError:
        return Extracted(problem="the page needs too much memory")
