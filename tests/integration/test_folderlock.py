"""Temporary folders of killed processes: swept by the next start, those of the living left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.ports.folderlock import YOUNG_S, temporary_folder
from actors.ports.git import private_home

HOLDER = """
import sys
from actors.ports.git import private_home
with private_home() as home:
    (home / "askpass").write_text("#!/bin/sh")
    print(home, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this test and of the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a private folder that looks old."""
    argv = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        home = Path(process.stdout.readline().strip())
        age(home)
        try:
            yield process, home
        finally:
            process.kill()


def age(folder: Path) -> None:
    long_ago = folder.stat().st_mtime - YOUNG_S - 1
    os.utime(folder, (long_ago, long_ago))


def test_a_folder_is_private_and_gone_afterwards(place: Path) -> None:
    with private_home() as home:
        assert home.parent == place
        assert home.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_the_folder_of_a_killed_process_is_swept_at_the_next_start(place: Path) -> None:
    with holder() as (process, left):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (left / "askpass").exists()
        with private_home() as home:
            assert list(place.iterdir()) == [home]


def test_the_folder_of_a_living_process_stays(place: Path) -> None:
    with holder() as (_, theirs), private_home() as ours:
        assert set(place.iterdir()) == {theirs, ours}
        with private_home() as second:  # nor do two of one process take each other's
            assert set(place.iterdir()) == {theirs, ours, second}


def test_what_is_new_is_of_another_name_or_is_no_folder_stays(place: Path) -> None:
    secret = place / "secret"
    secret.mkdir()
    (secret / "kept").touch()
    (place / "regelrecht-git-new").mkdir()
    (place / "regelrecht-git-file").touch()
    (place / "regelrecht-git-link").symlink_to(secret)
    age(secret)
    with temporary_folder("regelrecht-git-"):
        pass
    assert {path.name for path in place.iterdir()} == {
        *("secret", "regelrecht-git-new", "regelrecht-git-file", "regelrecht-git-link")
    }
    assert (secret / "kept").exists()


def test_what_an_agent_closed_or_nested_deeply_is_swept_too(place: Path) -> None:
    left = place / "enrich-once-killed"
    (left / "closed" / "in").mkdir(parents=True)
    at = os.open(left, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    (left / "closed").chmod(0)
    age(left)
    with temporary_folder("enrich-once-") as ours:
        assert list(place.iterdir()) == [ours]
