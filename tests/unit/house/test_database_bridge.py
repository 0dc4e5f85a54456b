"""Nobody but the port crosses to the driver: every other way leaks connections under cancellation (D8, DB-04)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PORT = ROOT / "actors" / "ports" / "database"
SOURCES = ("supervisor", "actors", "schema", "protocols")


def faults(source: str, *, in_port: bool = False) -> Iterator[str]:
    """What ``source`` does that only the port may do, or that nobody may."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncWith):
            for item in node.items:
                yield from _held_over_the_bridge(item.context_expr, in_port)
        elif in_port:
            continue
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
            if {name.split(".")[0] for name in names} & {"asyncpg", "trio_asyncio"}:
                yield f"line {node.lineno}: imports the driver or the bridge"
        elif isinstance(node, ast.Name) and node.id in {"aio_as_trio", "asyncio_as_trio"}:
            yield f"line {node.lineno}: crosses the bridge by hand"


def _held_over_the_bridge(held: ast.expr, in_port: bool) -> Iterator[str]:
    if not isinstance(held, ast.Call):
        return
    name = held.func.attr if isinstance(held.func, ast.Attribute) else getattr(held.func, "id", "")
    if name in {"aio_as_trio", "asyncio_as_trio"}:
        yield f"line {held.lineno}: holds something over the bridge, which leaks when cancelled"
    elif name == "acquire" and not in_port:
        yield f"line {held.lineno}: takes a connection of a pool itself"
    elif name == "transaction" and not in_port and not _of_connection(held.func):
        yield f"line {held.lineno}: opens a transaction outside a unit of work"


def _of_connection(function: ast.expr) -> bool:
    """``connection.transaction()`` is the savepoint of a unit, which runs wholly on the driver's side."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "connection"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import asyncpg",
        "from asyncpg.pool import Pool",
        "import trio_asyncio as bridge",
        "run = aio_as_trio(f)",
        "async def f(pool):\n    async with aio_as_trio(pool.acquire()) as c: pass",
        "async def f(pool):\n    async with pool.acquire() as c: pass",
        "async def f(db):\n    async with db.transaction(): pass",
    ],
)
def test_every_forbidden_way_is_found(source: str) -> None:
    assert list(faults(source))


@pytest.mark.parametrize(
    "source",
    [
        "async def f(connection):\n    async with connection.transaction(): pass",
        "async def f(database):\n    await database.transact(g)",
        "from actors.ports.database import Database",
    ],
)
def test_the_right_ways_are_left_alone(source: str) -> None:
    assert not list(faults(source))


def test_nothing_in_the_port_is_held_over_the_bridge() -> None:
    assert list(faults("async def f():\n    async with aio_as_trio(x): pass\n", in_port=True))
    for path in PORT.glob("*.py"):
        assert not list(faults(path.read_text(encoding="utf-8"), in_port=True)), path


@pytest.mark.parametrize("folder", SOURCES)
def test_only_the_port_touches_the_driver(folder: str) -> None:
    found = {
        str(path.relative_to(ROOT)): list(faults(path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if PORT not in path.parents
    }
    assert {path: said for path, said in found.items() if said} == {}
