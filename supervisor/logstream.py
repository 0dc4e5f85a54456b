"""Where log lines go when nobody can be relied on to read them: a pipe whose reader stopped, a full disk, a closed end.

Work must not stop, nor fail, for want of somebody who reads about it: a loop that waits to write a line beats no lease
and hears no SIGTERM, and the drain would have no bound (D12). So a line that cannot be written soon is dropped, and counted.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Final

from attrs import define, field

PATIENCE_S: Final = 0.5
"""How long a reader may keep us waiting, once; after that nothing is waited for until there is room again."""


@define(eq=False)
class LogStream:
    """The few methods of a text file that loggers use, over a descriptor. None of them raises.

    ``note`` makes the line that tells how many were dropped, written when lines get through again.
    """

    fd: int
    note: Callable[[int], str]
    patience_s: float = PATIENCE_S
    dropped: int = field(init=False, default=0)
    """Lines that were lost since the last one that got through."""
    _torn: bool = field(init=False, default=False)
    """The last line got through in part."""
    _lock: threading.Lock = field(init=False, factory=threading.Lock)
    _room: select.poll = field(init=False, factory=select.poll)

    def __attrs_post_init__(self) -> None:
        self._room.register(self.fd, select.POLLOUT)

    def write(self, text: str) -> int:
        """One or more whole lines."""
        with self._lock:
            before = ("\n" if self._torn else "") + (f"{self.note(self.dropped)}\n" if self.dropped else "")
            if self._send(f"{before}{text}".encode(errors="backslashreplace")):
                self.dropped = 0
            else:
                self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        try:
            return os.isatty(self.fd)
        except OSError:
            return False

    def _send(self, data: bytes) -> bool:
        """In pieces that a pipe with any room takes as a whole, so that none of them waits."""
        left = memoryview(data)
        until = time.monotonic() + (0 if self.dropped else self.patience_s)
        while left:
            try:
                if not self._room.poll(max(0.0, until - time.monotonic()) * 1000):
                    return False
                done = os.write(self.fd, left[: select.PIPE_BUF])
            except OSError:
                return False
            left = left[done:]
            self._torn = bool(left)
        return True
