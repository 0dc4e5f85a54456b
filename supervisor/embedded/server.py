"""The server process: started, waited for, stopped, and never left over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from protocols.failures import DatabaseUnavailable
from supervisor.embedded.account import Account
from supervisor.embedded.binaries import Binaries
from supervisor.embedded.cluster import Cluster, environment
from supervisor.embedded.deathsignal import dies_with_us

_POLL_S = 0.002
_STOP_LIMIT_S = 10.0
_READY_LINE = 7

_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}
"""Commits still survive the death of the server, only not that of the machine."""


def start(
    cluster: Cluster,
    binaries: Binaries,
    account: Account,
    *,
    durable: bool = True,
    options: Mapping[str, str] | None = None,
    limit_s: float = 60,
) -> subprocess.Popen[bytes]:
    """Start the server on prepared data and wait until it answers. Main thread only, under the lock."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(cluster.sockets),
        "unix_socket_permissions": "0700",
        "port": "5432",
        "hba_file": str(cluster.hba),
        "ident_file": str(cluster.ident),
        "timezone": "UTC",
        "log_timezone": "UTC",
        **({} if durable else _NOT_DURABLE),
        **(options or {}),
    }
    command: list[str | Path] = [binaries.postgres, "-D", cluster.data]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with cluster.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment(binaries),
            start_new_session=True,
            preexec_fn=dies_with_us("INT"),
            **account.popen,
        )
    try:
        _await_ready(process, cluster, limit_s)
    except BaseException:
        stop(process)
        raise
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Fast shutdown; after ten seconds an immediate one, which costs a recovery. Never SIGKILL: it orphans backends."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            continue
        return
    raise DatabaseUnavailable(f"the embedded PostgreSQL (pid {process.pid}) does not stop")


def is_ready(cluster: Cluster) -> bool:
    """Whether a server runs on ``cluster`` and says that it takes connections."""
    return _ready_pid(cluster) in running_on(cluster.data)


def _ready_pid(cluster: Cluster) -> int | None:
    """The pid in the pid file, once its last line says ready."""
    try:
        lines = cluster.pidfile.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    ready = len(lines) > _READY_LINE and lines[_READY_LINE].strip() == "ready" and lines[0].isdigit()
    return int(lines[0]) if ready else None


def _await_ready(process: subprocess.Popen[bytes], cluster: Cluster, limit_s: float) -> None:
    if not _until(lambda: process.poll() is not None or _ready_pid(cluster) == process.pid, limit_s):
        raise DatabaseUnavailable(
            f"the embedded PostgreSQL was not ready after {limit_s:g} s; its log is {cluster.log}"
        )
    if process.poll() is not None:
        tail = cluster.log.read_text(encoding="utf-8", errors="replace")[-800:].strip()
        raise DatabaseUnavailable(f"the embedded PostgreSQL ended at once ({cluster.log}): {tail}")


def end_leftovers(data: Path) -> None:
    """Make sure that nothing runs on ``data`` and that no pid file is in the way. Only under the lock.

    An orphan is a process that works in ``data``, never just one whose pid is written there: a small pid of a
    container is soon somebody else's, and PostgreSQL itself would then refuse to start.
    """
    for number in (signal.SIGINT, signal.SIGQUIT):
        for pid in running_on(data):
            _send(pid, number)
        if _until(lambda: not running_on(data), _STOP_LIMIT_S):
            break
    else:
        raise DatabaseUnavailable(f"an old PostgreSQL still works in {data} and does not stop: {running_on(data)}")
    (data / "postmaster.pid").unlink(missing_ok=True)


def running_on(data: Path) -> list[int]:
    """Processes of a PostgreSQL server on ``data``: they all have it as working directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.path.samefile(entry / "cwd", data) and "postgres" in os.readlink(entry / "exe"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Poll, because nothing tells us: the loop does not run yet and the pid file has no writer we could wait for."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)  # noqa: TID251 - see above
    return True
