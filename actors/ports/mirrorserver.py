"""A small server for a mirror folder, on loopback: for demos, tests, and laws behind a closed network.

Files have an ETag and a date, so a second harvest from it downloads nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

HOST = "127.0.0.1"


async def serve_mirror(
    folder: Path,
    *,
    port: int = 0,
    stop: Callable[[], Awaitable[None]] | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve ``folder`` on loopback until ``stop`` returns, or for ever; port 0 takes a free one.

    ``nursery.start`` gives the base URL. Raises ``NotADirectoryError`` when there is no such folder.
    """
    if not await trio.Path(folder).is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")
    app = cast(ASGIFramework, Starlette(routes=[Mount("/", StaticFiles(directory=folder))]))
    config = Config()
    config.bind = [f"{HOST}:{port}"]
    config.include_server_header = False
    config.errorlog = logging.getLogger(__name__)
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(
            lambda task_status: serve(app, config, shutdown_trigger=stop, task_status=task_status)
        )
        task_status.started(urls[0].rstrip("/"))
