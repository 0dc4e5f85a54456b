"""The guardian itself: a tiny process that outlives a killed supervisor by a moment and kills what is left (D17).

Started by :mod:`actors.ports.guardian` in a bare interpreter, with the read end of a pipe as standard input. It reads
``+GROUP`` and ``-GROUP`` lines. When the pipe ends, or the supervisor's process does (someone may have inherited the
other end), every process of a registered group or session, and every process that bears the family's mark, is killed.
"""

from __future__ import annotations

import os
import select
import signal
import time

from actors.ports import proctable

SWEEP_LIMIT_S = 10.0
"""Processes that a SIGKILL does not end by then hang in the kernel; nobody can do more."""


def main(argv: list[str]) -> int:
    """``argv``: the pid of the supervisor and the family."""
    supervisor, family = int(argv[0]), argv[1]
    groups = _keep_watch(supervisor)
    _kill_all(groups, f"{proctable.MARK_VARIABLE}={family}.".encode())
    return 0


def _keep_watch(supervisor: int) -> set[int]:
    """Follow the registrations until the supervisor is gone; returns the groups that are still registered."""
    groups: set[int] = set()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    try:
        supervisor_fd = os.pidfd_open(supervisor)
    except ProcessLookupError:
        return groups  # gone before we looked; the mark finds its children
    poll.register(supervisor_fd, select.POLLIN)
    buffered = b""
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if 0 in ready:
            chunk = os.read(0, 65536)
            if not chunk:
                return groups
            *lines, buffered = (buffered + chunk).split(b"\n")
            for line in lines:
                _note(groups, line)
        elif supervisor_fd in ready:
            return groups


def _note(groups: set[int], line: bytes) -> None:
    group = int(line[1:])
    if line.startswith(b"+"):
        groups.add(group)
    else:
        groups.discard(group)


def _kill_all(groups: set[int], mark: bytes) -> None:
    deadline = time.monotonic() + SWEEP_LIMIT_S
    while time.monotonic() < deadline:
        left = [row.pid for row in proctable.family(groups, mark, since=0, but={os.getpid()}) if row.alive]
        if not left:
            return
        for group in groups:
            proctable.send_group(group, signal.SIGKILL)
        proctable.send(left, signal.SIGKILL)
        time.sleep(0.005)  # noqa: TID251 - no loop here, and nothing to wait on: they are not our children
