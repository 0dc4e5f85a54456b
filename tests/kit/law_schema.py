"""Whether a law file meets the published law schema. The schema is reference material: without it the test skips."""

from __future__ import annotations

import json
from functools import cache

import jsonschema_rs

from protocols.law import SCHEMA_VERSION
from protocols.lawyaml import load_law
from tests.kit import shared


@cache
def _validator(version: str) -> jsonschema_rs.Draft7Validator:
    schema = json.loads(shared.path(f"data/law-schema/{version}.json").read_text(encoding="utf-8"))
    return jsonschema_rs.Draft7Validator(schema, validate_formats=True)


def schema_errors(source: str | bytes, version: str = SCHEMA_VERSION) -> list[str]:
    """Every breach of the schema in a law file, as ``path: message``; skips the calling test without the schema."""
    law = load_law(source)
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in _validator(version).iter_errors(law)
    ]


def assert_schema_valid(source: str | bytes, version: str = SCHEMA_VERSION) -> None:
    errors = schema_errors(source, version)
    assert not errors, "\n".join(errors[:20])
