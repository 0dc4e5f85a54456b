"""Where agents work: one private folder for each attempt of a job, gone after it, whatever happened (D48).

    {work}/{job}-{attempt}/{checkout,home,tmp}
    {work}/{job}-{attempt}/slice-{n}/{checkout,home,tmp}

What an agent leaves there is hostile: it is read with :func:`read_agent_file` only, and deleted by a program that
neither follows links nor minds depth.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath

import structlog
import trio
from attrs import define, frozen

from actors.ports.child import Exit, run_child
from actors.ports.folderlock import locked_folder
from protocols.dialects.base import Folders
from protocols.failures import ResourceExhausted, Transient

LEAST_FREE_BYTES = 2 << 30
SWEEP_EVERY_S = 3600.0

_PROGRAM_LIMIT_S = 120.0
_PARTS = ("checkout", "home", "tmp")

PROJECT_FILES = (
    *(".claude", ".claude.json", "CLAUDE.md", "CLAUDE.local.md", ".mcp.json"),
    *(".opencode", "opencode.json*", "AGENTS.md"),
)
"""Patterns of names that a CLI takes for configuration or orders of the project."""

_log = structlog.get_logger(__name__)


class AgentFileRefused(Transient):
    """A file that an agent left is no plain file of a sensible size: link, pipe, device, second name, too large."""

    kind = "agent_file_refused"


@frozen
class SliceFolder:
    """The folders of one slice. ``path`` holds nothing else but spill files without a name and homes of single calls."""

    path: Path

    @property
    def checkout(self) -> Path:
        return self.path / "checkout"

    @property
    def home(self) -> Path:
        return self.path / "home"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def folders(self) -> Folders:
        """For the environment of calls that go on in one home (claude: sessions lie there)."""
        return Folders(str(self.home), str(self.tmp))

    @property
    def writable(self) -> tuple[Path, ...]:
        """What an agent of this slice may write."""
        return (self.checkout, self.home, self.tmp)

    def make(self) -> SliceFolder:
        for part in (self.path, *(self.path / name for name in _PARTS)):
            part.mkdir(mode=0o700, exist_ok=True)
        return self

    @asynccontextmanager
    async def call_home(self) -> AsyncIterator[SliceFolder]:
        """The same checkout with a home and a tmp of its own for one call, gone afterwards (OC-07: opencode's database)."""
        number = 1
        while (path := self.path / f"call-{number}").exists():
            number += 1
        folder = _CallFolder(path, self.checkout)
        for part in (path, folder.home, folder.tmp):
            part.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            with trio.CancelScope(shield=True):
                await delete_tree(path)


@frozen
class _CallFolder(SliceFolder):
    shared_checkout: Path

    @property
    def checkout(self) -> Path:
        return self.shared_checkout


@frozen
class AttemptFolder(SliceFolder):
    """The folder of one attempt: that of its only slice, or around those of several."""

    def slice(self, number: int) -> SliceFolder:
        """The folder of slice ``number``, made when it is not there."""
        return SliceFolder(self.path / f"slice-{number}").make()


@define(eq=False)
class WorkRoot:
    """The one folder below which agents work. Several supervisors may share it: a folder in use is locked."""

    path: Path
    least_free_bytes: int = LEAST_FREE_BYTES

    @asynccontextmanager
    async def attempt(self, job: str, number: int) -> AsyncIterator[AttemptFolder]:
        """A fresh folder for attempt ``number`` of ``job``; deleted afterwards, shielded.

        ResourceExhausted when less than 2 GiB are free, or the folder is in use.
        """
        self.expect_space()
        folder = AttemptFolder(self.path / f"{job}-{number}")
        if folder.path.exists():  # of an attempt that was killed, and not swept yet
            await self._sweep_one(folder.path)
        try:
            folder.path.mkdir(mode=0o700)
        except FileExistsError as error:
            raise ResourceExhausted(f"{folder.path} is in use by another process") from error
        with locked_folder(folder.path):
            folder.make()
            try:
                yield folder
            finally:
                with trio.CancelScope(shield=True):
                    await delete_tree(folder.path)

    def expect_space(self) -> None:
        """ResourceExhausted when less than the least is free: a clone would only be half made."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(self.path).free
        if free < self.least_free_bytes:
            raise ResourceExhausted(
                f"only {free >> 20} MiB free below {self.path}, at least {self.least_free_bytes >> 20} MiB are needed; "
                "free some space or set another work folder",
                errno=errno.ENOSPC,
            )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sweep now and every hour, until cancelled."""
        while True:
            await self.sweep()
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            await trio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> list[Path]:
        """Delete what no living process uses; returns what was deleted."""
        if not self.path.is_dir():
            return []
        return [path for path in sorted(self.path.iterdir()) if await self._sweep_one(path)]

    async def _sweep_one(self, path: Path) -> bool:
        if _unlinked(path):
            return True
        try:
            with locked_folder(path):
                await delete_tree(path)
        except OSError:
            return False  # in use, or gone meanwhile
        _log.info("work folder of a dead process deleted", folder=path.name)
        return True


def _unlinked(path: Path) -> bool:
    """Whether ``path`` was no folder and is gone now."""
    if path.is_dir() and not path.is_symlink():
        return False
    with suppress(OSError):
        path.unlink()
    return True


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


async def delete_tree(path: Path) -> None:
    """Delete ``path`` with everything below it, whatever its modes and however deep. What cannot be deleted is logged.

    ``rm`` walks without recursion and without following links; folders that an agent closed are opened first.
    """
    for argv in (("rm", "-rf"), ("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        if not _is_there(path):
            return
        await _run(*argv, "--", str(path))
    if _is_there(path):
        _log.error("cannot delete a work folder", folder=str(path))


async def _run(*argv: str) -> Exit:
    return await run_child(argv, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, cwd=Path("/"), limit_s=_PROGRAM_LIMIT_S)


# --- What an agent reads and leaves ----------------------------------------------------------------------------------


async def prepare_copy(checkout: Path, skills: Path | None = None) -> None:
    """Make ``checkout`` fit for the next call: without project configuration of any CLI, with our skills (D50).

    At every depth but in ``.git``, whatever is called ``.claude``, ``.opencode``, ``CLAUDE.md``, ``AGENTS.md``,
    ``.mcp.json`` or ``opencode.json*`` is removed, whether the corpus brought it or the agent of an earlier call did:
    hooks, plugins, servers, orders. So is every symbolic link: opencode follows one out of the checkout, to its own
    environment in ``/proc``, say. Then the folders below ``skills`` (see :mod:`actors.ports.skillfiles`) are copied to
    ``.claude/skills``. Transient when something cannot be removed,
    OSError when ``skills`` cannot be copied.
    """
    names = [word for name in PROJECT_FILES for word in ("-o", "-name", name)][1:]
    # find and rm walk without recursion: an agent may have made folders deeper than Python can follow.
    search = ["find", str(checkout), "-name", ".git", "-prune", "-o", "(", "-type", "l", "-o", *names, ")", "-prune"]
    ended = await _run(*search, "-exec", "rm", "-rf", "--", "{}", "+")
    if not ended.ok:  # an agent can close a folder that it may not delete
        await _run("chmod", "-R", "u+rwX", "--", str(checkout))
        ended = await _run(*search, "-exec", "rm", "-rf", "--", "{}", "+")
    if not ended.ok:
        raise Transient(
            f"cannot remove project configuration below {checkout}: {ended.stderr_tail.decode(errors='replace')}"
        )
    if skills is not None:
        await trio.to_thread.run_sync(_place_skills, skills, checkout / ".claude" / "skills")


def _place_skills(skills: Path, target: Path) -> None:
    shutil.copytree(skills, target, ignore=shutil.ignore_patterns("__pycache__", "*.py"))


def copy_checkout(source: Path, target: Path) -> None:
    """A slice's own copy of ``source``: links as links, without ``.git``. ``target`` exists and is empty."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)


async def clear_way(root: Path, name: str) -> None:
    """Make it possible to write the file ``name`` below ``root`` and nowhere else, whatever an agent made of its path.

    In place of a folder: a link, a file, a folder that is closed. In place of the file: anything but a file with one name that
    can be read. What is in the way is removed without following it; folders of the path that are fit stay. What cannot be
    removed is for whoever writes there to tell.
    """
    with suppress(OSError):
        folder = await trio.to_thread.run_sync(_clear_way, root, PurePosixPath(name).parts)
        if folder is not None:
            await delete_tree(folder)


def _clear_way(root: Path, parts: tuple[str, ...]) -> Path | None:
    """The folder that stands in place of the file, for somebody else to delete."""
    at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _open_up(at)
        for part in parts[:-1]:
            try:
                below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                os.unlink(part, dir_fd=at)
                return None
            os.close(at)
            at = below
            _open_up(at)
        facts = os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            return root.joinpath(*parts)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or not facts.st_mode & stat.S_IRUSR:
            os.unlink(parts[-1], dir_fd=at)
    except FileNotFoundError:
        pass
    finally:
        os.close(at)
    return None


def _open_up(folder: int) -> None:
    """Let its owner in. ``folder`` is an ``O_PATH`` descriptor, whose mode only its name in ``/proc`` can change."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(f"/proc/self/fd/{folder}", mode | stat.S_IRWXU)


def read_agent_file(root: Path, name: str, *, most_bytes: int) -> bytes | None:
    """The content of the file ``name`` below ``root``, written by an agent; None when there is none.

    No link is followed, in no part of the path; the file must be a regular one with one name and at most ``most_bytes``.
    AgentFileRefused otherwise. Never waits for the other end of a pipe.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise ValueError(f"{name!r} is no relative path")
    try:
        descriptor = _open_below(root, parts)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AgentFileRefused(f"{name}: {error.strerror}") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise AgentFileRefused(f"{name} is no regular file")
        if facts.st_nlink != 1:
            raise AgentFileRefused(f"{name} has {facts.st_nlink} names")
        if facts.st_size > most_bytes:
            raise AgentFileRefused(f"{name} has {facts.st_size} bytes; the most is {most_bytes}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(descriptor)


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
