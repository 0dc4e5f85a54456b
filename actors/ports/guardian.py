"""Children never outlive the supervisor, however it ends: the supervisor's side of the guardian (D17).

The guardian is a process of its own, in a session of its own, so that neither a Ctrl-C at the terminal nor a signal to
the supervisor's group reaches it. Start it before the loop, from the main thread, and close it last:

    with Guardian() as guardian:
        trio.run(...)

:func:`actors.ports.child.run_child` registers each child. Do not fork this process without exec (multiprocessing's
``fork`` method): the copy would hold the pipe open; the guardian then goes by the death of the supervisor's pid alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from attrs import define, field

import actors

FAMILY = uuid4().hex
"""The first part of the mark of all children of this process."""

CLOSE_LIMIT_S = 12.0
"""More than the guardian gives itself for its sweep."""

_NOT_HEARD = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from actors.ports.guardian_process import main; "
    "sys.exit(main(sys.argv[2:]))"
)


@define(eq=False)
class Guardian:
    """Holds the pipe. Not for several threads.

    If the guardian itself was killed, the next registration starts another one and tells it all that is registered.
    """

    _groups: set[int] = field(init=False, factory=set)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _pipe: int = field(init=False, default=-1)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def groups(self) -> frozenset[int]:
        """The process groups that would be killed now."""
        return frozenset(self._groups)

    def start(self) -> None:
        """Spawn it. Takes some milliseconds of the calling thread."""
        read_end, self._pipe = os.pipe()
        # A blocked signal stays blocked through fork and exec: the guardian is deaf from its first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_HEARD)
        try:
            os.set_blocking(self._pipe, False)
            root = str(Path(next(iter(actors.__path__))).parent)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, root, str(os.getpid()), FAMILY],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(read_end)

    def register(self, group: int) -> None:
        """From here on ``group`` dies with the supervisor."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def unregister(self, group: int) -> None:
        """Call it before the leader is reaped: until then the kernel gives its number to nobody else."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Let it go. It kills what is still registered or marked, and ends."""
        if self._process is None:
            return
        process, self._process = self._process, None
        os.close(self._pipe)
        try:
            process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._groups.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        if self._process is None:
            raise RuntimeError("the guardian is not running: call start() first")
        try:
            os.write(self._pipe, line.encode())
        except BlockingIOError:
            # Stopped or starved: 64 KiB are waiting for it. The mark in the environment still finds every child.
            return
        except BrokenPipeError:
            os.close(self._pipe)
            self._process.wait()
            self.start()
            os.write(self._pipe, "".join(f"+{group}\n" for group in self._groups).encode())
