"""Running an agent CLI: below a launcher, its output into a spool, within time, output and memory (D46, D47).

Nothing of a call survives it, whatever it forks and however it ends: the launcher sweeps its descendants, the
supervisor's :func:`~actors.ports.child.run_child` sweeps behind the launcher, and the guardian behind the supervisor.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import structlog
import trio
from attrs import define, field, frozen

from actors.ports import proctable
from actors.ports.child import Exit, KilledBy, run_child
from actors.ports.guardian import Guardian
from actors.ports.launcher import AgentCommand, Launch
from actors.ports.launcher_process import SWEEP_LIMIT_S
from actors.ports.spool import Spool
from protocols.failures import SupervisorError

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL (AG-07). claude needs up to two seconds to end its own children."""
MAX_OUTPUT_BYTES = 1 << 30
MEMORY_CHECK_S = 5.0

_LAUNCHER_MARGIN_S = SWEEP_LIMIT_S + 2.0
"""How much longer than its grace the launcher is given before it is killed itself."""
_LAST_WORDS_S = 1.0
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")

_log = structlog.get_logger(__name__)


class Stopped(StrEnum):
    """Why we ended a call that had not ended by itself."""

    LIMIT = "limit"
    """The call's own time limit."""
    OUTPUT = "output"
    """More stdout than ``ENRICH_AGENT_MAX_OUTPUT``."""
    MEMORY = "memory"
    """The job's calls together use more memory than ``ENRICH_MAX_RSS_MB`` (PR-04)."""
    STALLED = "stalled"
    """Every live slice of the job was quiet for too long (D45)."""
    LOOPING = "looping"
    LONG_WAIT = "long_wait"
    """The provider names a wait that is too long to sit out inside a call (OC-06)."""
    AFTER_RESULT = "after_result"
    """It had said its closing word and did not go (AG-02). Not a failure."""
    SIBLING = "sibling"
    """Another slice of the job failed first."""


@define(eq=False)
class Stop:
    """A request to end one call; the first reason counts."""

    reason: Stopped | None = field(init=False, default=None)
    event: trio.Event = field(init=False, factory=trio.Event)

    def request(self, reason: Stopped) -> None:
        if self.reason is None:
            self.reason = reason
            self.event.set()


@frozen
class AgentEnd:
    """How a call ended. ``code`` or ``signal`` of the CLI itself, or neither when it survived SIGKILL."""

    code: int | None
    signal: int | None
    duration_s: float
    stopped: Stopped | None = None
    stderr: str = field(default="", repr=False)
    """The last 4 KiB, without colours. May hold secrets: redact before it goes anywhere."""
    output_bytes: int = 0
    memory_peak_bytes: int = 0
    """Highest reading of the anonymous memory of the call's tree."""
    survivors: tuple[int, ...] = ()

    @property
    def exit_code(self) -> int | None:
        """As ``Popen.returncode``: negative for a death by signal."""
        return -self.signal if self.signal is not None else self.code


class AgentRunner(Protocol):
    """What runs one call: the real thing below, or one that plays chunks in a test."""

    async def __call__(self, command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float) -> AgentEnd: ...


@define(eq=False)
class MemoryWatch:
    """The memory of all live calls of one job. ``limit_bytes`` None: no limit."""

    limit_bytes: int | None = None
    _readings: dict[int, int] = field(init=False, factory=dict)

    @property
    def total_bytes(self) -> int:
        return sum(self._readings.values())

    def read(self, root: int, size_bytes: int) -> bool:
        """Note a reading of the tree below ``root``; whether the job is now over its limit."""
        self._readings[root] = size_bytes
        return self.limit_bytes is not None and self.total_bytes > self.limit_bytes

    def forget(self, root: int) -> None:
        self._readings.pop(root, None)


