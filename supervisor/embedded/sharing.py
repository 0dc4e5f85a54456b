"""Who starts the server, who joins it, and when it may stop (D25).

``lock`` is held for life by the owner, ``users`` in shared mode by everybody. The kernel drops both on any death, so
there is no stale lock. The owner stops the server when it got ``users`` for itself alone.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog
from attrs import define, field

from protocols.failures import DatabaseUnavailable, InvalidInput
from supervisor.embedded import server
from supervisor.embedded.account import Account, server_account
from supervisor.embedded.binaries import Binaries, find_binaries
from supervisor.embedded.cluster import Cluster, locate, prepare
from supervisor.embedded.settings import EmbeddedSettings

_POLL_S = 0.02

_log = structlog.get_logger(__name__)


@define
class EmbeddedServer:
    """A running server. ``_launch`` is None when another process started it and we only joined."""

    url: str
    _cluster: Cluster
    _launch: Callable[[], subprocess.Popen[bytes]] | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def owner(self) -> bool:
        return self._launch is not None

    @property
    def alive(self) -> bool:
        return server.is_ready(self._cluster)

    @property
    def pid(self) -> int | None:
        """Of the server process; None for one that joined, and while it is stopped."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it (again). Owner and main thread only; blocks for about 20 ms, longer after a crash."""
        assert self._launch is not None, "only the owner starts the server"
        self.stop()
        self._process = self._launch()

    def stop(self) -> None:
        """Stop it now, whoever uses it. Does nothing for one that only joined."""
        if self._process is not None:
            server.stop(self._process)
            self._process = None


@contextmanager
def embedded_server(
    settings: EmbeddedSettings, *, must_own: bool = False, instead: str = ""
) -> Iterator[EmbeddedServer]:
    """The server of ``settings.base`` for the time of the block: joined when one runs, else started.

    ``must_own`` is for long-lived processes: they wait for a short-lived owner to end, and then fail with
    DatabaseUnavailable; ``instead`` is what their user can do then, for both messages. An owner waits at the end for those who joined, up to ``settings.leave_wait_s``; a server that
    still has users then is stopped under them. When the owner is killed, the server ends by itself.

    Call it from the main thread, outside any loop. InvalidInput: no binaries, data of another version or user.
    """
    account = server_account(settings.user)
    cluster = locate(settings.base, account)
    with _open_lock(settings.base / "lock") as lock, _open_lock(settings.base / "users") as users:
        deadline = time.monotonic() + (settings.own_wait_s if must_own else settings.start_limit_s)
        told = False
        while not _try_lock(lock, fcntl.LOCK_EX):
            if not must_own and _try_lock(users, fcntl.LOCK_SH):
                if server.is_ready(cluster):
                    yield EmbeddedServer(cluster.url, cluster)
                    return
                fcntl.flock(users, fcntl.LOCK_UN)
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(_still_owned(settings.base, must_own, instead))
            if must_own and not told:
                told = True
                _log.warning("waiting for the embedded PostgreSQL", hint=_waits(settings, instead))
            time.sleep(_POLL_S)  # noqa: TID251 - the loop does not run yet, and flock has no wait with a limit
        fcntl.flock(users, fcntl.LOCK_SH)
        binaries = find_binaries(settings.bindir, account, cluster.home)
        owned = EmbeddedServer(cluster.url, cluster, partial(_launch, settings, cluster, binaries, account))
        try:
            owned.start()
            yield owned
            _await_leave(users, settings.leave_wait_s)
        finally:
            owned.stop()


def _launch(
    settings: EmbeddedSettings, cluster: Cluster, binaries: Binaries, account: Account
) -> subprocess.Popen[bytes]:
    server.end_leftovers(cluster.data)
    prepare(cluster, binaries, account, durable=settings.durable)
    return server.start(
        cluster,
        binaries,
        account,
        durable=settings.durable,
        options=settings.options,
        limit_s=settings.start_limit_s,
    )


def _waits(settings: EmbeddedSettings, instead: str) -> str:
    return (
        f"another process runs the one in {settings.base}; waiting up to {settings.own_wait_s:g} s for it to end. One "
        f"embedded server takes one supervisor{_also(instead)}"
    )


def _still_owned(base: Path, must_own: bool, instead: str) -> str:
    if must_own:
        return (
            f"another process runs the embedded PostgreSQL in {base}, which takes one supervisor: stop that one, or share a "
            f"server with DATABASE_URL{_also(instead)}"
        )
    return f"another process owns the embedded PostgreSQL in {base}, but its server does not come up"


def _also(instead: str) -> str:
    return f"; {instead}" if instead else ""


def _await_leave(users: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not _try_lock(users, fcntl.LOCK_EX) and time.monotonic() < deadline:
        time.sleep(_POLL_S)  # noqa: TID251 - the loop has ended, and flock has no wait with a limit


@contextmanager
def _open_lock(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}: run as its user, or use another XDG_DATA_HOME") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
