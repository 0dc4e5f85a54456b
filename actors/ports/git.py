"""Git as a child process: a sealed environment, the token by askpass only, errors typed and redacted.

Nothing of the machine's or the user's git configuration is read, no hook of a checkout runs, no prompt waits. The token
is never in an argument, an address or a file: a script of two lines hands it over from its own environment, and only
to the host that the corpus lives on (GT-09).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from attrs import field, frozen

from actors.ports.child import Exit, KilledBy, run_child
from actors.ports.folderlock import temporary_folder
from actors.ports.guardian import Guardian
from protocols.corpus import CorpusDenied, CorpusSettings, CorpusUnavailable
from protocols.failures import ResourceExhausted
from protocols.redaction import redact

LOCAL_LIMIT_S = 60.0
"""For commands that do not leave the machine."""

GRACE_S = 2.0

_ASKPASS = """#!/bin/sh
# $1 is "Username for 'https://host': " or "Password for 'https://user@host': ".
case "$1" in
  *"//$REGELRECHT_GIT_HOST':"* | *"@$REGELRECHT_GIT_HOST':"*) ;;
  *) exit 1 ;;
esac
case "$1" in
  Username*) echo token ;;
  *) printf '%s\\n' "$REGELRECHT_GIT_TOKEN" ;;
esac
"""

_INHERITED = (
    *("PATH", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
)

_CONFIG: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.symlinks": "false",  # a committed link to /etc stays a small text file (corpus traps, 13.9)
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    # Pods have low limits on threads.
    "core.preloadIndex": "false",
    "index.threads": "1",
    "pack.threads": "1",
    "checkout.workers": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "protocol.ext.allow": "never",
    "credential.helper": "",
    # A connection that stands still ends by itself, before the limit of the whole command.
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}

# Lines that git itself writes, in the C locale. What the other side says begins with "remote:" and decides nothing.
_DISK_FULL = ("No space left on device", "Out of diskspace", "Disk quota exceeded")
_NO_PROCESS = ("cannot fork", "unable to fork", "Cannot allocate memory", "Resource temporarily unavailable")
_DENIED = ("Authentication failed for", "could not read Username", "could not read Password", "returned error: 403")


class GitFailed(CorpusUnavailable):
    """A git command ended with an error that has no class of its own."""


class GitTimedOut(CorpusUnavailable):
    """A git command ran into its limit and was killed."""


@frozen
class Git:
    """How to call git for one corpus. ``secrets`` are taken out of all error texts."""

    environment: Mapping[str, str] = field(repr=False)
    home: Path
    """A private folder without a repository, for commands that need none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    guardian: Guardian | None = field(default=None, repr=False)

    @classmethod
    def for_corpus(cls, settings: CorpusSettings, home: Path, guardian: Guardian | None = None) -> Self:
        """``home``: an empty private folder (0700) that lives as long as this object; see :func:`private_home`."""
        config = dict(_CONFIG)
        environment = {
            **{name: value for name in _INHERITED if (value := os.environ.get(name))},
            "HOME": str(home),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=30",
            "GIT_AUTHOR_NAME": settings.author_name,
            "GIT_AUTHOR_EMAIL": settings.author_email,
            "GIT_COMMITTER_NAME": settings.author_name,
            "GIT_COMMITTER_EMAIL": settings.author_email,
        }
        if settings.token and (host := _host_for_token(settings.repo_url)):
            script = home / "askpass"
            fd = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700)
            with os.fdopen(fd, "w") as file:
                file.write(_ASKPASS)
            config["credential.username"] = "token"
            environment["GIT_ASKPASS"] = str(script)
            environment["REGELRECHT_GIT_TOKEN"] = settings.token
            environment["REGELRECHT_GIT_HOST"] = host
        return cls(
            {**environment, **_as_environment(config)}, home, (settings.token,) if settings.token else (), guardian
        )

    async def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        limit_s: float = LOCAL_LIMIT_S,
        accept: tuple[int, ...] = (0,),
    ) -> Exit:
        """Run one command. Exit codes other than ``accept`` raise.

        GitTimedOut after ``limit_s``; ResourceExhausted on a full disk or no process; CorpusDenied when the remote
        does not take our credentials; GitFailed for the rest.
        """
        ended = await run_child(
            ["git", *arguments],
            env=self.environment,
            cwd=cwd or self.home,
            stdin=stdin,
            limit_s=limit_s,
            grace_s=GRACE_S,
            guardian=self.guardian,
        )
        if ended.killed_by is not None or ended.code not in accept:
            raise self.failure(arguments[0], ended, limit_s)
        return ended

    def failure(self, command: str, ended: Exit, limit_s: float) -> CorpusUnavailable | ResourceExhausted:
        """The typed error that an unwanted end stands for."""
        if ended.killed_by is KilledBy.LIMIT:
            return GitTimedOut(f"git {command} was stopped after {limit_s:g} s")
        if ended.killed_by is KilledBy.OUTPUT:
            return GitFailed(f"git {command} wrote too much")
        text = ended.stderr_tail.decode(errors="replace")
        ours = [line for line in text.splitlines() if not line.startswith("remote:")]
        how = f"exit code {ended.code}" if ended.code is not None else f"signal {ended.signal}"
        message = f"git {command} failed ({how}): {self.shown(text)}"
        if _holds(ours, _DISK_FULL) or _holds(ours, _NO_PROCESS):
            return ResourceExhausted(message)
        if _holds(ours, _DENIED):
            return CorpusDenied(f"{message}; check CORPUS_GIT_TOKEN and its rights")
        return GitFailed(message)

    def shown(self, text: str) -> str:
        """``text`` for people: one line, without secrets."""
        return redact(" / ".join(line.strip() for line in text.splitlines() if line.strip()), self.secrets)


def private_home() -> AbstractContextManager[Path]:
    """A folder that only we can enter, removed at the end, or by the next start when this process is killed."""
    return temporary_folder("regelrecht-git-")


def _as_environment(config: Mapping[str, str]) -> Mapping[str, str]:
    pairs = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config.items()):
        pairs[f"GIT_CONFIG_KEY_{number}"] = key
        pairs[f"GIT_CONFIG_VALUE_{number}"] = value
    return pairs


def _host_for_token(url: str) -> str | None:
    """The host that may have the token: https only, or this very machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"}):
        return parts.netloc.rpartition("@")[2]
    return None


def _holds(lines: Iterable[str], phrases: Iterable[str]) -> bool:
    return any(phrase in line for line in lines for phrase in phrases)
