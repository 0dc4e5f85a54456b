"""Publications for tests of the corpus, and what happens to them on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from protocols.corpus import (
    Confirm,
    CorpusPort,
    FileChange,
    Publication,
)
from tests.kit.gitrepos import Remote, git
from tests.kit.processes import until

LAW = "regulation/nl/wet/zorgwet/2025-01-01.yaml"
STATUS = "regulation/nl/wet/zorgwet/status.yaml"


async def yes() -> None:
    """The lease is ours."""


def law(text: str, path: str = LAW, *, status: str | None = None, base: str | None = None) -> Publication:
    bookkeeping = (FileChange(STATUS, status.encode()),) if status is not None else ()
    return Publication((FileChange(path, text.encode()),), f"harvest: {text}", bookkeeping, base=base)


def other(number: int) -> Publication:
    return law(f"law {number}", f"regulation/nl/wet/law-{number}/2025-01-01.yaml")


def at_most(times: int, act: Callable[[int], object]) -> Confirm:
    """A confirmation during which something else happens, the first ``times`` times."""
    calls = 0

    async def confirm() -> None:
        nonlocal calls
        calls += 1
        if calls <= times:
            act(calls)

    return confirm


def corpus_publish(corpus: CorpusPort, publication: Publication) -> Callable[[], Awaitable[None]]:
    async def publish() -> None:
        await corpus.publish(publication, confirm=yes)

    return publish


HANG = 'echo $$ > "$GIT_DIR/hanging"; exec sleep 60'


async def hanging(remote: Remote) -> int:
    """Wait until a push hangs in the hook; returns the pid of the hook."""
    note = remote.path / "hanging"
    await until(lambda: note.exists() and note.read_text().endswith("\n"))
    return int(note.read_text())


README = "README.md"


def law_and_status(text: str, path: str = LAW) -> Publication:
    return Publication((FileChange(path, text.encode()),), f"harvest: {text}", (FileChange(STATUS, text.encode()),))


def is_clean(checkout: Path, remote: Remote, branch: str = "development") -> bool:
    return (
        git(checkout, "status", "--porcelain", "--ignored") == ""
        and git(checkout, "symbolic-ref", "HEAD").strip() == f"refs/heads/{branch}"
        and git(checkout, "rev-parse", "HEAD").strip() == remote.tip(branch)
    )
