"""``/healthz``, ``/readyz`` and ``/metrics`` for the platform (D19). Imported only when a port is configured (D28)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog
import trio
from attrs import asdict, define, frozen
from hypercorn.config import Config
from hypercorn.trio import serve
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from actors.ports.binding import binding
from actors.ports.lifecycle import Lifecycle
from protocols.messages import Phase
from schema.queue.terms import BudgetView

_log = structlog.get_logger(__name__)

_MAX_BODY_BYTES = 1024
_GRACE_S = 0.5


@frozen
class Condition:
    """How the supervisor is. Ages in seconds; None: that has not happened yet."""

    phase: str
    loop_lag_s: float
    database_answers: bool | None
    """Whether the last beat or claim was answered; None before the first."""
    beat_age_s: float | None
    claim_age_s: float | None
    jobs: int
    paused: tuple[str, ...] = ()
    """Job types and providers that nobody claims for: a supervisor with pauses is ready all the same."""
    claude: BudgetView | None = None
    """The hourly budget as last counted here; None: no claude job was met in this clock hour."""

    @property
    def not_ready(self) -> list[str]:
        """Why no job would be claimed now; empty when one would."""
        reasons = [] if self.phase == Phase.RUNNING.name.lower() else [f"phase is {self.phase}"]
        if self.database_answers is None:
            reasons.append("the database was not asked yet")
        elif not self.database_answers:
            reasons.append("the database does not answer")
        return reasons


def health_app(condition: Callable[[], Condition], registry: CollectorRegistry) -> Starlette:
    """Three routes that never wait: they tell what is known, so that a probe costs the database nothing."""

    async def healthz(_: Request) -> Response:
        # Answering at all is the news: it says that the loop turns.
        return JSONResponse({"status": "ok", **asdict(condition())})

    async def readyz(_: Request) -> Response:
        now = condition()
        reasons = now.not_ready
        body = {"status": "not ready" if reasons else "ready", "reasons": reasons, **asdict(now)}
        return JSONResponse(body, status_code=503 if reasons else 200)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=content_type)

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    return Starlette(routes=routes, max_body_size=_MAX_BODY_BYTES)


@define
class HealthServer:
    """Serves until the drain closes. ``port`` 0 lets the system choose; the address is in the log and ``urls``."""

    app: Starlette
    port: int
    lifecycle: Lifecycle
    host: str = "0.0.0.0"
    urls: tuple[str, ...] = ()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bound before it is ready. InvalidInput (in a group) when the port is taken."""
        async with trio.open_nursery() as nursery:
            stop = partial(self.lifecycle.reached, Phase.CLOSING)
            app = cast(Any, self.app)  # its type and the server's do not know each other
            served = partial(serve, app, self._config(), shutdown_trigger=stop)
            with binding(self.port, "HEALTH_PORT"):
                self.urls = tuple(await nursery.start(served))
            _log.info("health endpoint", urls=self.urls)
            task_status.started()

    def _config(self) -> Config:
        config = Config()
        config.bind = [f"{self.host}:{self.port}"]
        config.graceful_timeout = _GRACE_S
        config.include_server_header = False
        config.errorlog = logging.getLogger("hypercorn.error")
        return config
