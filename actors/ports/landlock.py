"""Landlock: a process takes file access from itself and all that it will ever start. No privilege is needed (D50).

Only the standard library: the launcher (:mod:`actors.ports.launcher_process`) imports this in a bare interpreter.
Numbers and layouts are the kernel's, the same on every architecture; newer rights are used where the kernel has them.

What comes with a ruleset besides the file rules: no look into ``/proc/PID/environ``, ``mem`` or the like of a process
outside it, and (kernel 6.12) no signal and no abstract socket to one.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_FIRST = (1 << 13) - 1
"""All rights of version 1."""
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SCOPES = 0b11
"""Abstract unix sockets and signals."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


def version() -> int:
    """The version of Landlock that the kernel offers; 0 when it has none or it is switched off."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def ruleset(writable: Iterable[str], readable: Iterable[str], devices: Iterable[str]) -> int:
    """A descriptor for :func:`restrict_self`: everything below ``writable``, reading and executing below ``readable``.

    ``devices`` are files that may be read and written, nothing more. Paths that do not exist are passed over.
    OSError when the kernel refuses; ENOSYS or EOPNOTSUPP where it has no Landlock.
    """
    offered = version()
    handled = _FIRST | (_REFER if offered >= 2 else 0) | (_TRUNCATE if offered >= 3 else 0)
    attributes = struct.pack("=QQQ", handled, 0, _SCOPES) if offered >= 6 else struct.pack("=Q", handled)
    rules = _checked("ruleset", _syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for paths, access in (
            (writable, handled & ~(_MAKE_CHAR | _MAKE_BLOCK)),
            (readable, READ),
            (devices, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & handled),
        ):
            for path in paths:
                _allow(rules, path, access)
    except OSError:
        os.close(rules)
        raise
    return rules


def restrict_self(rules: int) -> None:
    """From here on only what ``rules`` allow. Needs no-new-privileges. There is no way back."""
    _checked("restrict_self", _syscall(_RESTRICT_SELF, rules, 0))


def _allow(rules: int, path: str, access: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a rule for what is not there allows nothing
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            access &= _FOR_FILES
        rule = struct.pack("=Qi", access, target)
        _checked(path, _syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(target)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    # A bare int would be passed as 32 bits, and what is above them in the register is anybody's guess.
    wide = (ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments)
    return int(call(ctypes.c_long(number), *wide))


def _checked(what: str, answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}", what)
    return answer
