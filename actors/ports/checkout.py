"""The local repository of the corpus: locked, fetched, mended, read and pushed from; never trusted.

Commits are made by ``git fast-import`` on top of the fetched tip, without index, working tree or HEAD (D39). So none of
what a killed process leaves there (a stale lock, a half-done rebase, a detached HEAD, edits) can get into a commit or
keep one from being made. The working tree is only a view: it is set to the tip when nobody waits.

All methods of :class:`Checkout` but ``locked`` are called with the lock held.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import trio
from attrs import define, field, frozen

from actors.ports import gitconfig
from actors.ports.git import Git, GitFailed
from actors.ports.gitobjects import Objects
from protocols.corpus import CorpusBusy, CorpusSettings, CorpusUnavailable
from protocols.failures import ResourceExhausted
from protocols.redaction import redact

_log = structlog.get_logger(__name__)

_LOCKS = ("index", "HEAD", "config", "packed-refs", "shallow", "FETCH_HEAD", "ORIG_HEAD", "objects/info/commit-graph")
_UNFINISHED = ("rebase-merge", "rebase-apply", "sequencer", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")

_HALF_WRITTEN = ("objects/pack/tmp_*", "objects/pack/.tmp-*", "fast_import_crash_*")


@frozen
class Tip:
    """What the remote branch is now. ``commit`` None: the remote has no commit at all."""

    commit: str | None
    exists: bool
    """False: the branch is not there yet, and ``commit`` is that of the base branch."""


@frozen
class PushAnswer:
    """``moved``: somebody pushed before us (not a fast-forward). Else ``refused`` has the remote's words, if any."""

    moved: bool = False
    refused: str | None = None


