"""The queue between the reader of an agent's output and its parser: it takes everything, at once, in bounded memory.

Both CLIs drop their last lines when their reader is slow, and still exit with 0. So the reader does nothing but
:meth:`Spool.put`; what the parser cannot follow goes to a file without a name once 8 MiB are waiting (D46).
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import trio
from attrs import define, field

MEMORY_LIMIT_BYTES = 8 << 20
CHUNK_BYTES = 65536


@define(eq=False)
class Spool:
    """Bytes in, the same bytes out, in order. One writer, which never waits, and one reader.

    The spill file lies in ``folder`` and is unlinked at birth: whatever happens, nothing is left of it.
    """

    folder: Path
    memory_limit_bytes: int = MEMORY_LIMIT_BYTES
    on_bytes: Callable[[], None] | None = None
    """Called for each chunk that comes in, before anybody has read it."""
    taken_bytes: int = field(init=False, default=0)
    """Everything that was put, ever."""
    spilled_bytes: int = field(init=False, default=0)
    """What went over the disk, ever."""
    _waiting: deque[bytes] = field(init=False, factory=deque)
    _waiting_bytes: int = field(init=False, default=0)
    _file: int = field(init=False, default=-1)
    _read_at: int = field(init=False, default=0)
    _write_at: int = field(init=False, default=0)
    _closed: bool = field(init=False, default=False)
    _news: trio.Event = field(init=False, factory=trio.Event)

    def put(self, chunk: bytes) -> None:
        """Never waits for the parser. OSError when the disk is full."""
        self.taken_bytes += len(chunk)
        if self.on_bytes is not None:
            self.on_bytes()
        if self._write_at == 0 and self._waiting_bytes + len(chunk) <= self.memory_limit_bytes:
            self._waiting.append(chunk)
            self._waiting_bytes += len(chunk)
        else:
            self._spill(chunk)
        self._news.set()

    def close(self) -> None:
        """Nothing more will come. What waits can still be read."""
        self._closed = True
        self._news.set()

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        while True:
            await trio.lowlevel.checkpoint()
            if chunk := self._take():
                return chunk
            if self._closed:
                return b""
            self._news = trio.Event()
            await self._news.wait()

    def discard(self) -> None:
        """Forget what waits and free the file."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._read_at = self._write_at = 0

    def _take(self) -> bytes:
        if self._waiting:
            chunk = self._waiting.popleft()
            self._waiting_bytes -= len(chunk)
            return chunk
        if self._write_at == 0:
            return b""
        chunk = os.pread(self._file, CHUNK_BYTES, self._read_at)
        self._read_at += len(chunk)
        if self._read_at == self._write_at:  # caught up: the next bytes go through memory again
            os.ftruncate(self._file, 0)
            self._read_at = self._write_at = 0
        return chunk

    def _spill(self, chunk: bytes) -> None:
        if self._file < 0:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                self._file = os.dup(file.fileno())
        rest = memoryview(chunk)
        while rest:
            written = os.pwrite(self._file, rest, self._write_at)
            self._write_at += written
            self.spilled_bytes += written
            rest = rest[written:]
