"""What it means when a port cannot be served on: an operator chose it by a setting, and is told which one."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from protocols.failures import InvalidInput, leaves


@contextmanager
def binding(port: int, setting: str, *, host: str = "", host_setting: str = "") -> Iterator[None]:
    """For the binding alone. Its OSError, also in a group, becomes an InvalidInput with the value and its ``setting``."""
    try:
        yield
    except (OSError, ExceptionGroup) as error:
        first, *others = leaves(error)
        if others or not isinstance(first, OSError):
            raise
        if host and (isinstance(first, socket.gaierror) or first.errno == errno.EADDRNOTAVAIL):
            why = f"cannot serve on {host} ({host_setting}): this machine has no such address"
        elif first.errno == errno.EACCES:
            why = f"cannot serve on port {port} ({setting}): this user may not; choose one from 1024 up"
        elif first.errno == errno.EADDRINUSE:
            why = f"cannot serve on port {port} ({setting}): is it in use?"
        else:
            why = f"cannot serve on port {port} ({setting}): {first.strerror or first}"
        raise InvalidInput(why) from error
