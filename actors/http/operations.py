"""What an operation is, and how a request becomes one: token, permission, path, query, body, then the work."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog
import trio
from attrs import field, frozen
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from actors.http.faults import Problem, forbidden, problem_of, unauthorized
from actors.http.reading import Request, read_body, read_fields
from actors.ports.blobs import Blobs
from actors.ports.database import Units
from protocols.connectors import CONNECTORS, ConnectorRegistry
from protocols.webpolicy import WebRules
from schema.tokens import Principal, authenticate

_log = structlog.get_logger(__name__)

MAX_BODY_BYTES: Final = 1 << 20
DEADLINE_S: Final = 30.0
READ: Final = "connectors:read"
CREATE: Final = "connectors:create"
UPDATE: Final = "connectors:update"
DELETE: Final = "connectors:delete"

_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_SCHEME: Final = "bearer "
_CLOSE: Final = {"Connection": "close"}
"""After an answer to a request that was not read to its end, or was not fit to be."""


@frozen
class Desk:
    """What operations work with. ``web``: the URLs that crawls may fetch, so that others are not even written.

    ``deadline_s`` bounds everything but the sending of an answer.
    """

    database: Units
    blobs: Blobs
    registry: ConnectorRegistry = CONNECTORS
    web: WebRules = field(factory=WebRules)
    deadline_s: float = DEADLINE_S


@frozen
class Call:
    """One checked request. ``query`` and ``body`` are of the types that the operation names, else None."""

    principal: Principal
    ids: Mapping[str, int]
    query: Any = None
    body: Any = None
    headers: Mapping[str, str] = field(factory=dict)

    @property
    def workspace(self) -> int:
        return self.principal.workspace_id

    def require_workspace(self, workspace_id: int) -> None:
        """A token is for one workspace; the others are not there for it."""
        if workspace_id != self.workspace:
            raise Problem(404, "workspace_not_found", f"there is no workspace {workspace_id}")


Work = Callable[[Desk, Call], Awaitable[Any]]


@frozen
class Operation:
    """One line of the interface. ``work`` returns an answer, a whole ``Response``, or None where ``status`` is 204.

    ``answer`` None with another status: the body is no JSON of ours (``media_type``). ``also`` are statuses beyond those
    that follow from the rest.
    """

    method: str
    path: str
    summary: str
    permission: str
    work: Work
    answer: type[msgspec.Struct] | None = None
    query: type[Request] | None = None
    body: type[Request] | None = None
    status: int = 200
    also: Sequence[int] = ()
    request_headers: Mapping[str, str] = field(factory=dict)
    """Name to description of headers that the operation reads."""

    @property
    def parameters(self) -> list[str]:
        """The ids in the path."""
        return _PARAMETER.findall(self.path)


def routes(operations: Sequence[Operation], desk: Desk) -> list[Route]:
    """One route a path, so that a wrong method is answered with all that are right."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        methods = by_path.setdefault(operation.path, {})
        assert operation.method not in methods, f"{operation.method} {operation.path} stands twice in the table"
        methods[operation.method] = operation
    made = []
    for path, methods in by_path.items():
        route = Route(path, partial(answer, desk, methods), methods=list(methods))
        route.methods = set(methods)  # Starlette adds HEAD, which would read a whole result to send nothing
        made.append(route)
    return made


async def answer(desk: Desk, methods: Mapping[str, Operation], request: HttpRequest) -> Response:
    """Do what is asked within the deadline; whatever goes wrong is an answer too."""
    operation = methods[request.method]
    response: Response | None = None
    started = trio.current_time()
    with trio.move_on_after(desk.deadline_s):
        response = await _guarded(desk, operation, request)
    if response is None:
        late = Problem(
            503, "deadline", f"not done within {desk.deadline_s:g} s; it may or may not have been done", headers=_CLOSE
        )
        response = late.response()
    spent_ms = round((trio.current_time() - started) * 1000)
    _log.info("request", method=operation.method, path=operation.path, status=response.status_code, ms=spent_ms)
    return response


async def principal_of(desk: Desk, headers: Mapping[str, str]) -> Principal | None:
    """Whose token was sent; None: none was. ``Problem`` (401) for one that is not good."""
    sent = headers.get("authorization")
    if sent is None:
        return None
    if not sent.lower().startswith(_SCHEME):
        raise unauthorized()
    principal = await desk.database.run(authenticate, sent[len(_SCHEME) :].strip())
    if principal is None:
        raise unauthorized()
    return principal


async def _guarded(desk: Desk, operation: Operation, request: HttpRequest) -> Response:
    try:
        return await _perform(desk, operation, request)
    except HTTPException as error:
        return http_problem(error).response()
    except Exception as error:  # noqa: BLE001 - logged, unless it has an answer of its own
        problem = problem_of(error)
        if problem is None:
            _log.exception("request failed", method=operation.method, path=operation.path)
            problem = Problem(500, "internal", "this went wrong here, not at your end; it is in the log")
        return problem.response()


async def _perform(desk: Desk, operation: Operation, request: HttpRequest) -> Response:
    principal = await principal_of(desk, request.headers)
    if principal is None:
        raise unauthorized()
    if operation.permission not in principal.permissions:
        raise forbidden(operation.permission)
    ids = {name: _id(request.path_params[name]) for name in operation.parameters}
    query = None
    if operation.query is not None:
        query = read_fields(operation.query, dict(request.query_params), prefix="query.")
    body = None if operation.body is None else await _body(operation.body, request, desk.web)
    done = await operation.work(desk, Call(principal, ids, query, body, request.headers))
    if isinstance(done, Response):
        return done
    if done is None:
        return Response(status_code=operation.status)
    return Response(msgspec.json.encode(done), operation.status, media_type="application/json")


async def _body(kind: type[Request], request: HttpRequest, web: WebRules) -> Request:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
    return read_body(kind, await _limited(request), web)


async def _limited(request: HttpRequest) -> bytes:
    """The body. ``Problem`` (413) when it is too large; it is read to its end all the same, within the deadline, since a
    client that is still sending would not see the answer.
    """
    found, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            found.append(chunk)
        else:
            found.clear()
    if size > MAX_BODY_BYTES:
        raise Problem(413, "too_large", f"a request has at most {MAX_BODY_BYTES} bytes", headers=_CLOSE)
    return b"".join(found)


def _id(text: str) -> int:
    """What is no id is the id of nothing."""
    if not _ID.fullmatch(text) or int(text) >= 2**63:
        raise not_found()
    return int(text)


def not_found() -> Problem:
    return Problem(404, "not_found", "there is nothing here")


def http_problem(error: HTTPException) -> Problem:
    """What Starlette refuses by itself, in our words."""
    known = {
        404: not_found(),
        405: Problem(405, "method_not_allowed", "this path does not know this method", headers=error.headers or {}),
    }
    return known.get(error.status_code) or Problem(error.status_code, "http", error.detail, headers=error.headers or {})
