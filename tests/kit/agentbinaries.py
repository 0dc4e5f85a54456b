"""The real agent CLIs for tests: pinned packages, fetched with the ordinary npm client, checked, unpacked (D61).

They are too large and not free to be committed. No script of a package is ever run: the one file that is wanted is taken
out of the archive. ``CLAUDE_PATH`` and ``OPENCODE_PATH`` name other binaries.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import frozen

PINS_FILE = Path(__file__).parents[1] / "agents" / "pins.json"
FETCH_LIMIT_S = 300.0


class NotAvailable(Exception):
    """The packages cannot be had here, and why: no fault of theirs or ours."""


class WrongPackage(Exception):
    """What was downloaded is not what is pinned."""


@frozen
class Pin:
    """One package. ``sha512`` (base64) is that of the archive, ``file`` the path in it of the binary."""

    package: str
    version: str
    sha512: str
    file: str

    @property
    def binary(self) -> Path:
        """Where it lies once it was unpacked: outside the checkout, in a folder named for the content."""
        digest = base64.b64decode(self.sha512).hex()[:16]
        name = f"{self.package.replace('/', '-').removeprefix('@')}-{self.version}-{digest}"
        return cache_folder() / name / Path(self.file).name


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "regelrecht-supervisor" / "agents"


def pins() -> Mapping[str, Pin]:
    """By provider."""
    return {name: Pin(**pin) for name, pin in json.loads(PINS_FILE.read_bytes()).items()}


def binary(provider: str) -> Path:
    """The CLI of ``provider``; skips the calling test where there is none."""
    given = os.environ.get(f"{provider.upper()}_PATH")
    path = Path(given) if given else pins()[provider].binary
    if not path.is_file():
        pytest.skip(f"no {provider} here: `make test-agents` fetches it")
    return path


def fetch(pin: Pin) -> Path:
    """The binary of ``pin``, downloaded when it is not there yet. NotAvailable; WrongPackage."""
    if pin.binary.is_file():
        return pin.binary
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NotAvailable("packages not available for this machine")
    npm = shutil.which("npm")
    if npm is None:
        raise NotAvailable("npm missing")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_folder()) as folder:
        archive = _download(npm, pin, Path(folder))
        _check(archive, pin)
        _unpack(archive, pin, Path(folder) / "unpacked")
    return pin.binary


def _download(npm: str, pin: Pin, folder: Path) -> Path:
    what = f"{pin.package}@{pin.version}"
    argv = [npm, "pack", "--json", "--ignore-scripts", "--no-update-notifier", "--pack-destination", str(folder), what]
    try:
        ended = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=FETCH_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"packages not available ({what}: no answer in {FETCH_LIMIT_S:g} s)") from error
    archives = list(folder.glob("*.tgz"))
    if ended.returncode != 0 or len(archives) != 1:
        raise NotAvailable(f"packages not available ({what}: npm ended with {ended.returncode})")
    return archives[0]


def _check(archive: Path, pin: Pin) -> None:
    with archive.open("rb") as file:
        actual = base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
    if actual != pin.sha512:
        raise WrongPackage(f"{pin.package}@{pin.version} has sha512 {actual}, but {pin.sha512} is pinned")


def _unpack(archive: Path, pin: Pin, folder: Path) -> None:
    """Take the one file out; the folder appears under its name when it is whole."""
    folder.mkdir()
    target = folder / pin.binary.name
    with tarfile.open(archive) as content:
        member = content.getmember(pin.file)
        source = content.extractfile(member)
        if source is None or not member.isreg():
            raise WrongPackage(f"{pin.file} in {pin.package}@{pin.version} is no plain file")
        with source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    target.chmod(0o755)
    try:
        folder.rename(pin.binary.parent)
    except OSError:  # somebody else was faster
        if not pin.binary.is_file():
            raise
