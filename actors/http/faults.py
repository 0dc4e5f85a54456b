"""What is answered when a request cannot be done: ``{"error": {"code", "message", "details"?}}`` and a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen
from starlette.responses import JSONResponse

from actors.ports.blobs import BlobFailed, BlobMissing
from actors.ports.database import Refused
from protocols.failures import DatabaseUnavailable, InvalidInput, OutcomeUnclear, SupervisorError
from schema.pipelines.api import IndexActive, KeyReused
from schema.pipelines.asking import PipelineNotFound, RunState
from schema.pipelines.folders import FolderNotFound
from schema.pipelines.indexing import ConnectorNotFound
from schema.pipelines.manage import ScheduleOwned
from schema.pipelines.runs import RunNotFound
from schema.pipelines.workspaces import WorkspaceNotFound

_RETRY_AFTER_S: Final = "5"

_STATUS: Final[tuple[tuple[type[SupervisorError], int], ...]] = (  # the first that fits
    (PipelineNotFound, 404),
    (ConnectorNotFound, 404),
    (FolderNotFound, 404),
    (RunNotFound, 404),
    (WorkspaceNotFound, 404),
    (BlobMissing, 404),
    (ScheduleOwned, 409),
    (RunState, 409),
    (KeyReused, 409),
    (IndexActive, 409),
    (InvalidInput, 422),
    (DatabaseUnavailable, 503),
    (OutcomeUnclear, 503),
    (BlobFailed, 503),
)


@frozen
class FieldFault:
    """``field`` is a name of the body, ``query.NAME`` or ``header.NAME``."""

    field: str
    message: str


@frozen
class Problem(Exception):
    """An answer that is no success."""

    status: int
    code: str
    message: str
    details: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(factory=dict)

    def response(self) -> JSONResponse:
        """The answer as it is sent."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = dict(self.details)
        return JSONResponse({"error": error}, status_code=self.status, headers=dict(self.headers))


def invalid(faults: Sequence[FieldFault]) -> Problem:
    """All that is wrong with a request, at once."""
    listed = [{"field": fault.field, "message": fault.message} for fault in faults]
    words = "; ".join(f"{fault.field}: {fault.message}" for fault in faults[:3])
    more = f" (+{len(faults) - 3} more)" if len(faults) > 3 else ""
    return Problem(422, "invalid_request", f"{words}{more}", {"faults": listed})


def unauthorized() -> Problem:
    """No token, or none that is good now: which of the two is not said."""
    return Problem(
        401, "unauthorized", "send a valid token: Authorization: Bearer ...", headers={"WWW-Authenticate": "Bearer"}
    )


def forbidden(permission: str) -> Problem:
    return Problem(
        403,
        "forbidden",
        f"this token does not allow {permission}: use one that does, for an account that may (token create, member add)",
        {"permission": permission},
    )


def problem_of(error: Exception) -> Problem | None:
    """The answer for a failure that was foreseen; None for any other."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, SupervisorError):
        for kind, status in _STATUS:
            if isinstance(error, kind):
                wait = {"Retry-After": _RETRY_AFTER_S} if status == 503 else {}
                return Problem(status, error.kind, error.message, error.details or None, wait)
    if isinstance(error, Refused):
        return _refused(error.sqlstate or "")
    return None


def _refused(sqlstate: str) -> Problem | None:
    """What the database itself refused. Its own text names tables and values, so it is not passed on."""
    if sqlstate.startswith("23"):
        return Problem(
            409,
            "conflict",
            "this does not go together with what is there: a name that is taken, or a thing deleted meanwhile",
        )
    if sqlstate.startswith("22"):
        return Problem(422, "invalid_request", "a value cannot be stored")
    if sqlstate == "57014":
        return Problem(503, "timeout", "the database took too long", headers={"Retry-After": _RETRY_AFTER_S})
    return None
