"""The pool, and the one acquire helper. The asyncio side of the port.

Not the driver's own pool: giving back there is a task and a shield, which costs more than the bridge itself (100 of
170 us), and we need little: a LIFO of idle connections and a number of slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import define, field

from actors.ports.database.connect import DRIVER_ERRORS, connect
from actors.ports.database.settings import DatabaseSettings
from actors.ports.database.statistics import Counters
from protocols.failures import DatabaseUnavailable

if TYPE_CHECKING:
    from actors.ports.database.connect import RawConnection


@define
class Pool:
    """Connects on demand, up to ``settings.pool_size``. A connection that was closed meanwhile is replaced."""

    _settings: DatabaseSettings
    _counters: Counters
    _idle: list[RawConnection] = field(factory=list, init=False)
    _in_use: set[RawConnection] = field(factory=set, init=False)
    _slots: asyncio.Semaphore = field(init=False)
    _closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self._settings.pool_size)

    @property
    def idle(self) -> int:
        return sum(not connection.is_closed() for connection in self._idle)

    @property
    def in_use(self) -> int:
        return len(self._in_use)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[RawConnection]:
        """One connection for the block; it goes home, or is terminated, in bounded time. DatabaseUnavailable: none to be had."""
        connection = await self._take()
        try:
            yield connection
        except BaseException:
            await self._come_to_rest(connection)
            raise
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """At once, also under whoever still holds one."""
        self._closed = True
        for connection in (*self._idle, *self._in_use):
            connection.terminate()
        self._idle.clear()

    async def _take(self) -> RawConnection:
        await self._wait_for_slot()
        try:
            if self._closed:
                raise DatabaseUnavailable("the database port is closed")
            connection = self._open_one() or await connect(self._settings)
        except BaseException:
            self._slots.release()
            raise
        self._in_use.add(connection)
        return connection

    def _open_one(self) -> RawConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _wait_for_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # at once, so no timer is needed
            return
        self._counters.waiting += 1
        try:
            async with asyncio.timeout(self._settings.acquire_timeout_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable(
                f"no database connection became free within {self._settings.acquire_timeout_s:g} s "
                f"({self._settings.pool_size} in the pool)"
            ) from error
        finally:
            self._counters.waiting -= 1

    async def _come_to_rest(self, connection: RawConnection) -> None:
        """After a failure: wait for the cancelled statement to end, and leave nothing of the session behind (DB-04)."""
        if connection.is_closed():
            return
        try:
            await connection.reset(timeout=self._settings.go_home_limit_s)
        except DRIVER_ERRORS:
            self._counters.terminated += 1
            connection.terminate()

    def _give_back(self, connection: RawConnection) -> None:
        self._in_use.discard(connection)
        self._slots.release()
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)
