"""Every small way to spoil a law: one change at a time, in place, undone before the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocols.lawtree import Tree, walk

WRONG: tuple[Any, ...] = (7, -1, 1.5, "$x y", "$x", "UNHEARD_OF", [], {}, None, True)
OPERANDS = ("value", "values", "precision", "subject", "conditions")


def mutations(tree: Tree) -> Iterator[str]:
    """Changes ``tree`` and says how, again and again: a key removed, a value of another kind, a key too many."""
    for path, value in list(walk(tree)):
        where = "/".join(map(str, path))
        if path:
            parent: Any = tree
            for part in path[:-1]:
                parent = parent[part]
            yield from _replaced(parent, path[-1], value, where)
        if isinstance(value, dict):
            for extra in ("unheard_of", *(OPERANDS if "operation" in value else ())):
                if extra not in value:
                    value[extra] = 1
                    yield f"{where}: added {extra}"
                    del value[extra]


def _replaced(parent: Any, key: Any, value: Any, where: str) -> Iterator[str]:
    if isinstance(parent, dict):
        del parent[key]
        yield f"{where}: removed"
    for wrong in WRONG:
        parent[key] = wrong
        yield f"{where}: {wrong!r}"
    parent[key] = value
