"""The one way to run a child process: bounded in time and output, and nothing of it is left afterwards.

What plain trio does not do (PR-01): it signals the direct child only, and waits for pipes that a grandchild holds.
Here each child leads a session of its own and bears a mark in its environment, and the whole family (session, mark,
descendants) is ended, by SIGTERM and then SIGKILL, before :func:`run_child` returns or lets a cancellation through.

The leader stays a zombie until the family is gone. Until then the kernel gives its number to nobody else, so that no
signal can hit a stranger.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Self
from uuid import uuid4

import structlog
import trio
from attrs import define, field, frozen

from actors.ports import adopted, proctable
from actors.ports.guardian import FAMILY, Guardian
from protocols.failures import Permanent, ResourceExhausted, SupervisorError, Transient

DRAIN_S = 0.5
"""How long pipes are still read after the leader's end while somebody else holds them; at most twice (PR-01: 5 s)."""
KILL_WAIT_S = 5.0
"""How long the end of SIGKILLed processes is awaited before they are reported as survivors."""
STDERR_TAIL_BYTES = 4096
STDOUT_LIMIT_BYTES = 64 * 1024 * 1024

_CHUNK_BYTES = 65536
_NUMBERS_LAST_S = 5.0
"""No machine starts so many processes in this time that their numbers come round to where they were (32,768 at least)."""
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20
_SPAWN_EXHAUSTION = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})

_log = structlog.get_logger(__name__)


class KilledBy(StrEnum):
    """Why we ended a child that had not ended by itself."""

    LIMIT = "limit"
    OUTPUT = "output"


@frozen
class Exit:
    """How a child ended. ``code`` or ``signal`` is set, or neither when it survived SIGKILL (see ``survivors``)."""

    code: int | None
    signal: int | None
    stdout: bytes = field(repr=False)
    """Empty when the chunks went to ``on_chunk``."""
    stderr_tail: bytes = field(repr=False)
    """The last bytes of stderr. May hold secrets: redact before it goes anywhere."""
    duration_s: float
    killed_by: KilledBy | None
    survivors: tuple[int, ...] = ()
    """Family members that hang in the kernel and did not even end by SIGKILL."""

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.killed_by is None


async def run_child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None = None,
    limit_s: float = math.inf,
    grace_s: float = 2.0,
    on_chunk: Callable[[bytes], None] | None = None,
    stdout_limit_bytes: int = STDOUT_LIMIT_BYTES,
    stderr_tail_bytes: int = STDERR_TAIL_BYTES,
    guardian: Guardian | None = None,
    stop: trio.Event | None = None,
    pass_fds: Sequence[int] = (),
    leader_ends_family: bool = False,
) -> Exit:
    """Run ``argv`` to its end and return how it ended; its exit status is no exception.

    ``env`` is the whole environment, apart from the mark that is added. ``argv[0]`` is looked up in its ``PATH``.
    ``stdin`` None is ``/dev/null``. ``on_chunk`` gets stdout as it comes and must not block; without it stdout is
    captured. A child that writes more than ``stdout_limit_bytes`` is stopped (``killed_by`` output), one that runs
    longer than ``limit_s`` too (``killed_by`` limit): SIGTERM, ``grace_s`` later SIGKILL, to the whole family.
    With ``leader_ends_family`` the SIGTERM goes to the leader alone, which passes it on and sweeps by itself (D47).
    Setting ``stop`` ends the child the same way, with ``killed_by`` None: the caller knows why. ``pass_fds`` stay open
    in the child under their numbers.

    Cancelled from outside, the child is stopped the same way and its output read on meanwhile; then the cancellation
    goes on. That takes at most ``grace_s`` + ``KILL_WAIT_S`` + 2 x ``DRAIN_S``. An exception of ``on_chunk`` stops the
    child and is raised afterwards.

    Raises ResourceExhausted when the machine cannot start one more process, Permanent when there is no such program or
    folder, Transient for other trouble at the start.
    """
    stop = trio.Event() if stop is None else stop
    output = _Output(on_chunk, stdout_limit_bytes, stderr_tail_bytes, stop)
    ended: Exit | SupervisorError
    # Cancellation is one more reason to stop, told by a task outside the shield: so the pipes are read to the last
    # byte while the family winds down, whatever the reason was.
    async with trio.open_nursery() as nursery:
        await nursery.start(_tell_cancellation, output.stop)
        with trio.CancelScope(shield=True):
            try:
                child = await _Child.spawn(argv, env, cwd, guardian, with_stdin=stdin is not None, pass_fds=pass_fds)
            except SupervisorError as error:
                ended = error
            else:
                child.leader_ends_family = leader_ends_family
                ended = await child.live(output, stdin or b"", limit_s, grace_s)
        nursery.cancel_scope.cancel()
    if isinstance(ended, SupervisorError):
        raise ended
    if output.failure is not None:
        raise output.failure
    return ended


