"""The corpus without a repository: a plain folder, for a developer's machine (``REGULATION_REPO_PATH``).

Files appear whole or not at all (a dot file, fsync, rename). No symbolic link below the folder is followed, because
the paths come from law data.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import trio
from attrs import field, frozen

from protocols.corpus import Confirm, CorpusUnavailable, FileChange, Publication, Published, corpus_path
from protocols.failures import ResourceExhausted

MOST_BYTES = 100 * 1024 * 1024
"""No law comes near this, and whoever reads a corpus file takes no more (:data:`protocols.lawyaml.read.MAX_BYTES`)."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


@frozen
class FolderCorpus:
    """A :class:`protocols.corpus.CorpusPort` over a folder. It has no commits: ``at`` is ignored, ``tip`` is None."""

    root: Path
    named_by: str = "REGULATION_REPO_PATH"
    """Where people gave ``root``, for them to look at when it cannot be used."""
    _turn: trio.Lock = field(init=False, factory=trio.Lock, repr=False)

    async def tip(self, *, max_age_s: float = 0.0) -> str | None:
        return None

    async def read(self, path: str, *, at: str | None = None) -> bytes | None:
        return await trio.to_thread.run_sync(self._read, corpus_path(path))

    async def existing(self, paths: Sequence[str], *, at: str | None = None) -> tuple[str, ...]:
        return await trio.to_thread.run_sync(self._existing, [corpus_path(path) for path in paths])

    async def list_paths(self, folder: str, *, at: str | None = None) -> tuple[str, ...]:
        return await trio.to_thread.run_sync(self._list_paths, corpus_path(folder))

    async def find_commit(self, trailers: Mapping[str, str]) -> str | None:
        return None

    async def publish(self, publication: Publication, *, confirm: Confirm) -> Published:
        """Written when a content file differs from what is there. ``base`` means nothing here: the last one wins."""
        async with self._turn:
            differs = [change for change in publication.content if await trio.to_thread.run_sync(self._differs, change)]
            if not differs:
                return Published(changed=False, commit=None)
            await confirm()
            for change in (*differs, *publication.bookkeeping):
                await trio.to_thread.run_sync(self._write, change)
        return Published(changed=True, commit=None)

    def _read(self, path: str) -> bytes | None:
        with self._opened(path) as file:
            if file is None:
                return None
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise CorpusUnavailable(f"{self.root / path} has {size} bytes; at most {MOST_BYTES} are read")
            return file.read(MOST_BYTES)

    def _differs(self, change: FileChange) -> bool:
        """Whether the file is another than ``change`` makes it. Of one with another size, however large, nothing is read."""
        with self._opened(change.path) as file:
            if file is None or change.content is None:
                return file is not None or change.content is not None
            facts, size = os.fstat(file.fileno()), len(change.content)
            return not stat.S_ISREG(facts.st_mode) or facts.st_size != size or file.read(size) != change.content

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO | None]:
        """The file for reading; None when there is none. Never waits for the other end of a pipe."""
        *folders, name = path.split("/")
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(self._folder(folders, create=False))
                file = stack.enter_context(_reader(folder, name))
            except FileNotFoundError:
                file = None
            except OSError as error:
                raise self._named(error, path) from error
            try:
                yield file
            except OSError as error:
                raise self._named(error, path) from error

    def _existing(self, paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(path for path in paths if self._is_file(path))

    def _is_file(self, path: str) -> bool:
        *folders, name = path.split("/")
        try:
            with self._folder(folders, create=False) as folder:
                return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._named(error, path) from error

    def _write(self, change: FileChange) -> None:
        *folders, name = change.path.split("/")
        try:
            with self._folder(folders, create=change.content is not None) as folder:
                if change.content is None:
                    os.unlink(name, dir_fd=folder)
                else:
                    _replace(folder, name, change.content)
                os.fsync(folder)
        except OSError as error:
            if change.content is not None or not isinstance(error, FileNotFoundError):
                raise self._named(error, change.path) from error

    @contextmanager
    def _folder(self, names: list[str], *, create: bool) -> Iterator[int]:
        """The descriptor of a folder below the root, walked step by step so that no step is a link."""
        if create:
            self.root.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=fd)
                below = os.open(name, _FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def _list_paths(self, folder: str) -> tuple[str, ...]:
        found, pending = [], [self.root / folder]
        while pending:  # os.walk recurses, and an agent may have made folders deeper than that goes
            try:
                with os.scandir(pending.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(Path(entry.path))
                        elif not entry.name.startswith(".") and not _is_folder(entry):
                            found.append(str(Path(entry.path).relative_to(self.root)))
            except OSError:
                continue  # gone, closed, or of a path that is too long
        return tuple(sorted(found))

    def _named(self, error: OSError, path: str) -> CorpusUnavailable | ResourceExhausted:
        file = self.root / path
        if error.errno in _FULL:
            return ResourceExhausted(f"cannot write {file}: {error.strerror}", errno=error.errno)
        if isinstance(error.filename, str | bytes) and Path(os.fsdecode(error.filename)) in (
            self.root,
            *self.root.parents,
        ):
            return CorpusUnavailable(f"{self.root} ({self.named_by}) cannot be made or used: {error.strerror}")
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            return CorpusUnavailable(
                f"{file}: a part of this path is a symbolic link or a file; nothing is written through it"
            )
        return CorpusUnavailable(f"{file}: {error.strerror}")


def _reader(folder: int, name: str) -> BinaryIO:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.fdopen(fd, "rb")
    except OSError:  # a folder, whose descriptor nobody else closes
        os.close(fd)
        raise


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a link leads to a folder; one that cannot be followed leads to none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f".{name}.{uuid4().hex}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
