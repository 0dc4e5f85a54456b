"""A seat is a pod: whenever its supervisor ends, the next one is started there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio
from attrs import define, field

from supervisor import exitcodes
from tests.faults.evidence import Life, Pause
from tests.kit.postgres_lines import Line
from tests.kit.supervisors import Fleet, SupervisorProcess

_BACK_AFTER_S = 0.2
_DISK_MIB = 300


@define(eq=False)
class Disk:
    """A small file system of its own for a checkout, where one can be mounted."""

    folder: Path
    mounted: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "tmpfs", str(self.folder)]
        with suppress(OSError):
            self.mounted = subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    def fill(self) -> None:
        """Not one byte more fits."""
        with suppress(OSError), (self.folder / "ballast").open("ab") as ballast:
            while True:
                os.posix_fallocate(ballast.fileno(), ballast.tell(), _free(self.folder) or 4096)
                ballast.seek(0, os.SEEK_END)

    def clear(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)


def _free(folder: Path) -> int:
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


@define(eq=False)
class Seat:
    """``orders`` are environment variables for the next start alone."""

    number: int
    fleet: Fleet
    line: Line
    disk: Disk
    environ: dict[str, str]
    roles: str
    orders: dict[str, str] = field(init=False, factory=dict)
    current: SupervisorProcess | None = field(init=False, default=None)
    lives: list[Life] = field(init=False, factory=list)
    pauses: list[Pause] = field(init=False, factory=list)
    failpoint: str | None = field(init=False, default=None)
    """Of the current process."""
    planned: set[str] = field(init=False, factory=set)
    """What happened to the current process on purpose."""
    closing: bool = field(init=False, default=False)
    _words: list[str] = field(init=False, factory=list)
    _woken: trio.Event = field(init=False, factory=trio.Event)

    async def keep(self) -> None:
        """One supervisor after the other, until ``close``."""
        while not self.closing:
            await self._live()
            with trio.move_on_after(_BACK_AFTER_S):
                await self._woken.wait()

    async def ready(self) -> SupervisorProcess:
        """The supervisor here, as soon as one claims; TooSlowError when none does for long."""
        with trio.fail_after(120):
            while (one := self._claiming()) is None:  # noqa: ASYNC110 - a process and its log
                await trio.sleep(0.05)
        return one

    def _claiming(self) -> SupervisorProcess | None:
        one = self.current
        return one if one is not None and one.process.poll() is None and one.said("ready to claim") else None

    def send(self, number: signal.Signals) -> None:
        """A signal to whoever sits here now."""
        if self.current is not None and self.current.process.poll() is None:
            if number not in {signal.SIGSTOP, signal.SIGCONT}:
                self.planned.add(number.name.removeprefix("SIG"))
            self.current.signal(number)

    async def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        began, pid = time.monotonic(), self.current.pid if self.current is not None else 0
        self.send(signal.SIGSTOP)
        try:
            await trio.sleep(seconds)
        finally:
            self.send(signal.SIGCONT)
            self.pauses.append(Pause(pid, began, time.monotonic()))

    @contextmanager
    def excuse(self, word: str) -> Iterator[None]:
        """For the time of the block there is a good reason to end: see ``checker.EXCUSES``."""
        self._words.append(word)
        self.planned.add(word)
        try:
            yield
        finally:
            self._words.remove(word)

    async def close(self, limit_s: float) -> str | None:
        """SIGTERM, for good. What was wrong with the end, if anything."""
        self.closing = True
        self._woken.set()
        one = self.current
        if one is None or one.process.poll() is not None:
            return None
        began = time.monotonic()
        self.send(signal.SIGTERM)
        with trio.move_on_after(limit_s):
            code = await one.exit_code(limit_s=limit_s + 5)
            # Before Python has even read the program, the signal does what it does by default (SD-05).
            well = code == exitcodes.CLEAN or (code == -signal.SIGTERM and not one.said("starting"))
            return None if well else f"supervisor {one.pid} left with {code}"
        one.process.kill()
        return f"supervisor {one.pid} was still there {time.monotonic() - began:.1f} s after SIGTERM"

    async def _live(self) -> None:
        orders, self.orders = self.orders, {}
        module = "tests.kit.wrong_clock" if "WRONG_CLOCK_SECS" in orders else "supervisor"
        self.planned = {*orders.pop("PLANNED", "").split(), *self._words}
        self.failpoint = orders.get("FAILPOINT")
        began = time.monotonic()
        self.current = self.fleet.start({**self.environ, **orders}, roles=self.roles, module=module)
        process = self.current.process
        while process.poll() is None:  # noqa: ASYNC110 - also reaps it, in the main thread
            await trio.sleep(0.02)
        self.lives.append(Life(process.pid, began, time.monotonic(), process.returncode, tuple(sorted(self.planned))))
        if not self.planned and not self.current.said("ready to claim"):
            raise AssertionError(f"a supervisor cannot even start: {self.current.log.read_text()[-3000:]}")
