"""The process table, read from ``/proc``: who is alive, in which session, and who bears our mark.

Only the standard library, and little of it: the guardian (:mod:`actors.ports.guardian_process`) imports this in a bare
interpreter. Nothing here waits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

MARK_VARIABLE = "SUPERVISOR_CHILD"
"""Every child gets ``SUPERVISOR_CHILD=<family>.<nonce>``; what it starts inherits that, in whatever session."""


class Row(NamedTuple):
    pid: int
    state: str
    """One letter; ``Z`` is a zombie: dead, only its exit status is left."""
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot. No descendant is older than its ancestor."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"


def rows(first: int = 0) -> Iterator[Row]:
    """One snapshot of the processes from number ``first`` on. Those that end while it is read are left out.

    Each costs about 50 us, so on a machine with many processes a whole snapshot holds the loop for long.
    """
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) >= first:
            row = row_of(int(name))
            if row is not None:
                yield row


def row_of(pid: int) -> Row | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the command in parentheses and may hold anything, so count from the last parenthesis.
    fields = text[text.rindex(b")") + 2 :].split()
    return Row(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def bears(pid: int, mark: bytes) -> bool:
    """Whether the environment that ``pid`` was started with has a variable beginning with ``mark``."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return False  # ended, a zombie, or another user's: not started by us
    return environment.startswith(mark) or b"\0" + mark in environment


def is_below(pid: int, ancestors: Container[int], mark: bytes) -> bool | None:
    """Whether ``pid`` is one of ``ancestors``, or marked, or descends from such a process, in whatever session.

    None: it has ended, so nobody can tell. Who has lost its parent descends from whoever adopted it.
    """
    child = at = pid
    while at not in ancestors and not bears(at, mark):
        row = row_of(at)
        if row is not None:
            child, at = at, row.parent
        elif (orphan := row_of(child)) is None:
            return None
        elif orphan.parent == at:
            return False  # another user's that /proc hides from us, or 0: there is no parent
        else:
            at = orphan.parent
    return True


def last_number() -> int:
    """The number that was last given to a process. Numbers are given upwards, and begin again at the end."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[-1])


def family(sessions: Container[int], mark: bytes, *, since: int, first: int = 0, but: Container[int] = ()) -> list[Row]:
    """All processes in one of ``sessions`` (or groups), or marked, or below such a one; zombies included.

    ``since``: nothing that started earlier is looked at; ``first``: nor what has a lower number. ``but``: pids that never
    belong.
    """
    young = [row for row in rows(first) if row.started >= since and row.pid not in but]
    found = {
        row.pid: row
        for row in young
        if row.session in sessions or row.group in sessions or (row.alive and bears(row.pid, mark))
    }
    grown = True
    while grown:
        below = [row for row in young if row.parent in found and row.pid not in found]
        found.update((row.pid, row) for row in below)
        grown = bool(below)
    return list(found.values())


def send(pids: Iterable[int], signum: signal.Signals) -> None:
    """Signal each; those that are gone, or are not ours to signal, are passed over."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except (ProcessLookupError, PermissionError):
            continue


def send_group(group: int, signum: signal.Signals) -> None:
    """Signal a whole process group at once, so that no member can fork between two signals."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return
