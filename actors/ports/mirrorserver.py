"""A small server for a mirror folder, on loopback: for demos, tests, and laws behind a closed network.

``python -m actors.ports.mirrorserver DIR [--port N]`` prints the address to give to ``BWB_REPOSITORY_URL`` and serves
until it is interrupted. Files have an ETag and a date, so a second harvest downloads nothing.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
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


def main(argv: list[str] | None = None) -> None:
    """The command; an interrupt ends it."""
    parser = argparse.ArgumentParser(prog="mirrorserver", description="Serve a mirror of law files on loopback.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args(argv)
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is not a folder")
    with suppress(KeyboardInterrupt):
        trio.run(_announce_and_serve, arguments.folder, arguments.port, strict_exception_groups=False)


async def _announce_and_serve(folder: Path, port: int) -> None:
    async with trio.open_nursery() as nursery:
        url = await nursery.start(lambda task_status: serve_mirror(folder, port=port, task_status=task_status))
        print(f"BWB_REPOSITORY_URL={url}", flush=True)  # noqa: T201 - it is what the command is for


if __name__ == "__main__":
    main()