@define(eq=False)
class ProcessRunner:
    """Runs the calls of one job as real processes (an :class:`AgentRunner`)."""

    guardian: Guardian | None
    memory: MemoryWatch = field(factory=MemoryWatch)
    grace_s: float = GRACE_S
    max_output_bytes: int = MAX_OUTPUT_BYTES
    memory_check_s: float = MEMORY_CHECK_S

    async def __call__(self, command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float = math.inf) -> AgentEnd:
        """Run ``command`` until it ends, or ``limit_s`` passes, or ``stop`` is requested; then nothing of it is left.

        Its stdout goes to ``spool``, which is closed in every case. Cancelled from outside the call is ended in the
        same way, within ``grace_s`` and some seconds. Raises ResourceExhausted, Permanent or Transient when it cannot
        be started or the spool's disk is full.
        """
        try:
            with Launch(command, self.grace_s) as launch:
                meter = _Meter(self.memory)
                ended = await self._run(launch, meter, spool, stop, limit_s)
        finally:
            spool.close()
        if launch.failure is not None:
            raise launch.failure
        return _outcome(launch, ended, stop, meter, spool)

    async def _run(self, launch: Launch, meter: _Meter, spool: Spool, stop: Stop, limit_s: float) -> Exit:
        ended: Exit | SupervisorError | OSError
        async with trio.open_nursery() as nursery:
            heard = trio.Event()
            nursery.start_soon(_hear, launch, heard)
            nursery.start_soon(meter.run, launch, stop, self.memory_check_s)
            try:
                ended = await run_child(
                    launch.argv,
                    env={},
                    cwd=Path("/"),
                    stdin=launch.command.stdin,
                    limit_s=limit_s,
                    grace_s=self.grace_s + _LAUNCHER_MARGIN_S,
                    on_chunk=spool.put,
                    stdout_limit_bytes=self.max_output_bytes,
                    guardian=self.guardian,
                    stop=stop.event,
                    pass_fds=[launch.descriptor],
                    leader_ends_family=True,
                )
            except (SupervisorError, OSError) as error:  # raised below, without the group that a nursery makes of it
                ended = error
            launch.let_go()
            with trio.move_on_after(_LAST_WORDS_S):
                await heard.wait()
            nursery.cancel_scope.cancel()
        if isinstance(ended, Exit):
            return ended
        raise ended


async def _hear(launch: Launch, heard: trio.Event) -> None:
    await launch.talk()
    heard.set()


@define(eq=False)
class _Meter:
    """Reads the memory of one call's tree every few seconds."""

    watch: MemoryWatch
    peak_bytes: int = field(init=False, default=0)

    async def run(self, launch: Launch, stop: Stop, every_s: float) -> None:
        await launch.started.wait()
        root = launch.report.started
        assert root is not None
        try:
            while True:
                size = await trio.to_thread.run_sync(tree_memory_bytes, root)
                self.peak_bytes = max(self.peak_bytes, size)
                if self.watch.read(root, size):
                    _log.warning("agents use too much memory", job_bytes=self.watch.total_bytes, call_bytes=size)
                    stop.request(Stopped.MEMORY)
                await trio.sleep(every_s)
        finally:
            self.watch.forget(root)


def tree_memory_bytes(root: int) -> int:
    """RssAnon of ``root`` and all its descendants: what they allocated, without what they share with a file."""
    rows = list(proctable.rows())
    tree = {root}
    while below := {row.pid for row in rows if row.parent in tree} - tree:
        tree |= below
    return sum(_anonymous_bytes(pid) for pid in tree)


def _anonymous_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0  # ended meanwhile
    return 0  # a zombie has none


def _outcome(launch: Launch, ended: Exit, stop: Stop, meter: _Meter, spool: Spool) -> AgentEnd:
    reason = stop.reason
    if ended.killed_by is KilledBy.OUTPUT:
        reason = Stopped.OUTPUT
    elif ended.killed_by is KilledBy.LIMIT:
        reason = Stopped.LIMIT
    said = launch.report
    status = said.exit
    if said.left is None:
        # The launcher itself was killed, and what was below it with it.
        status = -(ended.signal or 9)
    survivors = (*(said.left or ()), *ended.survivors)
    if survivors:
        _log.error("an agent's processes survive SIGKILL", pids=survivors)
    return AgentEnd(
        code=status if status is not None and status >= 0 else None,
        signal=-status if status is not None and status < 0 else None,
        duration_s=ended.duration_s,
        stopped=reason,
        stderr=_ANSI.sub("", ended.stderr_tail.decode(errors="replace")).strip(),
        output_bytes=spool.taken_bytes,
        memory_peak_bytes=meter.peak_bytes,
        survivors=survivors,
    )
