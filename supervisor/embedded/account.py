"""Which system user the server runs as, and what that user can reach. Root is refused by PostgreSQL itself."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

from attrs import frozen

from protocols.failures import InvalidInput


@frozen
class Account:
    """``switch`` is True when we are root and must become somebody else for the server."""

    uid: int
    gid: int
    name: str
    switch: bool

    @property
    def popen(self) -> dict[str, Any]:
        """Arguments of ``subprocess.Popen`` that start a process as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}

    def may_enter(self, folder: Path) -> bool:
        """Whether ``folder`` and all its parents can be passed. Access lists beyond the mode bits are not seen."""
        return all(self._may_pass(part) for part in (folder, *folder.parents))

    def _may_pass(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def own(self, folder: Path) -> None:
        """Make ``folder`` (new, empty) private to this user."""
        folder.mkdir(mode=0o700)
        if self.switch:
            os.chown(folder, self.uid, self.gid)


def server_account(wanted: str | None) -> Account:
    """We ourselves; when we are root, ``wanted``, or else ``postgres`` or ``nobody``, whichever exists first."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), _name_of(os.geteuid()), switch=False)
    for name in (wanted,) if wanted else ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise InvalidInput(f"the embedded PostgreSQL cannot run as {name!r}, which is root")
        return Account(entry.pw_uid, entry.pw_gid, name, switch=True)
    raise InvalidInput(
        f"there is no system user {wanted or 'postgres or nobody'} for the embedded PostgreSQL to run as"
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise InvalidInput(
            f"user id {uid} has no entry in the user database, which PostgreSQL needs: "
            "run as a named user, or give a server in DATABASE_URL"
        ) from None
