"""stdout and stderr of a command: what their encoding lacks is replaced, and one that takes no more is told by name.

A full disk behind ``> file``, a terminal that was closed, a reader that has gone (``| head``) are no errors of the program.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


class OutputFailed(Exception):
    """Nothing can be written to ``fd`` any more. No OSError, which in the middle of a command would mean something else."""

    def __init__(self, fd: int, why: OSError) -> None:
        super().__init__(f"{'stdout' if fd == 1 else 'stderr'} cannot be written: {why.strerror}")
        self.fd = fd
        self.reader_gone = why.errno == errno.EPIPE

    def give_up(self) -> None:
        """From now on nothing is written there; what is still kept in buffers neither, at the end of the process."""
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self.fd)
        os.close(nowhere)


class _Output(io.FileIO):
    """The lowest layer, below everybody who prints: click, rich, a module that writes bytes."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None: a descriptor that would block
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(self.fileno(), error) from None


def take_over() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that raise ``OutputFailed``. One that is closed stays so."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper and stream.fileno() == fd:  # else somebody's own, as in tests
            stream.flush()
            at_once = fd == 2 or stream.line_buffering or stream.write_through
            raw = _Output(fd, "wb", closefd=False)
            setattr(
                sys,
                name,
                io.TextIOWrapper(
                    io.BufferedWriter(raw),
                    encoding=stream.encoding,
                    errors="replace" if fd == 1 else "backslashreplace",
                    line_buffering=at_once,
                ),
            )


def flush() -> None:
    """What is still kept in buffers. OutputFailed, as when it is printed."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
