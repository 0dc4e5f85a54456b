"""The application: all operations, the document that describes them, and ``/mcp`` where that is wanted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from actors.http import connectors, folders, pipelines, runs
from actors.http.openapi import openapi
from actors.http.operations import Desk, Operation, http_problem, routes

OPERATIONS: Final[tuple[Operation, ...]] = (
    *pipelines.OPERATIONS,
    *runs.OPERATIONS,
    *connectors.OPERATIONS,
    *folders.OPERATIONS,
)
"""The whole interface, in the order in which the document shows it."""

AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def api_app(desk: Desk, version: str, *, mcp: AsgiApp | None = None) -> Starlette:
    """``mcp`` answers ``POST /mcp``."""
    document = openapi(OPERATIONS, version)

    async def described(_: Request) -> Response:
        return JSONResponse(document)

    table: list[BaseRoute] = [*routes(OPERATIONS, desk), Route("/openapi.json", described)]
    if mcp is not None:
        table.append(Route("/mcp", mcp, methods=["POST"]))
    app = Starlette(routes=table, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False  # a redirect would send the token once more, to wherever Host says
    return app


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return http_problem(error).response()
