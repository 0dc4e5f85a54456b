"""Where the socket of a supervisor is: both ends look here."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from supervisor.embedded.settings import default_base
from supervisor.settings.areas import Embedded
from supervisor.settings.operations import Repl

_NAME: Final = re.compile(r"repl-([0-9]+)\.sock")


@frozen
class Found:
    """A supervisor and its socket."""

    pid: int
    path: Path


def folders(repl: Repl, embedded: Embedded) -> list[Path]:
    """Where sockets may be, the first that can be had is taken: the runtime folder of the user, else below the data folder."""
    environ = {} if embedded.data_home is None else {"XDG_DATA_HOME": str(embedded.data_home)}
    data = default_base({"HOME": str(Path.home()), **environ}).parent / "run"
    return [data] if repl.runtime_dir is None else [repl.runtime_dir / "regelrecht-supervisor", data]


def candidates(repl: Repl, embedded: Embedded) -> list[Path]:
    """Paths for the socket of this process, in the order in which they are tried."""
    if repl.socket is not None:
        return [repl.socket]
    return [folder / f"repl-{os.getpid()}.sock" for folder in folders(repl, embedded)]


def running(repl: Repl, embedded: Embedded) -> list[Found]:
    """The supervisors of this user on this machine. Does not knock: each prompt serves one caller at a time."""
    return [found for folder in folders(repl, embedded) for found in _sockets(folder) if _alive(found.pid)]


def sweep(folder: Path) -> None:
    """Remove the sockets of dead processes."""
    for found in _sockets(folder):
        if not _alive(found.pid):
            with contextlib.suppress(OSError):
                found.path.unlink()


def _sockets(folder: Path) -> Iterator[Found]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        match = _NAME.fullmatch(name)
        if match:
            yield Found(int(match[1]), folder / name)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
