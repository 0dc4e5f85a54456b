"""What is in a repository, and new commits in it: all by object id, never by index, working tree or HEAD (D39)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from actors.ports.git import Git, GitFailed
from protocols.corpus import corpus_path
from protocols.failures import InvalidInput
from protocols.fastimport import NewCommit, import_stream

LOG_LIMIT = 5000
"""Commits that are looked through for a trailer, at most."""


@frozen
class Objects:
    """The object store of one repository. Reading needs no lock; GitFailed when the repository is not whole."""

    git: Git
    path: Path

    async def ids(self, names: Sequence[str]) -> list[str | None]:
        """The ids of ``commit:path`` or ``commit^{commit}``, in one process; a directory's id ends in ``/``."""
        answers = await self.git.run(
            "cat-file", "--batch-check", cwd=self.path, stdin="".join(f"{name}\n" for name in names).encode()
        )
        found: list[str | None] = []
        for line in answers.stdout.decode().splitlines():
            words = line.split(" ")  # "id kind size", or "name missing"
            found.append((f"{words[0]}/" if words[1] == "tree" else words[0]) if len(words) == 3 else None)
        if len(found) != len(names):
            raise GitFailed(f"git cat-file gave {len(found)} answers to {len(names)} questions")
        return found

    async def has_commit(self, commit: str) -> bool:
        return (await self.ids([f"{commit_id(commit)}^{{commit}}"])) != [None]

    async def read(self, commit: str, path: str) -> bytes | None:
        """The content of a file of ``commit``; None when there is none. GitFailed when the commit is not here."""
        known, id_ = await self.ids([f"{commit_id(commit)}^{{commit}}", f"{commit}:{corpus_path(path)}"])
        if known is None:
            raise GitFailed(f"commit {commit} is not in this repository")
        if id_ is None or id_.endswith("/"):
            return None
        return (await self.git.run("cat-file", "blob", id_, cwd=self.path)).stdout

    async def existing(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Those of ``paths`` that are files of ``commit``. GitFailed when the commit is not here."""
        names = [f"{commit_id(commit)}^{{commit}}", *(f"{commit}:{corpus_path(path)}" for path in paths)]
        known, *ids = await self.ids(names)
        if known is None:
            raise GitFailed(f"commit {commit} is not in this repository")
        return tuple(path for path, id_ in zip(paths, ids, strict=True) if id_ is not None and not id_.endswith("/"))

    async def list_paths(self, commit: str, folder: str) -> tuple[str, ...]:
        listed = await self.git.run(
            *("ls-tree", "-r", "-z", "--name-only", commit_id(commit), "--", f"{corpus_path(folder)}/"), cwd=self.path
        )
        return tuple(sorted(name for name in listed.stdout.decode(errors="replace").split("\0") if name))

    async def log(self, commit: str) -> list[tuple[str, Mapping[str, str]]]:
        """Commits and their trailers, newest first, as far as the local history goes."""
        listed = await self.git.run(
            *("log", "-z", "--format=%H%n%(trailers:only,unfold)", f"--max-count={LOG_LIMIT}", commit_id(commit)),
            cwd=self.path,
        )
        commits: list[tuple[str, Mapping[str, str]]] = []
        for record in listed.stdout.decode(errors="replace").split("\0"):
            id_, *lines = record.split("\n")
            commits.append((id_, dict(line.partition(": ")[::2] for line in lines if ": " in line)))
        return commits

    async def is_ancestor(self, commit: str, of: str) -> bool:
        ended = await self.git.run("merge-base", "--is-ancestor", commit, of, cwd=self.path, accept=(0, 1))
        return ended.code == 0

    async def commit_on(self, parent: str | None, commits: Sequence[NewCommit]) -> list[str]:
        """Make a chain of commits on ``parent`` that change just these files, in one process. Returns their ids."""
        author = f"{self.git.environment['GIT_AUTHOR_NAME']} <{self.git.environment['GIT_AUTHOR_EMAIL']}>"
        stream = import_stream(author, int(time.time()), parent, commits)
        ended = await self.git.run("fast-import", "--quiet", "--force", "--done", cwd=self.path, stdin=stream)
        ids = ended.stdout.decode().split()
        if len(ids) != len(commits):
            raise GitFailed(f"git fast-import made {len(ids)} commits of {len(commits)}")
        return ids


def commit_id(text: str) -> str:
    """``text`` itself when it is a full id. InvalidInput else: it may come from a job's row."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text):
        raise InvalidInput(f"{text[:80]!r} is no id of a commit: 40 or 64 hexadecimal digits")
    return text
