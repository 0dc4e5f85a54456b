"""SIGUSR1: everything that the prompt can tell, to the log and into a file, for when nobody answers at the socket.

The loop writes it. When the loop does not come round to that, the watchdog's thread does, as well as it can from outside.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

import structlog
import trio
from attrs import define, field

from actors.ports import localsocket
from protocols.failures import InvalidInput

_log = structlog.get_logger(__name__)

PATIENCE_S: Final = 1.0
"""How long the loop may take before the dump is made from outside."""


def _starting() -> list[str]:
    return ["the supervisor is still starting"]


@define
class Dumper:
    """``with`` it around the loop. ``tell`` is what to write, ``tell_from_outside`` the part of it that needs no loop;
    ``folders`` are tried in turn.
    """

    folders: Sequence[Path]
    redact: Callable[[str], str]
    tell: Callable[[], list[str]] = _starting
    tell_from_outside: Callable[[], list[str]] = _starting
    token: trio.lowlevel.TrioToken | None = None
    _asked_at: float | None = field(init=False, default=None)
    _before: Any = field(init=False, default=None)

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGUSR1, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, self._before)

    def look(self) -> None:
        """Called by the watchdog's thread, many times a second."""
        if self._asked_at is not None and time.monotonic() > self._asked_at + PATIENCE_S:
            self._asked_at = None
            note = "the loop did not come round to this; it was written from outside"
            self.write(lambda: [note, "", *self.tell_from_outside()])

    def write(self, tell: Callable[[], list[str]]) -> Path | None:
        """Where it is now; None: no file could be written, and the log has it all."""
        try:
            lines = tell()
        except Exception as error:  # noqa: BLE001 - from outside, what is looked at may change underneath
            lines = [f"no dump: {type(error).__name__}: {error}"]
        text = self.redact("\n".join(lines)) + "\n"
        path = self._write_file(text)
        _log.warning("dump", file=None if path is None else str(path), text=text)
        return path

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Between any two instructions: only note it and hand it on."""
        self._asked_at = time.monotonic()
        if self.token is not None:
            try:
                self.token.run_sync_soon(self._write_if_asked, idempotent=True)
            except trio.RunFinishedError:
                self.token = None

    def _write_if_asked(self) -> None:
        if self._asked_at is not None:
            self._asked_at = None
            self.write(self.tell)

    def _write_file(self, text: str) -> Path | None:
        """0600, in a folder of ours alone, instead of an earlier one of this process."""
        for folder in self.folders:
            path = folder / f"dump-{os.getpid()}.txt"
            fresh = path.with_suffix(".new")
            try:
                localsocket.own_folder(folder)
                fresh.unlink(missing_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
                fresh.replace(path)
            except (InvalidInput, OSError) as error:
                _log.info("no dump file here", folder=str(folder), why=str(error))
                continue
            return path
        return None
