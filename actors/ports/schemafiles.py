"""The law schemas on disk: ours, or those of ``LAW_SCHEMA_DIR`` (D57)."""

from __future__ import annotations

from pathlib import Path

from protocols.lawschema import LawSchemas, schemas_of, shipped_schemas

MOST_BYTES = 8 << 20


def load_schemas(schema_dir: Path | None) -> LawSchemas:
    """The shipped validators, or those of every JSON file in ``schema_dir``. UnusableLawSchema; OSError from the disk."""
    if schema_dir is None:
        return shipped_schemas()
    files = (path for path in sorted(schema_dir.rglob("*.json")) if path.stat().st_size <= MOST_BYTES)
    return schemas_of({path.relative_to(schema_dir).as_posix(): path.read_bytes() for path in files})
