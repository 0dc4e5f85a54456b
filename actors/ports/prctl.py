"""What a process can tell the kernel about itself. Only the standard library: small helper processes import this."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2


def become_subreaper(enable: bool = True) -> None:
    """Adopt orphaned descendants from now on, instead of process 1. Not inherited by children."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, int(enable))


def forbid_new_privileges() -> None:
    """No set-uid program gives this process or its descendants more rights, ever. Also what Landlock and seccomp ask for."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """What is executed from here on is no more than an ordinary program, though its user be root.

    With CAP_PERFMON, for example, root reads ``/proc/PID/environ`` of any process in spite of Landlock. For other
    users this changes nothing: they have none, and get none (:func:`forbid_new_privileges`).
    """
    with suppress(OSError):  # EPERM: an ordinary user; EINVAL: past the last capability of this kernel
        for capability in range(64):
            _prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, capability)


def make_undumpable() -> None:
    """Close ``/proc/PID/environ``, ``mem`` and the like of this process to others of the same user (D50).

    For a process that holds secrets, once it has read them. It also ends core dumps. A program that is executed
    afterwards is dumpable again; a fork without exec is not.
    """
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when ``parent`` ends, or now if it already has.

    The kernel goes by the *thread* that forked us: never in a child that was spawned from a worker thread (D17).
    """
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def filter_calls(program: int) -> None:
    """Have the system calls of this process filtered by the ``struct sock_fprog`` at the address ``program``.

    OSError: EFAULT when there is nothing at the address; EINVAL when the kernel has no filters, or will not have this one.
    """
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program)


def _prctl(name: str, option: int, *values: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel reads whole registers; a bare int would fill half of one.
    wide = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(ctypes.c_int(option), *wide) != 0:
        raise OSError(ctypes.get_errno(), name)
