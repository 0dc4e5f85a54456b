"""Looking at the process table from a test: who is alive, and waiting, within a limit, until somebody is not."""

from __future__ import annotations

import fcntl
import os
import termios
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import trio

from actors.ports import proctable


def alive(pids: Iterable[int]) -> set[int]:
    """Those that run; a zombie does not."""
    return {pid for pid in pids if (row := proctable.row_of(pid)) is not None and row.alive}


def zombies_of(parent: int) -> set[int]:
    return {row.pid for row in proctable.rows() if row.parent == parent and row.state == "Z"}


def marked() -> set[int]:
    """Whoever runs and bears the mark of a child of a supervisor, except what belongs to a test process beside this one."""
    mark = f"{proctable.MARK_VARIABLE}=".encode()
    table = list(proctable.rows())
    parents = {row.pid: row.parent for row in table}
    return {
        row.pid
        for row in table
        if row.alive
        and row.pid != os.getpid()
        and proctable.bears(row.pid, mark)
        and not _is_below_a_sibling(row.pid, parents)
    }


def _is_below_a_sibling(pid: int, parents: Mapping[int, int]) -> bool:
    """Whether ``pid`` descends from another child of our own parent: tests run side by side in such processes."""
    while pid in parents and pid != os.getpid():
        if parents[pid] == os.getppid():
            return True
        pid = parents[pid]
    return False


def pids_in(folder: Path) -> set[int]:
    """The pids that scripts left as file names (``: > "$PIDS/$$"``)."""
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}


async def until(condition: Callable[[], bool], *, limit_s: float = 10.0) -> None:
    """Look again every few milliseconds: the process table and the disk announce nothing."""
    with trio.fail_after(limit_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await trio.sleep(0.005)


def own_terminal() -> None:
    """For ``preexec_fn``, in a new session: its standard input becomes its terminal, so closing the other end hangs it up."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
