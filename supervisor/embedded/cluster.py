"""The data directory: made so that a crash in the middle leaves nothing that looks whole, and checked before use."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from attrs import frozen

from protocols.failures import DatabaseUnavailable, InvalidInput
from supervisor.embedded.account import Account
from supervisor.embedded.binaries import Binaries
from supervisor.embedded.deathsignal import dies_with_us

SUPERUSER = "regelrecht"
HOMES = Path("/var/lib/regelrecht-supervisor")
"""Where root keeps data whose base directory the server's user cannot pass, such as one under ``/root``."""

_UNUSABLE = "cannot be made or written by this user: put XDG_DATA_HOME where it can"
_SOCKET_PATH_BYTES = 108
_SOCKET_NAME = ".s.PGSQL.5432"


@frozen
class Cluster:
    """The files of one embedded server. Only ``data`` and ``sockets`` belong to the server's user."""

    home: Path
    sockets: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def complete(self) -> Path:
        """Exists only when initdb ran to its end; data without it are wiped."""
        return self.home / "initdb.ok"

    @property
    def hba(self) -> Path:
        return self.home / "pg_hba.conf"

    @property
    def ident(self) -> Path:
        return self.home / "pg_ident.conf"

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    @property
    def pidfile(self) -> Path:
        return self.data / "postmaster.pid"

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@/postgres?host={self.sockets}&port=5432"


def locate(base: Path, account: Account) -> Cluster:
    """Where the files of ``base`` are: in it, or in a place of the same name that the server's user can reach."""
    try:
        base.mkdir(mode=0o755 if account.switch else 0o700, parents=True, exist_ok=True)
        usable = os.access(base, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        raise InvalidInput(f"{base}, the folder of the embedded PostgreSQL, {_UNUSABLE} ({error.strerror})") from error
    if not usable:
        raise InvalidInput(f"{base}, the folder of the embedded PostgreSQL, {_UNUSABLE}")
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    home = base
    if not account.may_enter(base):
        home = HOMES / f"embedded-{digest}"
        try:
            home.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"user {account.name} cannot pass all directories down to {base} and {home} cannot be made "
                f"({error.strerror}): put XDG_DATA_HOME where that user may enter"
            ) from error
        if not account.may_enter(home):
            raise InvalidInput(f"user {account.name} can enter neither {base} nor {home}: move XDG_DATA_HOME")
    sockets = home / "run"
    if len(os.fsencode(sockets / _SOCKET_NAME)) >= _SOCKET_PATH_BYTES or set(str(sockets)) & set(" ,&?#%+="):
        sockets = Path(tempfile.gettempdir()) / f"regelrecht-{account.uid}-{digest}"
    return Cluster(home, sockets)


def prepare(cluster: Cluster, binaries: Binaries, account: Account, *, durable: bool) -> None:
    """Make the data directory if there is none that is whole, and everything beside it. Call it under the lock."""
    if cluster.data.exists() and not cluster.complete.exists():
        _discard(cluster.data)
    if not cluster.data.exists():
        cluster.complete.unlink(missing_ok=True)
        account.own(cluster.data)
        _initdb(cluster, binaries, account, durable=durable)
        cluster.complete.touch()
    _check(cluster, binaries, account)
    _fresh_sockets(cluster, account)
    _admit_only_us(cluster, account)


def _discard(data: Path) -> None:
    """Out of the way first: a straggler of a killed initdb may still write, into a directory it has open."""
    junk = data.with_name(f"{data.name}.unfinished.{os.getpid()}")
    data.rename(junk)
    shutil.rmtree(junk, ignore_errors=True)


def _initdb(cluster: Cluster, binaries: Binaries, account: Account, *, durable: bool) -> None:
    command: list[str | Path] = [binaries.initdb, "-D", cluster.data, "-U", SUPERUSER]
    command += ["-E", "UTF8", "--locale=C.UTF-8", "--auth-local=peer", "--auth-host=reject"]
    if not durable:
        command.append("--no-sync")
    answer = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd="/",
        env=environment(binaries),
        start_new_session=True,
        preexec_fn=dies_with_us("KILL"),
        **account.popen,
    )
    if answer.returncode != 0:
        _discard(cluster.data)
        raise DatabaseUnavailable(f"initdb of the embedded PostgreSQL failed: {answer.stdout.strip()[-800:]}")


def environment(binaries: Binaries) -> dict[str, str]:
    """Nothing of ours: PG* variables would change what the programs do, and secrets have no business there."""
    return {"PATH": f"{binaries.bindir}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _check(cluster: Cluster, binaries: Binaries, account: Account) -> None:
    owner = cluster.data.stat().st_uid
    if owner != account.uid:
        raise InvalidInput(
            f"the embedded PostgreSQL data in {cluster.data} belong to user id {owner}, not to {account.name} "
            f"({account.uid}): run as that user, or use another XDG_DATA_HOME"
        )
    version = (cluster.data / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != str(binaries.major):
        raise InvalidInput(
            f"the embedded PostgreSQL data in {cluster.data} were made by PostgreSQL {version}, but the binaries in "
            f"{binaries.bindir} are {binaries.major}: use binaries of PostgreSQL {version}, or dump and load the data, "
            "or move that directory away to start empty"
        )


def _fresh_sockets(cluster: Cluster, account: Account) -> None:
    """A lock file left beside an old socket names a pid, which a container soon gives to somebody else."""
    if not cluster.sockets.is_symlink() and cluster.sockets.is_dir():
        if cluster.sockets.stat().st_uid != account.uid:
            raise InvalidInput(f"{cluster.sockets} belongs to somebody else: remove it or use another XDG_DATA_HOME")
        for leftover in cluster.sockets.glob(f"{_SOCKET_NAME}*"):
            leftover.unlink()
    else:
        account.own(cluster.sockets)


def _admit_only_us(cluster: Cluster, account: Account) -> None:
    """The kernel vouches for the peer of a unix socket, so no password exists. Both files stay ours, not the server's."""
    us = "root" if account.switch else account.name
    cluster.hba.write_text(f"local all {SUPERUSER} peer map=supervisor\n", encoding="ascii")
    cluster.ident.write_text(f'supervisor "{us}" {SUPERUSER}\n', encoding="utf-8")
    for path in (cluster.hba, cluster.ident):
        path.chmod(0o644)
