"""What the embedded server needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen


def default_base(environ: Mapping[str, str]) -> Path:
    """``$XDG_DATA_HOME/regelrecht-supervisor/postgres``; commands with the same value share one server."""
    data_home = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "share")
    return Path(data_home) / "regelrecht-supervisor" / "postgres"


def _absolute(path: Path) -> Path:
    return path.absolute()


@frozen(kw_only=True)
class EmbeddedSettings:
    """One base directory is one server. Limits are seconds."""

    base: Path = field(converter=_absolute)
    bindir: Path | None = None
    """Folder with ``postgres`` and ``initdb``; None: the installed extra, then the newest PostgreSQL of the system."""
    user: str | None = None
    """System user of the server when we are root, which PostgreSQL refuses. None: ``postgres`` if there is one, else ``nobody``."""
    durable: bool = True
    """False switches fsync off: a power cut loses the data. For tests."""
    options: Mapping[str, str] = field(factory=dict)
    """Further server settings, as ``-c name=value``."""
    start_limit_s: float = 60
    """For the server to answer, crash recovery included."""
    own_wait_s: float = 30
    """How long one that must own the server waits for the present owner to go."""
    leave_wait_s: float = 30
    """How long the owner waits, when it is done, for commands that joined."""
