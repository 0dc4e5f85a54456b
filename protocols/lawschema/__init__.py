"""The law schema that ships with the product (D57), and the ones of ``LAW_SCHEMA_DIR`` instead of it.

``law.json`` is the newest version; ``differences`` makes the older ones of it; ``discriminate`` makes foreign schemas
fast. Nothing is ever fetched: a reference to a schema that is not here is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any, Final

import jsonschema_rs

from protocols.failures import InvalidInput
from protocols.law import SCHEMA_VERSION
from protocols.lawschema.differences import STEPS, Schema
from protocols.lawschema.discriminate import discriminated

VERSIONS: Final = tuple(sorted([SCHEMA_VERSION, *(version for version, _ in STEPS)]))
"""The versions that the shipped schema knows, oldest first."""

_SEGMENT = re.compile(r"/(v[0-9]+\.[0-9]+\.[0-9]+)(?=/)")
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+")


class UnusableLawSchema(InvalidInput):
    """A schema file of ``LAW_SCHEMA_DIR`` that cannot be used. The message names the file."""

    kind = "unusable_law_schema"


def version_of(law: Mapping[str, Any]) -> str | None:
    """The version in the path of ``$schema`` (a whole path segment: ``/v0.5.1/`` is not ``/v0.5.10/``), if any."""
    named = law.get("$schema")
    found = _SEGMENT.findall(named) if isinstance(named, str) else []
    return found[-1] if found else None


@cache
def shipped() -> Mapping[str, Schema]:
    """Our own schema by version. Read once; treat it as read-only."""
    newest = json.loads(resources.files(__name__).joinpath("law.json").read_text(encoding="utf-8"))
    schemas = {SCHEMA_VERSION: newest}
    for version, step in STEPS:
        newest = deepcopy(newest)
        step(newest)
        newest["title"] = f"Law file, {version}"
        schemas[version] = newest
    return schemas


class LawSchemas:
    """Compiled validators by version (``v0.5.6``); made once per process, 5-20 ms each."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._validators = {version: _compiled(version, schema, schemas) for version, schema in schemas.items()}

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions known here, oldest first."""
        return tuple(sorted(self._validators, key=_order))

    def validator(self, version: str | None) -> jsonschema_rs.Draft7Validator | None:
        """That of ``version``, or of the one that :func:`stand_in` names for it. None: no schema here fits."""
        known = version if version in self._validators else stand_in(version, self._validators)
        return self._validators[known] if known else None


def stand_in(version: str | None, known: Collection[str]) -> str | None:
    """By which known version a file of an unknown one is read: an early patch release by the oldest known of its series.

    Within a series releases only add, and the header of a law is not the agent's to change (D41): without this a law of
    v0.5.0 could never pass, whatever anybody does. Later and other series have none.
    """
    if not version or not _VERSION.fullmatch(version):
        return None
    series = sorted((one for one in known if _order(one)[:2] == _order(version)[:2]), key=_order)
    return series[0] if series and _order(version) < _order(series[0]) else None


@cache
def shipped_schemas() -> LawSchemas:
    """The validators of the schema that ships with the product."""
    return LawSchemas(shipped())


def schemas_of(files: Mapping[str, bytes]) -> LawSchemas:
    """The schemas of ``LAW_SCHEMA_DIR``: file content by name. The version stands in the name (``v0.5.6.json``,
    ``v0.5.6/schema.json``). They replace the shipped ones altogether. Raises :class:`UnusableLawSchema`."""
    schemas: dict[str, Schema] = {}
    for name, content in sorted(files.items()):
        found = _VERSION.findall(name)
        if not found:
            continue
        try:
            schema = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UnusableLawSchema(f"the law schema {name} is not JSON: {error}") from None
        if not isinstance(schema, dict):
            raise UnusableLawSchema(f"the law schema {name} must be a JSON object, it is a {type(schema).__name__}")
        schemas[found[-1]] = schema
    if not schemas:
        raise UnusableLawSchema("LAW_SCHEMA_DIR holds no schema: expected files such as v0.5.6.json")
    return LawSchemas(schemas)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version[1:].split("."))


def _compiled(version: str, schema: Schema, schemas: Mapping[str, Schema]) -> jsonschema_rs.Draft7Validator:
    try:
        return jsonschema_rs.Draft7Validator(discriminated(schema), validate_formats=True, retriever=_serving(schemas))
    except (ValueError, RecursionError) as error:
        raise UnusableLawSchema(f"the law schema {version} cannot be used: {str(error)[:300]}") from None


def _serving(schemas: Mapping[str, Schema]) -> Callable[[str], Schema]:
    """A retriever that knows ours by ``$id`` and fetches nothing (the library would open a connection by itself)."""
    known = {schema["$id"]: schema for schema in schemas.values() if isinstance(schema.get("$id"), str)}

    def retrieve(uri: str) -> Schema:
        if uri not in known:
            raise ValueError(f"it refers to {uri[:200]}, which is not among the schemas here")
        return known[uri]

    return retrieve


@cache
def operation_names(version: str | None) -> frozenset[str]:
    """The operations of a version or of its stand-in; of the newest one where the shipped schema knows neither."""
    known = version if version in shipped() else stand_in(version, shipped())
    schema = shipped()[known or SCHEMA_VERSION]
    return frozenset(schema["definitions"]["operation_name"]["enum"])


def has_markings(version: str | None) -> bool:
    """Whether files of this version record gaps as ``markings`` (from v0.6.0 on) instead of ``untranslatables``."""
    return version is not None and _order(version) >= (0, 6, 0)
