"""A system call filter: a process takes unix sockets from itself and from all that it will ever start (D50).

What Landlock leaves open: it does not keep a process from connecting to a unix socket that has a path. Behind such sockets
are the debug prompt and an embedded database, and both trust whoever has the user's uid. So has an agent.

The filter looks at numbers only, since it cannot follow a pointer to an address. It refuses, with EPERM:

- ``socket(AF_UNIX, ...)``, and ``socketpair`` of datagrams, whose ends can send to any address. A ``socketpair`` of
  streams is no way out: its ends stay with each other. Programs talk to their children over it;
- ``io_uring``, which makes sockets without these calls;
- whatever comes by another architecture's entrance (i386, x32, 32-bit ARM), where the calls have other numbers.

Everything else is allowed; TCP, too. Only the standard library: the launcher (:mod:`actors.ports.launcher_process`)
imports this in a bare interpreter.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from actors.ports import prctl


class _Machine(NamedTuple):
    """The numbers of a machine's native entrance."""

    audit: int
    """How the kernel names the entrance (``AUDIT_ARCH_*``)."""
    socket: int
    socketpair: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 41, 53), "aarch64": _Machine(0xC00000B7, 198, 199)}
_X32 = 0x40000000
"""On x86_64 x32 has the same entrance, and numbers from here on. Nobody has numbers as high as that elsewhere."""
_IO_URING = (425, 426, 427)
"""Setup, enter and register: the same everywhere."""

# struct seccomp_data: what a filter sees. Of an argument the lower half, which is all that these calls look at.
_NUMBER, _ENTRANCE = 0, 4
_DOMAIN, _TYPE = 16, 24
_TYPE_MASK = 0xF
"""What is above it in a socket's type are flags."""

_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM


class _Step(NamedTuple):
    """One instruction. Jumps lead forward, to a label; without one, to the next instruction."""

    code: int
    value: int
    then: str = ""
    otherwise: str = ""


def offered() -> bool:
    """Whether this kernel filters system calls, and this machine is one whose numbers are known here."""
    if os.uname().machine not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    try:
        prctl.filter_calls(0)
    except OSError as error:
        return error.errno == errno.EFAULT  # it wants to read a filter, and there is none at 0
    return False


def program(machine: str) -> bytes:
    """The filter for a ``machine`` (as ``uname`` calls it) in the kernel's form, eight bytes each instruction."""
    known = _MACHINES[machine]
    return _assembled(
        [
            _Step(_LOAD, _ENTRANCE),
            _Step(_IF_EQUAL, known.audit, otherwise="refuse"),
            _Step(_LOAD, _NUMBER),
            _Step(_IF_AT_LEAST, _X32, then="refuse"),
            *(_Step(_IF_EQUAL, number, then="refuse") for number in _IO_URING),
            _Step(_IF_EQUAL, known.socketpair, then="socketpair"),
            _Step(_IF_EQUAL, known.socket, otherwise="allow"),
            _Step(_LOAD, _DOMAIN),
            _Step(_IF_EQUAL, socket.AF_UNIX, then="refuse", otherwise="allow"),
            "socketpair",
            _Step(_LOAD, _TYPE),
            _Step(_AND, _TYPE_MASK),
            _Step(_IF_EQUAL, socket.SOCK_STREAM, then="allow"),
            _Step(_IF_EQUAL, socket.SOCK_SEQPACKET, otherwise="refuse"),
            "allow",
            _Step(_ANSWER, _ALLOWED),
            "refuse",
            _Step(_ANSWER, _REFUSED),
        ]
    )


def restrict_self() -> None:
    """From here on the filter holds, also for what is executed. Needs no-new-privileges. There is no way back."""
    steps = program(os.uname().machine)
    body = ctypes.create_string_buffer(steps, len(steps))
    packed = struct.pack("@HP", len(steps) // 8, ctypes.addressof(body))  # struct sock_fprog
    header = ctypes.create_string_buffer(packed, len(packed))
    prctl.filter_calls(ctypes.addressof(header))


def _assembled(lines: Sequence[_Step | str]) -> bytes:
    """``lines`` are instructions and labels of the instruction that follows."""
    places: dict[str, int] = {}
    steps: list[_Step] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(steps)
        else:
            steps.append(line)
    return b"".join(_encoded(steps, places))


def _encoded(steps: Sequence[_Step], places: dict[str, int]) -> Iterator[bytes]:
    for here, step in enumerate(steps, start=1):
        then, otherwise = (places[label] - here if label else 0 for label in (step.then, step.otherwise))
        yield struct.pack("=HBBI", step.code, then, otherwise, step.value)