async def _tell_cancellation(stop: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


@define(eq=False)
class _Output:
    """What the child writes. ``stop`` is set when it, or anybody else, wants the child to end."""

    on_chunk: Callable[[bytes], None] | None
    stdout_limit_bytes: int
    tail_bytes: int
    stop: trio.Event
    stdout: bytearray = field(init=False, factory=bytearray)
    stderr_tail: bytearray = field(init=False, factory=bytearray)
    seen_bytes: int = field(init=False, default=0)
    overflowed: bool = field(init=False, default=False)
    failure: Exception | None = field(init=False, default=None)

    def take_stdout(self, chunk: bytes) -> None:
        room = self.stdout_limit_bytes - self.seen_bytes
        if len(chunk) > room:
            self.overflowed = True
            self.stop.set()
        self.seen_bytes += len(chunk)
        wanted = chunk[: max(room, 0)]
        if not wanted or self.failure is not None:
            return
        if self.on_chunk is None:
            self.stdout += wanted
            return
        try:
            self.on_chunk(wanted)
        except Exception as error:  # noqa: BLE001 - raised by run_child, when nothing runs any more
            self.failure = error
            self.stop.set()

    def take_stderr(self, chunk: bytes) -> None:
        self.stderr_tail += chunk
        del self.stderr_tail[: -self.tail_bytes]


@define(eq=False)
class _Child:
    """A started child with its pipes, until :meth:`live` has ended it."""

    process: trio.Process
    stdout: trio.lowlevel.FdStream
    mark: bytes
    guardian: Guardian | None
    pidfd: int
    since: int
    """Start of the leader in clock ticks: its family is not older."""
    since_s: float
    leader_ends_family: bool = field(init=False, default=False)
    exited: trio.Event = field(init=False, factory=trio.Event)
    drained: trio.Event = field(init=False, factory=trio.Event)

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        guardian: Guardian | None,
        *,
        with_stdin: bool,
        pass_fds: Sequence[int],
    ) -> Self:
        nonce = f"{FAMILY}.{uuid4().hex}"
        started_s = trio.current_time()
        try:
            read_end, write_end = _wide_pipe()
        except OSError as error:
            raise not_started(argv[0], error) from error
        stdout = trio.lowlevel.FdStream(read_end)
        try:
            process = await trio.lowlevel.open_process(
                list(argv),
                stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                stdout=write_end,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=pass_fds,
                env={**env, proctable.MARK_VARIABLE: nonce},
                cwd=cwd,
            )
        except OSError as error:
            await stdout.aclose()
            raise not_started(argv[0], error) from error
        finally:
            os.close(write_end)
        try:
            pidfd = os.pidfd_open(process.pid)
            if guardian is not None:
                guardian.register(process.pid)
        except OSError as error:  # no descriptor left: without one the child cannot be watched
            process.kill()
            await process.wait()
            raise not_started(argv[0], error) from error
        adopted.own(process.pid)
        leader = proctable.row_of(process.pid)
        mark = f"{proctable.MARK_VARIABLE}={nonce}".encode()
        return cls(process, stdout, mark, guardian, pidfd, leader.started if leader else 0, started_s)

    async def live(self, output: _Output, stdin: bytes, limit_s: float, grace_s: float) -> Exit:
        """Wait for the end or bring it about. Runs shielded: everything after ``output.stop`` is bounded."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, output.stop)
            nursery.start_soon(self._read_pipes, output)
            nursery.start_soon(self._feed, stdin)
            with trio.move_on_after(limit_s) as limit:
                await output.stop.wait()
            if self.exited.is_set():
                with trio.move_on_after(DRAIN_S):
                    await self.drained.wait()
            survivors = await self._end_family(grace_s)
            with trio.move_on_after(DRAIN_S):
                await self.drained.wait()
            nursery.cancel_scope.cancel()
        killed_by = KilledBy.OUTPUT if output.overflowed else KilledBy.LIMIT if limit.cancelled_caught else None
        returncode = await self._take_leave(stuck=self.process.pid in survivors)
        return Exit(
            code=returncode if returncode is not None and returncode >= 0 else None,
            signal=-returncode if returncode is not None and returncode < 0 else None,
            stdout=bytes(output.stdout),
            stderr_tail=bytes(output.stderr_tail),
            duration_s=trio.current_time() - self.since_s,
            killed_by=killed_by,
            survivors=survivors,
        )

    async def _watch(self, stop: trio.Event) -> None:
        # Its own pidfd: trio's wait() would reap the leader and free its number.
        await trio.lowlevel.wait_readable(self.pidfd)
        self.exited.set()
        stop.set()

    async def _read_pipes(self, output: _Output) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, self.stdout, output.take_stdout)
            if self.process.stderr is not None:  # always: spawn() asks for it
                nursery.start_soon(_read, self.process.stderr, output.take_stderr)
        self.drained.set()

    async def _feed(self, content: bytes) -> None:
        if self.process.stdin is not None:
            with suppress(trio.BrokenResourceError):  # it may end, or close its stdin, without reading it all
                await self.process.stdin.send_all(content)
            await self.process.stdin.aclose()

    async def _end_family(self, grace_s: float) -> tuple[int, ...]:
        """SIGTERM, wait ``grace_s``, SIGKILL, wait; the pids that are left even then."""
        if not (alive := self._alive()):
            return ()
        if not self.leader_ends_family:
            self._signal(signal.SIGTERM, alive)
            await self._wait_for_family(grace_s, None)
        elif not self.exited.is_set():
            proctable.send([self.process.pid], signal.SIGTERM)
            await self._wait_for_family(grace_s, None)
        self._signal(signal.SIGKILL, self._alive())
        # Again and again, for whoever was forked between snapshot and signal.
        await self._wait_for_family(KILL_WAIT_S, signal.SIGKILL)
        survivors = tuple(row.pid for row in self._alive())
        if survivors:
            _log.error("child_survives_sigkill", pids=survivors)
        return survivors

    async def _wait_for_family(self, wait_s: float, signum: signal.Signals | None) -> None:
        pause_s = 0.001
        with trio.move_on_after(wait_s):
            while alive := self._alive():
                if signum is not None:
                    self._signal(signum, alive)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.05)

    def _signal(self, signum: signal.Signals, alive: list[proctable.Row]) -> None:
        """One signal each: some programs take a second SIGTERM for an order to die at once."""
        if alive:
            proctable.send_group(self.process.pid, signum)
            proctable.send((row.pid for row in alive if row.group != self.process.pid), signum)

    def _alive(self) -> list[proctable.Row]:
        members = proctable.family(
            {self.process.pid}, self.mark, since=self.since, first=self._first_number(), but={os.getpid()}
        )
        adopted.reap(members)
        return [row for row in members if row.alive]

    def _first_number(self) -> int:
        """The lowest number that a member can have: the leader's own, unless numbers may have begun again meanwhile.

        Most children are short git commands, and looking at every process of the machine for each would hold the loop.
        """
        young = trio.current_time() - self.since_s < _NUMBERS_LAST_S
        return self.process.pid if young and proctable.last_number() >= self.process.pid else 0

    async def _take_leave(self, *, stuck: bool) -> int | None:
        """Close everything and take the exit status; None when the leader cannot be waited for."""
        os.close(self.pidfd)
        for pipe in (self.stdout, self.process.stderr, self.process.stdin):
            if pipe is not None:
                await pipe.aclose()
        if stuck:
            return None  # still registered with the guardian
        if self.guardian is not None:
            self.guardian.unregister(self.process.pid)
        returncode = await self.process.wait()
        adopted.disown(self.process.pid)
        return returncode


async def _read(stream: trio.abc.ReceiveStream, take: Callable[[bytes], None]) -> None:
    while chunk := await stream.receive_some(_CHUNK_BYTES):
        take(bytes(chunk))


def _wide_pipe() -> tuple[int, int]:
    read_end, write_end = os.pipe()
    with suppress(PermissionError):  # a smaller pipe works too
        fcntl.fcntl(write_end, _F_SETPIPE_SZ, _PIPE_BYTES)
    return read_end, write_end


def not_started(program: str, error: OSError) -> SupervisorError:
    """What an error at the start of ``program`` means: no room for it, no such thing, or other trouble."""
    if error.errno in _SPAWN_EXHAUSTION:
        return ResourceExhausted(f"cannot start {program}: {error.strerror}", errno=error.errno)
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC}:
        return Permanent(f"cannot start {program}: {error.strerror} ({error.filename}); install it or mend the path")
    return Transient(f"cannot start {program}: {error}")
