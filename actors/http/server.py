"""The server of role ``api``: an actor that is drained like the others. New connections end with the first signal."""

from __future__ import annotations

import logging
from functools import partial

import structlog
import trio
from attrs import define, field
from hypercorn.config import Config
from starlette.applications import Starlette

from actors.http.connections import Connections
from actors.ports.binding import binding
from actors.ports.lifecycle import Lifecycle
from protocols.messages import Phase

_log = structlog.get_logger(__name__)

_IDLE_S = 30.0
_MAX_HEADER_BYTES = 16 * 1024


@define
class ApiServer:
    """Serves until the drain begins; then what is under way, results that are being read included, may take ``grace_s``.

    ``port`` 0 lets the system choose; the address is in the log and in ``urls``.
    """

    app: Starlette
    port: int
    lifecycle: Lifecycle
    host: str = "127.0.0.1"
    grace_s: float = 25.0
    urls: tuple[str, ...] = field(init=False, default=())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bound before it is ready. InvalidInput (in a group) when the port is taken."""
        connections = Connections(self.app, _config(), self.grace_s)
        stop = partial(self.lifecycle.reached, Phase.DRAINING)
        async with trio.open_nursery() as nursery:
            with binding(self.port, "API_PORT", host=self.host, host_setting="API_HOST"):
                self.urls = await nursery.start(connections.serve, self.host, self.port, stop)
            _log.info("api", urls=self.urls)
            task_status.started()


def _config() -> Config:
    config = Config()
    config.keep_alive_timeout = _IDLE_S
    config.h11_max_incomplete_size = _MAX_HEADER_BYTES
    config.include_server_header = False
    config.errorlog = logging.getLogger("hypercorn.error")
    return config
