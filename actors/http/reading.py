"""From what was sent to a request type: strict, and everything that is wrong is found at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from actors.http.faults import FieldFault, invalid
from protocols.webpolicy import WebRules

MAX_FAULTS: Final = 50
_SHOWN: Final = 60
_DEFAULT_WEB: Final = WebRules()


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a client sends, as a body or as a query. Its annotations are the rules and the OpenAPI schema alike."""

    lax: ClassVar[bool] = False
    """True for queries: their values arrive as text."""

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterable[FieldFault]:
        """What annotations cannot say, over the fields that were given and are well-formed by themselves.

        ``web``: which URLs may be fetched in this installation.
        """
        return ()


R = TypeVar("R", bound=Request)


def read_body(kind: type[R], body: bytes, web: WebRules = _DEFAULT_WEB) -> R:
    """A ``Problem`` (422) lists all faults."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise invalid([FieldFault("body", f"no JSON: {why[:200]}")]) from None
    if not isinstance(document, dict):
        raise invalid([FieldFault("body", "expected a JSON object")])
    return read_fields(kind, document, web=web)


def read_fields(kind: type[R], given: Mapping[str, Any], *, prefix: str = "", web: WebRules = _DEFAULT_WEB) -> R:
    """A ``Problem`` (422) lists all faults. Fields that were not sent keep their default, which may be UNSET."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    unknown = f"unknown field; this request takes {', '.join(fields) or 'none'}"
    faults = [FieldFault(f"{prefix}{name[:_SHOWN]}", unknown) for name in sorted(given.keys() - fields.keys())]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in given:
            if field.required:
                faults.append(FieldFault(f"{prefix}{name}", "required"))
            continue
        try:
            values[field.name] = msgspec.convert(given[name], field.type, strict=not kind.lax)
        except msgspec.ValidationError as error:
            faults.append(FieldFault(f"{prefix}{name}", str(error)))
    faults += [FieldFault(f"{prefix}{fault.field}", fault.message) for fault in kind.check(values, web)]
    if faults:
        raise invalid(faults[:MAX_FAULTS])
    return kind(**values)


def changes_of(request: Request) -> dict[str, Any]:
    """What was sent and nothing else: None was sent as null, what is absent was not sent."""
    values = {name: getattr(request, name) for name in request.__struct_fields__}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}
