"""A corpus repository with one commit, a rival's clone of it, and settings for ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocols.corpus import (
    CorpusSettings,
)
from tests.kit.gitrepos import Remote, Rival


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    remote = Remote.create(tmp_path / "remote.git")
    Rival.of(remote, tmp_path / "first").push({"README.md": "laws\n"}, "first")
    return remote


@pytest.fixture
def rival(remote: Remote, tmp_path: Path) -> Rival:
    return Rival.of(remote, tmp_path / "rival")


@pytest.fixture
def settings(remote: Remote, tmp_path: Path) -> CorpusSettings:
    return CorpusSettings(
        repo_url=str(remote.path), path=tmp_path / "corpus", min_free_bytes=0, retry_base_s=0.005, push_limit_s=60
    )
