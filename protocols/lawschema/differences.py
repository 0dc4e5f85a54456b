"""What older versions of the law schema lack, told as steps down from the newest: one source, no copies to keep equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Schema = dict[str, Any]

ROUNDING: Final = ("ROUND", "CEIL", "FLOOR")


def _to_0_5_5(schema: Schema) -> None:
    """Units were labels of money in cents and of time alone; a precision could be any number."""
    spec = schema["definitions"]["field"]["properties"]["type_spec"]["properties"]
    spec["unit"]["enum"] = [name for name in spec["unit"]["enum"] if name not in ("euro", "ratio", "percentage")]
    spec["precision"]["type"] = "number"


def _to_0_5_4(schema: Schema) -> None:
    """No rounding, neither as an expression nor as a step."""
    _without_operations(schema, ROUNDING)
    action = schema["definitions"]["action"]
    del action["properties"]["precision"], action["if"], action["then"]


def _to_0_5_3(schema: Schema) -> None:
    _without_operations(schema, ("DATE_DIFF",))


def _to_0_5_2(schema: Schema) -> None:
    """``valid_to`` is a key like any unknown one."""
    del schema["properties"]["valid_to"]


STEPS: Final[tuple[tuple[str, Callable[[Schema], None]], ...]] = (
    ("v0.5.5", _to_0_5_5),
    ("v0.5.4", _to_0_5_4),
    ("v0.5.3", _to_0_5_3),
    ("v0.5.2", _to_0_5_2),
)
"""Newest first; each step takes the schema of the version before it."""


def _without_operations(schema: Schema, names: tuple[str, ...]) -> None:
    """Take operations out of the list of names, with the condition that says which keys they have."""
    definitions = schema["definitions"]
    listed = definitions["operation_name"]
    listed["enum"] = [name for name in listed["enum"] if name not in names]
    operation = definitions["operation"]
    operation["allOf"] = [kind for kind in operation["allOf"] if not _is_about(kind, names)]


def _is_about(kind: Schema, names: tuple[str, ...]) -> bool:
    condition = kind["if"]["properties"]["operation"]
    return all(name in names for name in condition.get("enum", [condition.get("const")]))
