"""Processes that became ours because their parent died (PR-03): killed families leave zombies, and zombies fill the table.

With the subreaper flag, orphaned grandchildren come to us instead of process 1. Whoever starts a child in this process
says so with :func:`own`, because an exit status that is taken away from its waiter cannot be given back (D17: never
``waitpid(-1)``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from attrs import define, field

from actors.ports import prctl, proctable

_owned: set[int] = set()


def become_subreaper(enable: bool = True) -> None:
    """Adopt orphaned descendants from now on. Once, at the start of the program; the flag is not inherited."""
    prctl.become_subreaper(enable)


def own(pid: int) -> None:
    """Somebody in this process waits for ``pid``: it is never reaped from here."""
    _owned.add(pid)


def disown(pid: int) -> None:
    """The exit status was taken."""
    _owned.discard(pid)


def started_here(pid: int) -> bool:
    """Whether ``pid`` descends from this process, or bears a supervisor's mark, or has ended already so that none can tell.

    Number 0 is how the kernel names who is outside our pid namespace, where no descendant of ours can be.
    """
    us = os.getpid()
    if pid in {0, us}:
        return False
    return proctable.is_below(pid, {us}, f"{proctable.MARK_VARIABLE}=".encode()) is not False


def reap(rows: Iterable[proctable.Row]) -> list[int]:
    """Take the exit status of those zombies among ``rows`` that are our children and that nobody here waits for."""
    us = os.getpid()
    reaped = []
    for row in rows:
        if row.state == "Z" and row.parent == us and row.pid not in _owned:
            try:
                pid, _ = os.waitpid(row.pid, os.WNOHANG)  # noqa: TID251 - by pid, and not one that somebody waits for
            except ChildProcessError:
                continue
            reaped += [pid] if pid else []
    return reaped


@define
class AdoptedReaper:
    """For a slow tick: reaps zombies that no family sweep could know (new session, cleared environment).

    A zombie is taken only when it was one at the tick before as well, so that a starter that forgot to call
    :func:`own` has had time to wait for it.
    """

    _seen: frozenset[int] = field(init=False, default=frozenset())

    def tick(self) -> list[int]:
        """Returns the pids that were reaped."""
        us = os.getpid()
        zombies = [row for row in proctable.rows() if row.parent == us and row.state == "Z"]
        reaped = reap(row for row in zombies if row.pid in self._seen)
        self._seen = frozenset(row.pid for row in zombies) - frozenset(reaped)
        return reaped
