"""A small cache of downloaded files on disk, so that a nightly re-harvest asks "has it changed?" and downloads little.

One file per address, named by its hash: a line of JSON, then the body. It is replaced as a whole, so several processes
may share a folder. Whatever is damaged counts as absent; nothing here ever fails a download.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

import structlog
from attrs import asdict, define, field, frozen

_log = structlog.get_logger(__name__)

_HEAD_LIMIT_BYTES: Final = 16_384
_STORES_BETWEEN_SWEEPS: Final = 50
_SUFFIX: Final = ".entry"
_PART: Final = ".part"


@frozen
class CachedFile:
    """A file as it was stored. ``etag`` or ``last_modified`` is set."""

    url: str
    etag: str
    last_modified: str
    sha256: str
    content: bytes = field(repr=False)

    @property
    def validators(self) -> dict[str, str]:
        """The request headers that make the server answer 304 when nothing changed; empty: it cannot be asked."""
        headers = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


def private_folder(*candidates: Path) -> Path | None:
    """The first of ``candidates`` that exists or can be made, and that nobody else could have put files into.

    A folder with a known name below ``/tmp`` may be somebody else's trap. ``None``: no candidate will do.
    """
    for folder in candidates:
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            own = all(_is_ours(path) for path in (folder, folder.parent))
        except OSError:
            continue
        if own and os.access(folder, os.W_OK | os.X_OK):
            return folder
        _log.warning("folder not used for downloads: it is not ours alone", folder=str(folder))
    return None


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


@define
class DiskCache:
    """All methods block on the disk: call them in a thread. ``max_bytes`` bounds the folder, least used goes first."""

    folder: Path
    max_bytes: int
    _stores: int = field(init=False, default=0)

    def load(self, url: str) -> CachedFile | None:
        """What is stored for ``url``, if it is still what was stored."""
        path = self._path(url)
        try:
            with path.open("rb") as file:
                head = json.loads(file.readline(_HEAD_LIMIT_BYTES))
                content = file.read()
            cached = CachedFile(**head, content=content)
            os.utime(path)
        except (OSError, ValueError, TypeError):
            return None
        intact = cached.url == url and hashlib.sha256(content).hexdigest() == cached.sha256
        return cached if intact else None

    def store(self, cached: CachedFile) -> None:
        """Keep a file; a full or unwritable disk is logged and forgotten."""
        head = asdict(cached, filter=lambda attribute, _: attribute.name != "content")
        line = json.dumps(head).encode()
        if len(line) >= _HEAD_LIMIT_BYTES or len(cached.content) > self.max_bytes // 2:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(self._path(cached.url), line + b"\n", cached.content)
            self._stores += 1
            if self._stores % _STORES_BETWEEN_SWEEPS == 1:
                self._sweep()
        except OSError as error:
            _log.warning("download cache not written", folder=str(self.folder), error=str(error))

    def drop(self, url: str) -> None:
        """Forget ``url``."""
        try:
            self._path(url).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("download cache not cleared", folder=str(self.folder), error=str(error))

    def _replace(self, path: Path, *parts: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=_PART, delete=False) as file:
            try:
                file.writelines(parts)
                file.flush()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    def _path(self, url: str) -> Path:
        return self.folder / (hashlib.sha256(url.encode()).hexdigest() + _SUFFIX)

    def _sweep(self) -> None:
        """Delete the entries used longest ago until the rest fits, and what a killed process left half-written."""
        entries = [
            (stat.st_mtime, stat.st_size, path)
            for path in self.folder.iterdir()
            if path.suffix in (_SUFFIX, _PART) and (stat := _stat(path)) is not None
        ]
        entries.sort(reverse=True)
        kept = 0
        newest = entries[0][0] if entries else 0.0
        for used, size, path in entries:
            kept += size
            stale_part = path.suffix == _PART and used < newest - 3600
            if stale_part or kept > self.max_bytes:
                path.unlink(missing_ok=True)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
