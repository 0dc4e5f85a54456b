"""A web client that is pointed at a site on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.ports.webclient import Allowance, WebClient, WebPage, open_web
from actors.ports.webdial import Resolve
from tests.kit.website import Names, Website, crawl_settings


@asynccontextmanager
async def client(site: Website, *, resolve: Resolve | None = None, **changes: Any) -> AsyncIterator[WebClient]:
    settings = crawl_settings(site.port, **changes)
    async with open_web(settings, resolve=resolve or Names().resolve, jitter=random.Random(7)) as web:
        yield web


def allowance(limit_s: float = 30.0) -> Allowance:
    return Allowance(trio.CancelScope(deadline=trio.current_time() + limit_s))


async def fetched(site: Website, url: str, **changes: Any) -> WebPage:
    async with client(site, **changes) as web:
        return await web.fetch(url, allowance())
