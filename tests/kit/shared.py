"""The reference material beside the checkout: real law files, recordings, checklists.

It is not part of the project and not always there; a test that wants it skips without it, and the same rule is always
covered by a fixture of our own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared"


def path(name: str) -> Path:
    """The file or folder ``name`` below the reference folder; skips the calling test when it is not there."""
    found = FOLDER / name
    if not found.exists():
        pytest.skip(f"no reference material here ({name})")
    return found


def text(name: str) -> str | None:
    """The content of a file, or None where there is none. For tools; tests use :func:`path`."""
    found = FOLDER / name
    return found.read_text(encoding="utf-8") if found.is_file() else None


def folder(name: str) -> list[Path]:
    """The XML files below ``name``, sorted; empty when it is not there, so that a test can be parametrised over it."""
    return sorted((FOLDER / name).rglob("*.xml"))
