"""A private folder that belongs to a living process, and who may clear away those of the dead.

The owner holds the folder's lock, which ends with the process however it ends. Whoever gets the lock of such a folder
may delete it: nobody uses it any more.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

_DELETION_LIMIT_S = 120.0

YOUNG_S = 60.0
"""A folder this new may not be locked by its owner yet."""

_log = structlog.get_logger(__name__)


class locked_folder:  # noqa: N801 - used as a statement
    """Holds the lock of a folder; it ends with the process. OSError when somebody else holds it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder in the temporary folder that only we can enter, removed at the end.

    Those of the same ``prefix`` that a killed process of this user left there are removed first.
    """
    _sweep(prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, locked_folder(Path(name)):
        yield Path(name)


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            with locked_folder(path) as descriptor:
                facts = os.fstat(descriptor)
                if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < YOUNG_S:
                    continue
                _delete(path)
        except (OSError, subprocess.SubprocessError):
            continue  # in use, another user's, no folder, or gone meanwhile
        if os.path.lexists(path):
            continue
        _log.info("folder of a dead process deleted", folder=path.name)


def _delete(path: Path) -> None:
    """By programs that walk without recursion and follow no link: an agent may have worked there, and closed folders."""
    for argv in (("rm", "-rf"), ("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        if os.path.lexists(path):
            subprocess.run(
                (*argv, "--", str(path)),
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_DELETION_LIMIT_S,
                check=False,
            )
