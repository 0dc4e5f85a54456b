"""The configuration of the checkout: written by us as a whole, whatever was in it.

A checkout that is taken over may name programs to run (``remote.origin.uploadpack``), other places to push to (``pushurl``,
``url.*.insteadOf``), another working tree, or further files of this kind. Keys to guard against would never be all of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

ORIGIN: Final = "remote.origin.url"

_OF_THE_FORMAT: Final = {"extensions.objectformat": ("sha1", "sha256"), "extensions.refstorage": ("files", "reftable")}
"""What must be known to read the repository at all."""

_IN_PARTS: Final = ("extensions.partialclone", "remote.origin.promisor")
"""Objects are missing, and git would ask for them one by one whenever it meets a gap."""


def parsed(listed: bytes) -> Mapping[str, str]:
    """What ``git config --null --list`` printed; the last of several values, as git itself takes it."""
    entries = (entry.partition("\n") for entry in listed.decode(errors="replace").split("\0") if entry)
    return {key: value for key, _, value in entries}


def is_whole(found: Mapping[str, str]) -> bool:
    """Whether the repository has all objects of its commits, and says where it comes from."""
    return bool(found.get(ORIGIN)) and not any(key in found for key in _IN_PARTS)


def text_for(repo_url: str, found: Mapping[str, str]) -> str:
    """The whole file for a repository whose remote is ``repo_url``; of ``found`` only the format of the objects stays."""
    kept = {
        key.partition(".")[2]: value
        for key, values in _OF_THE_FORMAT.items()
        if (value := found.get(key, "").lower()) in values
    }
    lines = ["[core]", f"\trepositoryformatversion = {1 if kept else 0}", "\tbare = false"]
    if kept:
        lines += ["[extensions]", *(f"\t{name} = {value}" for name, value in kept.items())]
    lines += ['[remote "origin"]', f"\turl = {_quoted(repo_url)}"]
    return "".join(f"{line}\n" for line in lines)


def replace(git_dir: Path, text: str) -> None:
    """Set the file to ``text``, at once. A link in its place is replaced, not followed. Under the lock of the checkout."""
    draft = git_dir / "config.lock"  # git's own name for it, so that a left-over is known as one
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        draft.rename(git_dir / "config")
    except BaseException:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
