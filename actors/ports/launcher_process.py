"""The launcher itself: a small process between the supervisor and one agent CLI (D47).

Started by :mod:`actors.ports.launcher` in a bare interpreter, as leader of a session of its own. One socket connects it
to the supervisor: it reads the order from it (one line of JSON), and it takes its end for the death of the supervisor.

It confines the CLI and starts it, passes one SIGTERM on, and adopts whatever the CLI's children leave behind. When the
CLI ends, or ``grace_s`` after that SIGTERM, or when the supervisor is gone, it kills its descendants until none is left,
in whatever session, group and environment they are; then it says how the CLI ended, and ends. Both CLIs leave shells
behind when they are killed, in groups of their own (AG-07).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from actors.ports import landlock, prctl, proctable, seccomp

SWEEP_LIMIT_S = 5.0
"""Processes that a SIGKILL does not end by then hang in the kernel; the supervisor hears their pids."""

_PASSED_BY = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_FOR_THE_CLI = (*_PASSED_BY, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)


def main(argv: list[str]) -> int:
    """``argv``: the number of the socket's descriptor."""
    control = int(argv[0])
    os.set_inheritable(control, False)
    prctl.make_undumpable()  # the order holds the tokens of the CLI
    prctl.become_subreaper()
    prctl.forbid_new_privileges()
    wakeup = _listen()
    order = _order(control, wakeup)
    if order is None:
        return 0
    try:
        cli = _start(order)
    except OSError as error:
        _tell(control, failed={"errno": error.errno, "text": error.strerror, "what": error.filename})
        return 1
    _tell(control, started=os.getpid(), landlock=landlock.version(), seccomp=seccomp.offered())
    _let_go_of_the_streams()
    status = _follow(cli, control, wakeup, order["grace_s"])
    status, left = _end_descendants(cli, status)
    _tell(control, exit=None if status is None else os.waitstatus_to_exitcode(status), left=left)
    return 0


def _listen() -> int:
    """Ignore what a terminal sends; from here on SIGTERM and SIGCHLD can be read from the descriptor returned."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for signum in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(signum, lambda *_: None)
    for signum in _PASSED_BY:
        signal.signal(signum, signal.SIG_IGN)
    return read_end


def _order(control: int, wakeup: int) -> dict[str, Any] | None:
    """None: the supervisor died, or changed its mind, before it had said everything."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    line = bytearray()
    while not line.endswith(b"\n"):
        ready = {fd for fd, _ in poll.poll()}
        if wakeup in ready and signal.SIGTERM in os.read(wakeup, 65536):
            return None
        if control in ready:
            chunk = os.read(control, 65536)
            if not chunk:
                return None
            line += chunk
    order: dict[str, Any] = json.loads(line)
    return order


def _start(order: dict[str, Any]) -> int:
    """Fork and execute the CLI; returns its pid. OSError when it cannot be confined or executed."""
    env = {**order["env"], proctable.MARK_VARIABLE: os.environ[proctable.MARK_VARIABLE]}
    rules = -1
    if landlock.version():
        rules = landlock.ruleset(order["writable"], order["readable"], order["devices"])
    launcher = os.getpid()
    read_end, write_end = os.pipe()
    cli = os.fork()
    if cli == 0:
        _become_the_cli(order["argv"], env, order["cwd"], rules, launcher, write_end)
    os.close(write_end)
    with open(read_end, "rb") as trouble:
        fault = trouble.read()  # empty: the descriptor was closed by the execution
    if fault:
        os.waitpid(cli, 0)  # noqa: TID251 - our own child, by pid, and no loop that waits for it
        raise OSError(*json.loads(fault))
    return cli


def _become_the_cli(
    argv: list[str], env: dict[str, str], cwd: str, rules: int, launcher: int, trouble: int
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        for signum in _FOR_THE_CLI:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setpgid(0, 0)  # a `kill 0` of the CLI shall not hit us
        prctl.die_with_parent(launcher)
        prctl.drop_capabilities()
        os.chdir(cwd)
        if rules >= 0:
            landlock.restrict_self(rules)
        if seccomp.offered():
            seccomp.restrict_self()
        os.execve(argv[0], argv, env)
    except OSError as error:
        os.write(trouble, json.dumps([error.errno, error.strerror, error.filename]).encode())
    finally:
        os._exit(127)


def _let_go_of_the_streams() -> None:
    """The pipes belong to the CLI alone: they end when it does."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _follow(cli: int, control: int, wakeup: int, grace_s: float) -> int | None:
    """Until the CLI ends (its wait status), or has to be killed (None)."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    kill_at: float | None = None
    while True:
        left_ms = None if kill_at is None else max(0.0, kill_at - time.monotonic()) * 1000
        ready = {fd for fd, _ in poll.poll(left_ms)}
        heard = os.read(wakeup, 65536) if wakeup in ready else b""
        status, _ = _reap(cli)
        if status is not None:
            return status
        if signal.SIGTERM in heard and kill_at is None:
            os.kill(cli, signal.SIGTERM)
            kill_at = time.monotonic() + grace_s
        if control in ready and _is_gone(control):
            return None
        if kill_at is not None and time.monotonic() >= kill_at:
            return None


def _is_gone(control: int) -> bool:
    try:
        return not os.read(control, 65536)
    except OSError:
        return True


def _reap(cli: int) -> tuple[int | None, bool]:
    """Take the exit status of every child that ended: that of the CLI if it is among them; and whether any child lives.

    Whoever descends from us has us as its parent once those between are dead, so "no child" is "no descendant", said
    by the kernel in one breath; a walk through /proc can miss who forks and dies meanwhile.
    """
    found = None
    while True:
        try:
            # Any child: we are their subreaper, and nothing else in this process waits for one.
            pid, status = os.waitpid(-1, os.WNOHANG)  # noqa: TID251 - see above
        except ChildProcessError:
            return found, False
        if pid == 0:
            return found, True
        if pid == cli:
            found = status


def _end_descendants(cli: int, status: int | None) -> tuple[int | None, list[int]]:
    """Kill until none is left; the CLI's wait status (None: it cannot be killed) and the pids that survive."""
    us = proctable.row_of(os.getpid())
    assert us is not None
    mark = f"{proctable.MARK_VARIABLE}={os.environ[proctable.MARK_VARIABLE]}".encode()
    deadline = time.monotonic() + SWEEP_LIMIT_S
    while True:
        family = proctable.family({us.pid}, mark, since=us.started)
        left = [row.pid for row in family if row.alive and row.pid != us.pid]
        proctable.send(left, signal.SIGKILL)
        reaped, any_lives = _reap(cli)
        status = status if reaped is None else reaped
        if not any_lives or time.monotonic() >= deadline:
            return status, left if any_lives else []
        time.sleep(0.001)  # noqa: TID251 - no loop here, and not all of them are our children yet


def _tell(control: int, **report: Any) -> None:
    with suppress(OSError):  # the supervisor is gone: nobody wants to know
        os.write(control, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
