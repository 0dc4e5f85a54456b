"""The little that a query module needs of a connection, so that ``schema`` imports no driver (D22).

An asyncpg connection, a pool's proxy and a test double all satisfy it. Driver errors become typed in the port, not here.

JSON is text in both directions (D24): the port registers no codec, so a query function works the same on any plain
asyncpg connection. Write ``$1::text::jsonb`` with ``msgspec.json.encode(value).decode()`` (or ``json.dumps``) as the
argument; a ``json`` or ``jsonb`` column arrives as ``str``, and whoever builds the row type decodes it, once.
Enum columns arrive as ``str``; enum arguments are ``str`` (a ``StrEnum`` member is one). Times arrive aware, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Connection(Protocol):
    """A connection, possibly inside a transaction. Times out by its own settings; see ``actors.ports.database``."""

    async def execute(self, query: str, *args: Any) -> str: ...

    async def executemany(self, query: str, args: Iterable[Sequence[Any]]) -> None: ...

    async def fetch(self, query: str, *args: Any) -> Sequence[Mapping[str, Any]]: ...

    async def fetchrow(self, query: str, *args: Any) -> Mapping[str, Any] | None: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...

    def transaction(self, *, isolation: Any = None) -> AbstractAsyncContextManager[Any]:
        """A transaction, or a savepoint inside one. Only for use inside one unit of work (D8).

        ``isolation`` is for the outermost one: ``read_committed`` where a rule rests on it (D11).
        """
        ...

    def is_in_transaction(self) -> bool: ...
