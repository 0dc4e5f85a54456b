"""Which entries of a law a proposal changed, for review tasks (``corpus-and-tasks.md`` 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.lawyaml.read import UnreadableLaw, load_law
from protocols.yamlsource import same


def changed_entries(source: str | bytes | None, proposal: str | bytes) -> tuple[str, ...] | None:
    """Numbers of entries that are new or differ, in the order of the proposal. None: the two cannot be compared.

    Untyped, whole entries. Numbers are compared as texts; entries without a usable one are left out, and of several with
    one number the first of the source counts. Removed entries and the header are not reported.
    """
    before, after = _entries(source), _entries(proposal)
    if before is None or after is None:
        return None
    known: dict[str, Mapping[str, Any]] = {}
    for number, entry in before:
        known.setdefault(number, entry)
    changed = (
        number for number, entry in after if number not in known or not same(_plain(known[number]), _plain(entry))
    )
    return tuple(dict.fromkeys(changed))


def _entries(content: str | bytes | None) -> list[tuple[str, Mapping[str, Any]]] | None:
    if content is None:
        return None
    try:
        articles = load_law(content).get("articles")
    except UnreadableLaw:
        return None
    if not isinstance(articles, list):
        return None
    return [
        (number, entry) for entry in articles if isinstance(entry, dict) and (number := _number(entry.get("number")))
    ]


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "number": _number(entry.get("number"))}


def _number(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
