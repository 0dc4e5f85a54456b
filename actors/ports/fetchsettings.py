"""Where laws are fetched from and within which limits. Reading the environment is the composition's business."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from attrs import field, frozen
from attrs.validators import ge, gt

from protocols.bwb.urls import BWB_REPOSITORY, CVDR_REPOSITORY, SRU_SEARCH

MEBIBYTE: Final = 1 << 20
PUBLIC_HOSTS: Final = frozenset(
    {"repository.officiele-overheidspublicaties.nl", "repository.overheid.nl", "zoekservice.overheid.nl"}
)
_PORTS: Final = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host in lower case, port. All ``file:`` addresses share one."""


def base_url(text: str) -> str:
    """A base as it is used: ``https://host/path`` or ``file:///folder`` without a trailing slash.

    ``text`` is an http(s) URL, a ``file:`` URL, or a plain folder. Raises ``ValueError`` that says what is wrong.
    """
    stripped = text.strip()
    parts = urlsplit(stripped)
    if parts.scheme in _PORTS:
        return _http_base(stripped)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"a file: URL names a folder of this machine, not of {parts.netloc}")
        folder = url2pathname(parts.path)
    elif "://" in stripped:
        raise ValueError(f"{parts.scheme}:// is not supported: give http(s)://..., file:... or a folder")
    else:
        folder = stripped
    if not folder:
        raise ValueError("empty: give http(s)://..., file:... or a folder")
    return Path(folder).expanduser().absolute().as_uri().rstrip("/")


def search_base(text: str) -> str:
    """Like :func:`base_url`, but a folder cannot answer a search."""
    base = base_url(text)
    if base.startswith("file:"):
        raise ValueError("a search needs an http(s) address, a folder cannot answer it")
    return base


def _http_base(text: str) -> str:
    parts = urlsplit(text)
    if not parts.hostname:
        raise ValueError("no host in the URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user name or password in the URL is not supported: it would stand in logs")
    if parts.query or parts.fragment:
        raise ValueError("a base URL has no query and no fragment")
    _ = parts.port  # raises for a port that is none
    return text.rstrip("/")


def origin(url: str) -> Origin | None:
    """The origin of ``url``; ``None`` when it has none, or carries a user name, which only misleads readers."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme == "file":
        return ("file", "", 0)
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        return None
    return (parts.scheme, parts.hostname, port or _PORTS[parts.scheme])


@frozen(kw_only=True)
class FetchSettings:
    """Bases and limits of all downloads; every value has the product's default.

    The hosts of the four bases are the allow-list, and nothing else is: whoever points them at a mirror is never led
    out of it. ``metadata_timeout_s`` and ``content_timeout_s`` are for a whole fetch with all its attempts (WB-01);
    connect and read timeouts are for one operation. ``max_pause_s`` is the longest wait that a server may ask for:
    when it wants more, the fetch fails at once and the job comes back later. ``paced_hosts`` are spared by
    ``min_interval_s`` between requests; a mirror of one's own is not.
    """

    bwb_repository_url: str = field(default=BWB_REPOSITORY, converter=base_url)
    bwb_sru_url: str = field(default=SRU_SEARCH, converter=search_base)
    cvdr_repository_url: str = field(default=CVDR_REPOSITORY, converter=base_url)
    cvdr_sru_url: str = field(default=SRU_SEARCH, converter=search_base)
    user_agent: str = "regelrecht-supervisor"
    max_bytes: int = field(default=100 * MEBIBYTE, validator=gt(0))
    max_expansion: int = field(default=200, validator=gt(0))
    connect_timeout_s: float = field(default=10.0, validator=gt(0))
    read_timeout_s: float = field(default=30.0, validator=gt(0))
    metadata_timeout_s: float = field(default=60.0, validator=gt(0))
    content_timeout_s: float = field(default=300.0, validator=gt(0))
    attempts: int = field(default=3, validator=gt(0))
    first_pause_s: float = field(default=0.5, validator=ge(0))
    max_pause_s: float = field(default=20.0, validator=ge(0))
    max_redirects: int = field(default=5, validator=ge(0))
    max_connections: int = field(default=8, validator=gt(0))
    min_interval_s: float = field(default=0.1, validator=ge(0))
    paced_hosts: frozenset[str] = PUBLIC_HOSTS
    cache_folder: Path | None = None
    cache_bytes: int = field(default=512 * MEBIBYTE, validator=gt(0))

    @property
    def bases(self) -> tuple[str, ...]:
        return (self.bwb_repository_url, self.bwb_sru_url, self.cvdr_repository_url, self.cvdr_sru_url)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders among the bases: files are read from below these only."""
        return tuple(Path(url2pathname(urlsplit(base).path)) for base in self.bases if base.startswith("file:"))

    @property
    def allowed_origins(self) -> frozenset[Origin]:
        """The origins of the bases; for a plain http one on its own port also https, which some servers insist on."""
        found = {found for base in self.bases if (found := origin(base)) is not None}
        found |= {("https", host, 443) for scheme, host, port in found if (scheme, port) == ("http", 80)}
        return frozenset(found)
