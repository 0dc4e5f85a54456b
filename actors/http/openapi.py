"""``/openapi.json``, from the table of operations and the types that validate: it cannot say what is not checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from actors.http.answers import ErrorAnswer
from actors.http.operations import Operation
from protocols.failures import JsonObject

_REF: Final = "#/components/schemas/{name}"
_WORDS: Final = {
    200: "Done.",
    201: "Created.",
    202: "Accepted.",
    204: "Deleted.",
    401: "No valid token.",
    403: "The token does not allow this.",
    404: "Not there, or not in the workspace of the token.",
    409: "Does not go together with the state of things.",
    413: "Too large.",
    415: "No JSON.",
    422: "The request is wrong; `details.faults` lists everything that is.",
    503: "Not now; try again.",
}


def openapi(operations: Sequence[Operation], version: str) -> JsonObject:
    """An OpenAPI 3.1 document."""
    kinds = [kind for one in operations for kind in (one.body, one.answer) if kind is not None]
    unique = list(dict.fromkeys([*kinds, ErrorAnswer]))
    _, schemas = msgspec.json.schema_components(unique, ref_template=_REF)
    paths: dict[str, JsonObject] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "regelrecht-supervisor",
            "version": version,
            "description": "A token is for one workspace; what lies in another is not there for it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: Operation) -> JsonObject:
    words = operation.path.replace("{", "").replace("}", "").replace("_id", "").strip("/").split("/")
    described: JsonObject = {
        "operationId": "_".join([operation.method.lower(), *words]),
        "summary": operation.summary,
        "description": f"Needs the permission `{operation.permission}`.",
        "parameters": _parameters(operation),
        "responses": {str(status): _response(operation, status) for status in _statuses(operation)},
    }
    if operation.body is not None:
        schema = {"$ref": _REF.format(name=operation.body.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _parameters(operation: Operation) -> list[JsonObject]:
    id_schema = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
    found = [{"name": name, "in": "path", "required": True, "schema": id_schema} for name in operation.parameters]
    if operation.query is not None:
        [schema], components = msgspec.json.schema_components([operation.query], ref_template=_REF)
        properties: dict[str, Any] = components[operation.query.__name__]["properties"]
        required = components[operation.query.__name__].get("required", [])
        for name, values in properties.items():
            found.append({"name": name, "in": "query", "required": name in required, "schema": values})
    for name, about in operation.request_headers.items():
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        found.append({"name": name, "in": "header", "required": False, "description": about, "schema": schema})
    return found


def _statuses(operation: Operation) -> list[int]:
    found = {operation.status, 401, 403, 503, *operation.also}
    if operation.parameters:
        found.add(404)
    if operation.query is not None or operation.body is not None:
        found.add(422)
    if operation.body is not None:
        found |= {409, 413, 415}
    return sorted(found)


def _response(operation: Operation, status: int) -> JsonObject:
    described: JsonObject = {"description": _WORDS[status]}
    if status >= 400:
        described["content"] = {"application/json": {"schema": {"$ref": _REF.format(name=ErrorAnswer.__name__)}}}
    elif operation.answer is not None:
        described["content"] = {"application/json": {"schema": {"$ref": _REF.format(name=operation.answer.__name__)}}}
    elif status != 204:
        described["content"] = {"application/json": {"schema": {"type": "object"}}}
    return described
