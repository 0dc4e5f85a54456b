"""An agent CLI that does what a test tells it to: plays lines, forks, allocates, is deaf, tries what it must not.

Run by :func:`fake_agent`'s command line in a bare interpreter; only the standard library. Arguments it does not know
are the real CLI's and are ignored.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn


def fake_agent(*options: str) -> tuple[str, ...]:
    """The command line of a fake agent with ``options``."""
    return (os.path.realpath(sys.executable), "-I", "-S", str(Path(__file__)), *options)


def fake_cli(folder: Path, *options: str) -> Path:
    """An executable file that is a fake agent with ``options``, whatever arguments it is given."""
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in fake_agent(*options))
    path = folder / "fake-cli"
    path.write_text(f'#!/bin/sh\nexec {words} -- "$@"\n')
    path.chmod(0o755)
    return path


def main() -> int:
    given, _ = _parser().parse_known_args()
    if given.deaf:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
    if given.last_words:
        signal.signal(signal.SIGTERM, lambda *_: _leave(given.last_words))
    _leave_pid(given.pids)
    for _ in range(given.fork):
        _fork(given)
    if given.stdin:
        _say(json.dumps({"type": "stdin", "bytes": len(sys.stdin.buffer.read())}))
    if given.show:
        _say(json.dumps({"type": "show", "env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd()}))
    for path in given.try_read:
        _say(json.dumps({"type": "read", "path": path, "answer": _attempt(lambda path=path: Path(path).read_bytes())}))
    for path in given.try_write:
        _say(
            json.dumps(
                {"type": "write", "path": path, "answer": _attempt(lambda path=path: Path(path).write_text("x"))}
            )
        )
    for pid in given.try_kill:
        _say(json.dumps({"type": "kill", "pid": pid, "answer": _attempt(lambda pid=pid: os.kill(pid, 0))}))
    if given.lock:
        _hold_lock(given.lock, given.lock_s)
    if given.play:
        _play(Path(given.play), given.pause_s)
    if given.big:
        _big(given.big, drop=given.drop)
    if given.allocate:
        _allocate(given.allocate)
    if given.stderr:
        sys.stderr.write(given.stderr)
        sys.stderr.flush()
    while given.hang:
        time.sleep(60)  # noqa: TID251 - this is the child of a test, not the test
    return int(given.exit)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--play", help="write the lines of this file, each at once")
    parser.add_argument("--pause-s", type=float, default=0.0, help="before each line")
    parser.add_argument("--big", type=int, default=0, help="write this many bytes of numbered lines")
    parser.add_argument(
        "--drop", action="store_true", help="--big drops what does not fit in the pipe, as both CLIs do"
    )
    parser.add_argument("--fork", type=int, default=0, help="leave this many sleeping children")
    parser.add_argument(
        "--escape", action="store_true", help="the children get a session of their own and no environment"
    )
    parser.add_argument("--deaf", action="store_true", help="ignore SIGTERM, and so do the children")
    parser.add_argument("--last-words", help="on SIGTERM write this line and exit 143")
    parser.add_argument("--pids", help="leave a file named by its pid here; each child too")
    parser.add_argument("--stdin", action="store_true", help="read stdin to its end first")
    parser.add_argument("--show", action="store_true", help="write environment, arguments and folder as one line")
    parser.add_argument("--try-read", action="append", default=[])
    parser.add_argument("--try-write", action="append", default=[])
    parser.add_argument("--try-kill", action="append", default=[], type=int)
    parser.add_argument("--lock", help="hold an exclusive lock on this file; exit 9 when somebody else does")
    parser.add_argument("--lock-s", type=float, default=0.0)
    parser.add_argument("--allocate", type=int, default=0, help="MB that a child of it allocates and keeps")
    parser.add_argument("--stderr", default="")
    parser.add_argument("--hang", action="store_true", help="do not end")
    parser.add_argument("--exit", type=int, default=0)
    return parser


def _say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def _leave(words: str) -> NoReturn:
    _say(words)
    os._exit(143)


def _leave_pid(folder: str | None) -> None:
    if folder:
        Path(folder, str(os.getpid())).touch()


def _fork(given: argparse.Namespace) -> None:
    if os.fork():
        return
    if given.escape:
        os.setsid()
        _leave_pid(given.pids)
        ignore = "trap '' TERM; " if given.deaf else ""
        os.execve("/bin/sh", ["sh", "-c", ignore + "while :; do /bin/sleep 60; done"], {})
    _leave_pid(given.pids)
    while True:
        time.sleep(60)  # noqa: TID251 - see above


def _attempt(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except OSError as error:
        return type(error).__name__
    return "done"


def _hold_lock(path: str, seconds: float) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(9)
        time.sleep(seconds)  # noqa: TID251 - see above


def _play(path: Path, pause_s: float) -> None:
    for line in path.read_bytes().splitlines(keepends=True):
        if pause_s:
            time.sleep(pause_s)  # noqa: TID251 - see above
        os.write(1, line)


def _big(size: int, *, drop: bool) -> None:
    os.set_blocking(1, not drop)
    number, left = 0, size
    while left > 0:
        block = b"".join(b"%015d\n" % (number + i) for i in range(4096))[:left]
        number += 4096
        left -= len(block)
        rest = memoryview(block)
        while rest:
            try:
                rest = rest[os.write(1, rest) :]
            except BlockingIOError:
                break


def _allocate(megabytes: int) -> None:
    if os.fork() == 0:
        kept = bytearray(os.urandom(1 << 20) * megabytes)
        _say(json.dumps({"type": "allocated", "bytes": len(kept)}))
        while True:
            time.sleep(60)  # noqa: TID251 - see above


if __name__ == "__main__":
    sys.exit(main())
