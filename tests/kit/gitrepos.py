"""Real bare repositories, and a rival who pushes to them at the worst moment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

ENV = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "rival",
    "GIT_AUTHOR_EMAIL": "rival@example.org",
    "GIT_COMMITTER_NAME": "rival",
    "GIT_COMMITTER_EMAIL": "rival@example.org",
}


def git(folder: Path, *arguments: str, check: bool = True, **more: str) -> str:
    """Run git in ``folder`` and return what it prints; ``more`` goes into the environment."""
    ended = subprocess.run(
        ["git", *arguments], cwd=folder, env={**ENV, **more}, capture_output=True, text=True, check=False, timeout=60
    )
    if check and ended.returncode != 0:
        raise AssertionError(f"git {arguments[0]}: {ended.stderr}")
    return ended.stdout


@frozen
class Remote:
    """A bare repository, looked at directly."""

    path: Path

    @classmethod
    def create(cls, path: Path, branch: str = "development") -> Remote:
        path.mkdir()
        git(path, "init", "--quiet", "--bare", f"--initial-branch={branch}")
        return cls(path)

    def tip(self, branch: str = "development") -> str | None:
        return git(self.path, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False).strip() or None

    def subjects(self, branch: str = "development") -> list[str]:
        """Oldest first."""
        return git(self.path, "log", "--reverse", "--format=%s", branch).splitlines()

    def files(self, branch: str = "development") -> dict[str, str]:
        names = git(self.path, "ls-tree", "-r", "--name-only", branch).splitlines()
        return {name: git(self.path, "show", f"{branch}:{name}") for name in names}

    def is_linear(self, branch: str = "development") -> bool:
        return git(self.path, "rev-list", "--merges", branch) == ""

    def hook(self, name: str, script: str) -> None:
        hook = self.path / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)

    def unhook(self, name: str) -> None:
        (self.path / "hooks" / name).unlink()


@frozen
class Rival:
    """Somebody else with a clone of their own."""

    clone: Path

    @classmethod
    def of(cls, remote: Remote, path: Path) -> Rival:
        git(path.parent, "clone", "--quiet", str(remote.path), str(path))
        return cls(path)

    def push(self, files: Mapping[str, str | None], subject: str = "by the rival", branch: str = "development") -> str:
        """One commit on what the branch is now; returns its id. A content None removes the file."""
        git(self.clone, "fetch", "--quiet", "origin")
        there = git(self.clone, "ls-remote", "--heads", "origin", branch)
        if there:
            git(self.clone, "checkout", "--quiet", "-B", branch, f"origin/{branch}")
        else:
            git(self.clone, "checkout", "--quiet", "-B", branch)
        for name, content in files.items():
            path = self.clone / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--allow-empty", "-m", subject)
        git(self.clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return git(self.clone, "rev-parse", "HEAD").strip()