@define(eq=False)
class Checkout:
    """One repository on disk at ``settings.path``, with the remote named ``origin``."""

    settings: CorpusSettings
    git: Git
    objects: Objects = field(init=False)
    _turn: trio.Lock = field(init=False, factory=trio.Lock)
    _config: str | None = field(init=False, default=None)
    """What we made of its configuration; None: not looked at yet."""

    def __attrs_post_init__(self) -> None:
        self.objects = Objects(self.git, self.settings.path)

    @property
    def _git_dir(self) -> Path:
        return self.settings.path / ".git"

    @property
    def is_ours(self) -> bool:
        """Whether it is there, and its configuration is still what we wrote (needs no lock)."""
        written = self._config is not None and _text_of(self._git_dir / "config") == self._config
        return written and (self._git_dir / "HEAD").is_file()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """One turn: nobody else in this process or on this machine touches the checkout.

        CorpusBusy after ``lock_limit_s``. Under the lock, git's own lock files are left-overs of the dead (GT-05).
        """
        async with self._turn:
            path = self.settings.path
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                await self._lock_file(fd)
                self._clear_leftovers()
                yield
            finally:
                os.close(fd)

    async def _lock_file(self, fd: int) -> None:
        with trio.move_on_after(self.settings.lock_limit_s):
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await trio.sleep(random.uniform(0.02, 0.1))
                else:
                    return
        raise CorpusBusy(f"another process has used {self.settings.path} for {self.settings.lock_limit_s:g} s")

    def _clear_leftovers(self) -> None:
        locks = [self._git_dir / f"{name}.lock" for name in _LOCKS]
        locks += (self._git_dir / "refs").rglob("*.lock")
        for path in locks:
            if path.is_file() or path.is_symlink():
                path.unlink(missing_ok=True)
                _log.warning("corpus_stale_lock_removed", path=str(path))
        for pattern in _HALF_WRITTEN:  # on a disk that was full they would keep it so
            for path in self._git_dir.glob(pattern):
                path.unlink(missing_ok=True)
        for path in (self._git_dir / name for name in _UNFINISHED):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.exists():
                path.unlink()
            else:
                continue
            _log.warning("corpus_unfinished_work_removed", path=str(path))

    # -- the remote ---------------------------------------------------------------------------------------------------

    async def fetch(self) -> Tip:
        """Ask the remote what the branch is now and get it. Mends or makes the repository where needed.

        A broken repository is thrown away and cloned anew, once; while the remote does not answer, the local copy is left alone.
        """
        await self.ensure()
        try:
            return await self._fetch_or_look()
        except GitFailed as error:
            _log.warning("corpus_cloned_anew", reason=error.message)
            await self.rebuild()
            return await self._fetch_or_look()

    async def _fetch_or_look(self) -> Tip:
        """GitFailed when the fetch fails although the remote is well: then the repository is to blame."""
        branch, base = self.settings.branch, self.settings.base_branch
        try:
            return Tip(await self._fetch_branch(branch), exists=True)
        except GitFailed:
            heads = await self._remote_heads()
        if branch in heads:
            return Tip(await self._fetch_branch(branch), exists=True)
        if base in heads:
            return Tip(await self._fetch_branch(base), exists=False)
        if not heads:
            return Tip(None, exists=False)
        raise CorpusUnavailable(
            f"the corpus has neither the branch {branch} nor {base} to start it from: create one, or set CORPUS_BRANCH"
        )

    async def _fetch_branch(self, branch: str) -> str:
        """Always by an explicit refspec: what a clone is configured to track says nothing (corpus traps, 13.6)."""
        ref = f"refs/remotes/origin/{branch}"
        first = not self._has_refs()
        depth = [f"--depth={self.settings.clone_depth}"] if first and self.settings.clone_depth else []
        await self.git.run(
            *(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                *depth,
                "origin",
                f"+refs/heads/{branch}:{ref}",
            ),
            cwd=self.settings.path,
            limit_s=self.settings.clone_limit_s if first else self.settings.fetch_limit_s,
        )
        parsed = await self.git.run("rev-parse", "--verify", f"{ref}^{{commit}}", cwd=self.settings.path)
        return parsed.stdout.decode().strip()

    async def _remote_heads(self) -> set[str]:
        """Asked from outside the repository, so that only the remote can make it fail."""
        try:
            listed = await self.git.run(
                "ls-remote", "--heads", "--", self.settings.repo_url, limit_s=self.settings.fetch_limit_s
            )
        except GitFailed as error:
            raise CorpusUnavailable(error.message) from error
        return {line.partition("\trefs/heads/")[2] for line in listed.stdout.decode().splitlines()}

    async def get_commit(self, commit: str) -> bool:
        """Whether ``commit`` is here now, after asking the remote for it where it was not (a shallow or new clone)."""
        if await self.objects.has_commit(commit):
            return True
        try:
            await self.git.run(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", commit),
                cwd=self.settings.path,
                limit_s=self.settings.fetch_limit_s,
            )
        except GitFailed:
            return False
        return True

    async def push(self, commit: str) -> PushAnswer:
        """Offer ``commit`` as the new tip, by id: what HEAD or a local branch says does not matter. Never forces.

        GitFailed and its kin when there was no answer.
        """
        ended = await self.git.run(
            *("push", "--porcelain", "--no-verify", "origin", f"{commit}:refs/heads/{self.settings.branch}"),
            cwd=self.settings.path,
            limit_s=self.settings.push_limit_s,
            accept=(0, 1),
        )
        lines = ended.stdout.decode(errors="replace").splitlines()
        verdicts = [line.split("\t") for line in lines if line.count("\t") == 2]
        if ended.code == 0:
            return PushAnswer()
        for flag, _, summary in verdicts:
            if flag == "!":
                # "[rejected]" is our git's own word, before anything is sent; "[remote rejected]" quotes the remote.
                moved = summary.startswith("[rejected]")
                return PushAnswer(moved=moved, refused=None if moved else self.git.shown(summary))
        raise self.git.failure("push", ended, self.settings.push_limit_s)

    # -- the working tree ---------------------------------------------------------------------------------------------

    async def show(self, tip: Tip) -> None:
        """Set branch, index and working tree to the tip, whatever they were. Edits and stray files are gone."""
        if tip.commit is None:
            return
        head = f"refs/heads/{self.settings.branch}"
        if _text_of(self._git_dir / "HEAD") != f"ref: {head}\n":
            await self.git.run("symbolic-ref", "HEAD", head, cwd=self.settings.path)
        try:
            await self.git.run("reset", "--hard", "--quiet", tip.commit, cwd=self.settings.path)
        except GitFailed:
            (self._git_dir / "index").unlink(missing_ok=True)  # half written by somebody who was killed
            await self.git.run("reset", "--hard", "--quiet", tip.commit, cwd=self.settings.path)
        await self.git.run("clean", "-ffdxq", cwd=self.settings.path)

    async def tidy(self) -> None:
        """Pack loose objects when there are many. Automatic collection is off: it would run in the background."""
        await self.git.run(
            *("-c", "gc.auto=6700", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet"),
            cwd=self.settings.path,
            limit_s=self.settings.fetch_limit_s,
        )

    # -- the repository itself ----------------------------------------------------------------------------------------

    async def rebuild(self) -> None:
        """Throw everything away and begin anew. The next fetch clones."""
        self._config = None
        await trio.to_thread.run_sync(_empty, self.settings.path)
        await self.ensure()

    async def ensure(self) -> None:
        """Make an empty repository where there is none, and its configuration ours before git acts on it.

        Refuses a folder that is not ours to reset (never deletes it).
        """
        if self.is_ours:
            return
        path = self.settings.path
        path.mkdir(parents=True, exist_ok=True)
        if not self._git_dir.exists():
            if any(path.iterdir()):
                raise CorpusUnavailable(
                    f"{path} is not empty and no git checkout: give CORPUS_REPO_PATH a folder of its own"
                )
            await self._init()
        elif self._git_dir.is_symlink() or self._git_dir.is_file() or (self._git_dir / "commondir").exists():
            raise CorpusUnavailable(
                f"{path} is a checkout whose repository is kept elsewhere: give CORPUS_REPO_PATH a folder of its own"
            )
        found = await self._configured()
        if not gitconfig.is_whole(found):
            _log.warning("corpus_cloned_anew", reason="the checkout is no whole repository")
            await trio.to_thread.run_sync(_empty, path)
            await self._init()
            found = await self._configured()
        elif not _same_place(found[gitconfig.ORIGIN], self.settings.repo_url):
            raise CorpusUnavailable(
                f"{path} is a checkout of {redact(found[gitconfig.ORIGIN])}, not of CORPUS_REPO_URL: "
                "give CORPUS_REPO_PATH another folder"
            )
        config = gitconfig.text_for(self.settings.repo_url, found)
        gitconfig.replace(self._git_dir, config)
        self._config = config

    async def _init(self) -> None:
        path = self.settings.path
        free = shutil.disk_usage(path).free
        if free < self.settings.min_free_bytes:
            raise ResourceExhausted(
                f"no new clone in {path}: {free} bytes are free, {self.settings.min_free_bytes} are asked for"
            )
        await self.git.run("init", "--quiet", f"--initial-branch={self.settings.branch}", "--", str(path))
        await self.git.run("config", gitconfig.ORIGIN, self.settings.repo_url, cwd=path)

    async def _configured(self) -> Mapping[str, str]:
        """What its configuration says; nothing when this is no repository (half cloned, broken)."""
        git_dir = str(self._git_dir)
        try:
            # --git-dir, or git would look for a repository in the folders above a broken one.
            await self.git.run("--git-dir", git_dir, "rev-parse", "--git-dir")
            listed = await self.git.run(
                *("config", "--file", f"{git_dir}/config", "--no-includes", "--null", "--list"),
            )
        except GitFailed:
            return {}
        return gitconfig.parsed(listed.stdout)

    def _has_refs(self) -> bool:
        return (self._git_dir / "packed-refs").exists() or any(
            path.is_file() for path in (self._git_dir / "refs" / "remotes").rglob("*")
        )


def _same_place(one: str, other: str) -> bool:
    """Whether two addresses differ in user, final slash or ``.git`` only."""
    return _bare_address(one) == _bare_address(other)


def _bare_address(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", url).rstrip("/").removesuffix(".git")


def _empty(folder: Path) -> None:
    """Remove all that is in ``folder`` (a mount point itself cannot be removed). Follows no links."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
