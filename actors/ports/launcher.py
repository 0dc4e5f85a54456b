"""The supervisor's side of the launcher: the order it gets, what it may touch, and what it reports (D47, D50).

A :class:`Launch` is the connection to one launcher process; :mod:`actors.ports.agentprocess` runs it. Nothing secret
is in the launcher's own arguments or environment: the order goes over a socket, whose end also tells it that the
supervisor is dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import structlog
import trio
from attrs import define, field, frozen

import actors
from actors.ports import landlock, seccomp
from actors.ports.child import not_started
from protocols.failures import Permanent, SupervisorError
from protocols.skillset import NotConfigured

SYSTEM_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/proc", "/sys"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/alternatives", "/etc/terminfo"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services"),
    *("/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone", "/etc/os-release"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld-musl-x86_64.path", "/etc/machine-id"),
)
"""Programs, libraries, certificates, names. Left out: homes, ``/tmp``, ``/run``, ``/var``, the rest of ``/etc``: that is
where secrets and other people's work lie. Of ``/proc`` only what Landlock leaves to see of other processes."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
"""Their values are paths that the CLI must be able to read."""

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from actors.ports.launcher_process import main; "
    "sys.exit(main(sys.argv[2:]))"
)
_LINE_LIMIT = 1 << 20

_log = structlog.get_logger(__name__)


@frozen
class AgentCommand:
    """One start of an agent CLI. ``env`` is its whole environment, apart from the family's mark.

    ``argv[0]`` is looked up in the ``PATH`` of ``env``. ``stdin`` None is ``/dev/null``; bytes are written and the pipe
    is closed at once (AG-11). Where the kernel has Landlock, the CLI can write below ``writable`` only, and read there,
    below ``readable``, its own program, and in :data:`SYSTEM_READABLE`. Where it has seccomp, the CLI gets no unix socket.
    """

    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    stdin: bytes | None = field(default=None, repr=False)
    named_by: str = ""
    """The setting that names the program, for people who look for it in vain."""


class Report(msgspec.Struct, frozen=True):
    """One line from the launcher; only what belongs to its occasion is set."""

    started: int | None = None
    """Its own pid, once the CLI runs below it."""
    landlock: int | None = None
    seccomp: bool | None = None
    failed: dict[str, Any] | None = None
    exit: int | None = None
    """Negative for a death by signal; also None in the last report when the CLI could not be killed."""
    left: tuple[int, ...] | None = None
    """In the last report: descendants that not even SIGKILL ended."""


_decoder = msgspec.json.Decoder(Report)


@define(eq=False)
class Launch:
    """The connection to one launcher, from before its start to after its end. Use it as a context."""

    command: AgentCommand
    grace_s: float
    report: Report = field(init=False, factory=Report)
    """Everything reported so far, merged."""
    started: trio.Event = field(init=False, factory=trio.Event)
    _ours: trio.SocketStream = field(init=False)
    _theirs: int = field(init=False)
    _order: bytes = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._order = _order(self.command, self.grace_s)
        ours, theirs = socket.socketpair()
        with theirs:
            # A supervisor without stdin may get the numbers 0 to 2, which mean something else in a child.
            self._theirs = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
        self._ours = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    @property
    def argv(self) -> list[str]:
        root = str(Path(next(iter(actors.__path__))).parent)
        return [sys.executable, "-I", "-S", "-c", _BOOT, root, str(self._theirs)]

    @property
    def descriptor(self) -> int:
        """What the launcher inherits."""
        return self._theirs

    @property
    def failure(self) -> SupervisorError | None:
        """Why the CLI could not be started, if so."""
        if self.report.failed is None:
            return None
        fault = OSError(self.report.failed["errno"], self.report.failed["text"], self.report.failed["what"])
        failure = not_started(self.command.argv[0], fault)
        return NotConfigured(failure.message) if isinstance(failure, Permanent) else failure

    async def talk(self) -> None:
        """Give the order, then hear reports until the launcher has ended."""
        try:
            await self._ours.send_all(self._order)
            line = bytearray()
            while chunk := await self._ours.receive_some(65536):
                line += chunk
                *lines, rest = line.split(b"\n")
                for said in lines:
                    self._hear(bytes(said))
                line = bytearray(rest[:_LINE_LIMIT])
        except trio.BrokenResourceError:
            return  # killed before it read everything

    def _hear(self, line: bytes) -> None:
        said = _decoder.decode(line)
        self.report = Report(
            *(new if new is not None else old for new, old in zip(_fields(said), _fields(self.report), strict=True))
        )
        if said.started is not None:
            _note_confinement(said.landlock or 0, filtered=bool(said.seccomp))
            self.started.set()

    def let_go(self) -> None:
        """The launcher has been started, or will not be: our copy of its end must not keep the socket open."""
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.let_go()
        self._ours.socket.close()


def _fields(report: Report) -> tuple[Any, ...]:
    return msgspec.structs.astuple(report)


def _order(command: AgentCommand, grace_s: float) -> bytes:
    """NotConfigured when there is no such program, Permanent when there is no such folder."""
    program = shutil.which(command.argv[0], path=command.env.get("PATH", os.defpath))
    if program is None:
        how = f"name it with {command.named_by}" if command.named_by else "mend the path"
        raise NotConfigured(f"cannot start {command.argv[0]}: not found; install it or {how}")
    if not command.cwd.is_dir():
        raise Permanent(f"cannot start {command.argv[0]}: {command.cwd} is no folder")
    certificates = (command.env[name] for name in CERTIFICATE_VARIABLES if name in command.env)
    order = {
        "argv": [os.path.abspath(program), *command.argv[1:]],
        "env": dict(command.env),
        "cwd": str(command.cwd),
        "grace_s": grace_s,
        "writable": [str(path) for path in command.writable],
        "readable": [*SYSTEM_READABLE, *_own(program), *certificates, *(str(path) for path in command.readable)],
        "devices": DEVICES,
    }
    return json.dumps(order).encode() + b"\n"  # json, not msgspec: arguments may hold lone surrogates


def _own(program: str) -> list[str]:
    """What a CLI is made of: its file, and the packages around it when it is a script of one."""
    file = Path(program).resolve()
    packages = [str(folder) for folder in file.parents if folder.name == "node_modules"]
    return [str(file), *packages[-1:]]


_confinement_noted = False


def _note_confinement(offered: int, *, filtered: bool) -> None:
    global _confinement_noted
    if not _confinement_noted:
        _confinement_noted = True
        log_confinement(offered, filtered=filtered)


def log_confinement(offered: int | None = None, *, filtered: bool | None = None) -> None:
    """Say in the log how agents are confined on this machine; for the start of a supervisor, too (D50).

    ``offered`` is the version of Landlock, ``filtered`` whether seccomp keeps them from unix sockets; None: look.
    """
    offered = landlock.version() if offered is None else offered
    if offered:
        _log.info("agents are confined by Landlock", version=offered, scoped=offered >= 6)
    else:
        _log.warning(
            "this kernel has no Landlock: only the CLI's own permissions keep an agent inside its folder; "
            "run on a kernel from 5.13 on with Landlock enabled"
        )
    if seccomp.offered() if filtered is None else filtered:
        _log.info("agents are kept from unix sockets by seccomp")
    else:
        _log.warning(
            "no seccomp filter here: an agent reaches the unix sockets of its user; run on x86_64 or aarch64 with a kernel "
            "that filters system calls, or set SUPERVISOR_REPL=0 and use no embedded database"
        )
