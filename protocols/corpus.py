"""The git corpus in words: its settings, what is published and how it ends. No git here.

A *content* file decides whether there is anything to publish; *bookkeeping* (``status.yaml``, whose timestamp changes
every run) rides along or stays away (GT-04).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from attrs import field, frozen

from protocols.failures import InvalidInput, Transient

DEFAULT_BRANCH = "development"
PRODUCTION = "regelrecht"
"""The deployment name of production, which has no branch of its own."""

SUBJECT_LIMIT = 200
PATH_LIMIT = 512

Confirm = Callable[[], Awaitable[None]]
"""Called right before each push; raises to forbid it (D6: one confirmed beat of the job's row)."""


class CorpusUnavailable(Transient):
    """The corpus cannot be set up, read or pushed now. The job fails retryably (D39)."""

    kind: ClassVar[str] = "corpus_unavailable"


class CorpusBusy(CorpusUnavailable):
    """Another process holds the lock of the checkout."""

    kind = "corpus_busy"


class CorpusDenied(CorpusUnavailable):
    """The remote refuses our credentials."""

    kind = "corpus_denied"


class PushRejected(CorpusUnavailable):
    """The remote refuses the push itself: a protected branch, a hook, no right to write."""

    kind = "push_rejected"


class PushTimedOut(CorpusUnavailable):
    """Not pushed within the push limit. A late landing is harmless: a retry finds its own content there."""

    kind = "push_timeout"


@frozen
class FileChange:
    """``content`` None removes the file."""

    path: str = field()
    """Relative to the root of the corpus; see :func:`corpus_path`."""
    content: bytes | None = field(repr=False)

    @path.validator
    def _is_inside(self, attribute: object, value: str) -> None:
        corpus_path(value)


@frozen
class Publication:
    """One commit's worth. ``subject`` and trailer values may come from hostile text: see :func:`commit_message`."""

    content: tuple[FileChange, ...]
    subject: str
    bookkeeping: tuple[FileChange, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()
    base: str | None = None
    """The commit whose content the work started from: when the remote has something else by now, that is a
    PushConflict. None: whatever the branch holds when our turn comes, so that only a push in between conflicts."""


@frozen
class Published:
    """``changed`` False: the branch already held this content and nothing was committed."""

    changed: bool
    commit: str | None
    """On the remote branch, holding the content. None for a folder without git, or an empty branch left empty."""


class CorpusPort(Protocol):
    """What jobs see of the corpus: a git checkout, or a plain folder where no repository is configured.

    Commits are full hexadecimal ids; a folder has none. Raises CorpusUnavailable (with its subclasses) and
    ResourceExhausted (disk full, no process).
    """

    async def tip(self, *, max_age_s: float = 0.0) -> str | None:
        """The newest commit of the remote branch, asked at most ``max_age_s`` ago; None when there is none yet."""
        ...

    async def read(self, path: str, *, at: str | None = None) -> bytes | None:
        """The file on the remote branch as of commit ``at`` (None: as last fetched); None when it is not there."""
        ...

    async def existing(self, paths: Sequence[str], *, at: str | None = None) -> tuple[str, ...]:
        """Those of ``paths`` that are files, in their order; one look for all of them. ``at`` as in :meth:`read`."""
        ...

    async def list_paths(self, folder: str, *, at: str | None = None) -> tuple[str, ...]:
        """All files below ``folder``, at any depth, sorted; ``at`` as in :meth:`read`."""
        ...

    async def publish(self, publication: Publication, *, confirm: Confirm) -> Published:
        """Returns when the content is on the remote branch. Cancelled, it kills a push that is under way.

        Raises PushConflict when the same content files were changed there since ``base``, PushTimedOut, PushRejected,
        and whatever ``confirm`` raised.
        """
        ...

    async def find_commit(self, trailers: Mapping[str, str]) -> str | None:
        """The newest commit on the branch that has all these trailers, as far as the local history goes (D53)."""
        ...


def resolve_branch(environ: Mapping[str, str]) -> str:
    """The branch to publish to: pod name, then ``CORPUS_BRANCH``, then ``DEPLOYMENT_NAME``, then ``development``.

    The pod name is first because a preview environment is cloned with production's variables; its name is its own.
    """
    preview = _deployment_of(environ.get("HOSTNAME", ""))
    deployment = environ.get("DEPLOYMENT_NAME", "").strip()
    return (
        (preview if preview != PRODUCTION else "")
        or environ.get("CORPUS_BRANCH", "").strip()
        or (deployment if deployment != PRODUCTION else "")
        or DEFAULT_BRANCH
    )


def _deployment_of(hostname: str) -> str:
    """``pr12`` of ``pr12-harvester-5d8f-x2x``: a pod of a deployment has at least three dashes."""
    first, *rest = hostname.split("-")
    return first if len(rest) >= 3 and re.fullmatch(rf"{PRODUCTION}|pr[0-9]+", first) else ""


@frozen
class CorpusSettings:
    """Where the corpus lives. Durations are limits; ``push_limit_s`` holds for a publication in all (D6).

    InvalidInput at construction lists all faults at once.
    """

    repo_url: str
    path: Path = Path("/tmp/corpus-repo")
    branch: str = DEFAULT_BRANCH
    base_branch: str = DEFAULT_BRANCH
    """Where a branch that the remote does not have yet starts from."""
    author_name: str = "regelrecht-harvester"
    author_email: str = "noreply@minbzk.nl"
    token: str | None = field(default=None, repr=False)
    clone_depth: int | None = 1
    """Of the first fetch only; later ones get whatever is new (D39). None: the whole history."""
    min_free_bytes: int = 256 * 1024 * 1024
    """No new clone when the disk has less."""
    clone_limit_s: float = 600
    fetch_limit_s: float = 120
    lock_limit_s: float = 120
    push_limit_s: float = 300
    confirm_limit_s: float = 30
    retry_base_s: float = 0.5
    """First pause after a failed push; doubled each time, with jitter."""

    def __attrs_post_init__(self) -> None:
        if faults := self.faults():
            raise InvalidInput("; ".join(faults), faults=faults)

    def faults(self) -> list[str]:
        """What is wrong, in sentences that name the variable and never a secret."""
        faults = []
        if urlsplit(self.repo_url).password is not None:
            faults.append("CORPUS_REPO_URL holds a password: put it into CORPUS_GIT_TOKEN")
        if self.repo_url.startswith("-") or re.search(r"[\s\0]", self.repo_url) or "::" in self.repo_url:
            faults.append("CORPUS_REPO_URL is no address of a repository (https, ssh, file or a path)")
        if not self.path.is_absolute():
            faults.append(f"CORPUS_REPO_PATH must be an absolute path, not {str(self.path)!r}")
        if not is_branch_name(self.branch):
            faults.append(
                f"{self.branch!r} is no name for a branch (from HOSTNAME, CORPUS_BRANCH or DEPLOYMENT_NAME): "
                "use letters, digits and . _ - /"
            )
        for name, value in (("NAME", self.author_name), ("EMAIL", self.author_email)):
            if re.search(r"[<>\x00-\x1f\x7f]", value):
                faults.append(f"CORPUS_GIT_AUTHOR_{name} must not hold <, > or control characters")
        if self.token is not None and re.search(r"[\x00-\x20\x7f]", self.token):
            faults.append("CORPUS_GIT_TOKEN holds white space or control characters")
        return faults


def is_branch_name(name: str) -> bool:
    """Git's rules, and narrower: no component begins with a dot or a dash, or ends with a dot or ``.lock``."""
    parts = name.split("/")
    return len(name) <= 200 and all(
        re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", part) and not part.endswith((".", ".lock")) and ".." not in part
        for part in parts
    )


def corpus_path(path: str) -> str:
    """``path`` itself when it is fit for a file of the corpus. InvalidInput says what is wrong with it."""
    parts = path.split("/")
    if not re.fullmatch(r"[A-Za-z0-9/_.-]+", path) or len(path) > PATH_LIMIT:
        problem = f"only letters, digits and / _ - . are allowed, {PATH_LIMIT} at most"
    elif path.startswith("/"):
        problem = "it must be relative to the corpus"
    elif any(part in {"", ".", ".."} for part in parts):
        problem = "it has an empty, . or .. component"
    elif any(part.startswith("-") or part.lower().startswith(".git") for part in parts):
        problem = "no component may begin with a dash or with .git"
    else:
        return path
    raise InvalidInput(f"{path[:PATH_LIMIT]!r} is no path in the corpus: {problem}")


def commit_message(subject: str, trailers: tuple[tuple[str, str], ...] = ()) -> str:
    """One line of at most ``SUBJECT_LIMIT`` characters, and trailers. Law names are hostile: no control characters,
    and no line break that could begin a trailer of its own."""
    lines = [_one_line(subject)[:SUBJECT_LIMIT].rstrip() or "update"]
    if trailers:
        lines.append("")
        for key, value in trailers:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", key):
                raise InvalidInput(f"{key!r} is no name for a trailer: use letters, digits and dashes")
            lines.append(f"{key}: {_one_line(value)[:SUBJECT_LIMIT]}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())
