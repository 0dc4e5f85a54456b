"""Unix sockets of this machine: one that only its owner can reach, and who is on the other side of it.

Three locks, each enough by itself: the folder (0700, ours), the socket (0600), and the uid that the kernel names for the peer.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from protocols.failures import InvalidInput

MOST_PATH_BYTES: Final = 107
"""What the kernel has room for in the address of a unix socket."""
Raw = socket.socket
"""A connection of synchronous code."""
_CREDENTIALS: Final = struct.Struct("3i")
_KNOCK_S: Final = 1.0


@frozen
class Peer:
    """The process that connected, at the moment when it did."""

    pid: int
    uid: int


@contextmanager
def listening(path: Path, *, backlog: int = 4) -> Iterator[trio.SocketListener]:
    """A socket at ``path`` for the time of the block, removed at its end.

    InvalidInput: the folder is not ours alone, something that is no socket is in the way, or somebody answers there.
    OSError: the system does not want to. A stale socket of a dead process is replaced.
    """
    check(path)
    own_folder(path.parent)
    _clear(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        before = os.umask(0o177)
        try:
            raw.bind(os.fspath(path))
        finally:
            os.umask(before)
        ours = path.stat()
        try:
            raw.listen(backlog)
            yield trio.SocketListener(trio.socket.from_stdlib_socket(raw))
        finally:
            _unlink(path, ours)


def own_folder(folder: Path) -> None:
    """Make ``folder`` with mode 0700, or see that it is like that. InvalidInput: others can enter it."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise InvalidInput(f"{folder} must be a folder of this user that nobody else can enter (mode 0700)")


def peer_of(stream: trio.SocketStream) -> Peer:
    """Who connected, as the kernel says."""
    raw = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)


def hung_up(stream: trio.SocketStream) -> bool:
    """Whether the peer is gone altogether, and not only done with sending."""
    poll = select.poll()
    poll.register(stream.socket.fileno(), 0)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def _answers(path: Path) -> bool:
    """Whether somebody listens at ``path``."""
    try:
        connect(path).close()
    except OSError:
        return False
    return True


def connect(path: Path, *, limit_s: float = _KNOCK_S) -> socket.socket:
    """A connection for synchronous code; each call on it ends after ``limit_s``. OSError: nobody is there."""
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        raw.settimeout(limit_s)
        raw.connect(os.fspath(path))
    except BaseException:
        raw.close()
        raise
    return raw


def check(path: Path) -> None:
    """InvalidInput when the system has no room for such a path."""
    if len(os.fsencode(path)) > MOST_PATH_BYTES:
        raise InvalidInput(f"{path} is too long for a socket: {MOST_PATH_BYTES} bytes are the most")


def _clear(path: Path) -> None:
    """Remove what a dead process left at ``path``."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(state.st_mode):
        raise InvalidInput(f"{path} is in the way: it is no socket")
    if _answers(path):
        raise InvalidInput(f"{path} is in use: another process answers there")
    _unlink(path, state)


def _unlink(path: Path, state: os.stat_result) -> None:
    """Remove ``path`` if it still is the file of ``state``."""
    try:
        if path.lstat().st_ino == state.st_ino:
            path.unlink()
    except FileNotFoundError:
        pass
