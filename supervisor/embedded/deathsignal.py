"""A child that ends when we end, however we end (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def dies_with_us(name: str) -> Callable[[], None]:
    """For ``preexec_fn``: the kernel sends SIG``name`` to the child when the *thread* that started it is gone.

    So only the main thread may start such a child: trio's spawn threads idle out after ten seconds (D17).
    CPython runs this after it changed the user, which is needed: changing the user clears the setting.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("the embedded PostgreSQL must be started from the main thread")
    number = int(signal.Signals[f"SIG{name}"])
    parent = os.getpid()

    def set_death_signal() -> None:
        if _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(1)

    return set_death_signal
