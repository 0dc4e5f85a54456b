"""What a start looks at on this machine, so that an operator hears of it before jobs fail of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from protocols.failures import InvalidInput
from schema.rows import JobType
from supervisor.roles import Served
from supervisor.settings import Settings

_WRITES_LAWS = frozenset({JobType.HARVEST, JobType.ENRICH})


def refuse_what_cannot_work(settings: Settings, roles: Served) -> None:
    """InvalidInput for what every job would fail of until somebody changes this machine."""
    if settings.corpus.repo_url is not None and _writes_laws(roles) and shutil.which("git") is None:
        raise InvalidInput(
            "CORPUS_REPO_URL is set, and there is no git on the PATH: install git, or unset CORPUS_REPO_URL"
        )


def hints(settings: Settings, roles: Served) -> Iterator[str]:
    """A sentence for each setting that names something which is not there or cannot be used by this user."""
    corpus = settings.corpus
    if corpus.repo_url is None and _writes_laws(roles) and not _writable(corpus.regulation_repo_path):
        yield (
            f"REGULATION_REPO_PATH={str(corpus.regulation_repo_path)!r} cannot be made or written by this user: no law can be "
            "put there"
        )


def _writes_laws(roles: Served) -> bool:
    return any(job_type in _WRITES_LAWS for service in roles.services for job_type in service.job_types)


def _writable(folder: Path) -> bool:
    """Whether ``folder`` could be written, or made in the nearest one above it that is there."""
    above = folder.absolute()
    while not above.exists() and above != above.parent:
        above = above.parent
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK) and not _made_by_the_kernel(above)


def _made_by_the_kernel(folder: Path) -> bool:
    """Root may write anywhere, but nobody makes a folder there."""
    return folder.is_relative_to("/proc") or folder.is_relative_to("/sys")
