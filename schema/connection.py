"""The little that a query module needs of a connection, so that ``schema`` imports no driver (D22).

An asyncpg connection, a pool's proxy and a test double all satisfy it. Driver errors become typed in the port, not here.
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

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A transaction, or a savepoint inside one. Only for use inside one unit of work (D8)."""
        ...
