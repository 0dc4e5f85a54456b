"""How `make test-agents` gets the real CLIs: what is pinned, and what happens where it cannot be had (D61)."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from attrs import evolve

from tests.kit import agentbinaries
from tests.kit.agentbinaries import NotAvailable, Pin, WrongPackage

ROOT = Path(__file__).parents[3]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A package as npm packs one, with a script that must never be run."""
    path = tmp_path / "made.tgz"
    with tarfile.open(path, "w:gz") as content:
        for name, text in {"package/bin/agent": "#!/bin/sh\n", "package/package.json": '{"scripts": {}}'}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            content.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def pin(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    """The package, and an npm that hands it out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    npm(tmp_path, monkeypatch, f'for last; do :; done\ncp {archive} "$6/made.tgz"; [ "$last" = agent-linux@1.2.3 ]')
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    return Pin("agent-linux", "1.2.3", digest, "package/bin/agent")


def npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")


@pytest.mark.claim("S0-135")
def test_both_clis_are_pinned_by_version_and_content() -> None:
    found = agentbinaries.pins()
    assert {name: pin.version for name, pin in found.items()} == {"claude": "2.1.303", "opencode": "1.18.33"}
    for pin in found.values():
        assert len(base64.b64decode(pin.sha512)) == 64
    assert not re.search(r"https?:|registry", agentbinaries.PINS_FILE.read_text())


def test_the_one_file_is_taken_out_once_and_can_be_executed(
    pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = agentbinaries.fetch(pin)
    assert binary.read_text() == "#!/bin/sh\n"
    assert os.access(binary, os.X_OK)
    assert sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()) == ["agent"]
    npm(tmp_path, monkeypatch, "exit 1")
    assert agentbinaries.fetch(pin) == binary


def test_another_content_than_the_pinned_one_is_refused_and_not_kept(pin: Pin, tmp_path: Path) -> None:
    other = evolve(pin, sha512=base64.b64encode(bytes(64)).decode())
    with pytest.raises(WrongPackage, match="is pinned"):
        agentbinaries.fetch(other)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_packages_that_cannot_be_had_are_no_fault(pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, monkeypatch, "echo E404 >&2; exit 1")
    with pytest.raises(NotAvailable, match="packages not available"):
        agentbinaries.fetch(pin)


def test_without_npm_the_suite_says_so_and_ends_well(tmp_path: Path) -> None:
    given = {"PATH": str(tmp_path), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    argv = [sys.executable, "-m", "tests.agents"]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"agents: (npm missing|packages not available for this machine): skipped\n", done.stdout)
