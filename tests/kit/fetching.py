"""A fetcher that is pointed at a repository on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.ports.fetch import Fetcher, Purpose, open_fetcher
from actors.ports.fetchsettings import FetchSettings
from tests.kit.bwb_server import FakeRepository

XML = b"<?xml version='1.0'?><work>" + b"<a>wet</a>" * 50 + b"</work>"
KIND = Purpose.METADATA


@asynccontextmanager
async def client(server: FakeRepository, **changes: Any) -> AsyncIterator[Fetcher]:
    """A fetcher whose four bases are ``server``; pauses are short unless told otherwise."""
    values: dict[str, Any] = {
        "bwb_repository_url": server.url,
        "bwb_sru_url": f"{server.url}/sru",
        "cvdr_repository_url": server.url,
        "cvdr_sru_url": f"{server.url}/sru",
        "first_pause_s": 0.01,
        **changes,
    }
    async with open_fetcher(FetchSettings(**values), jitter=random.Random(7)) as fetcher:
        yield fetcher


async def fetched(server: FakeRepository, url: str, purpose: Purpose = KIND, **changes: Any) -> bytes:
    async with client(server, **changes) as fetcher:
        return (await fetcher.get(url, purpose)).content


def kept(folder: Path) -> list[Path]:
    """The entries of a cache folder."""
    return sorted(folder.iterdir())
