"""Running units of work on connections. The asyncio side of the port: everything here is one side of one crossing.

Cancellation arrives here as ``asyncio.CancelledError``, once per crossing, so cleanup after it runs undisturbed; it is
bounded in time all the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from attrs import define, field

from actors.ports.database.connect import DRIVER_ERRORS, READ_ONLY, RETRYABLE, connect, in_words, is_trouble
from actors.ports.database.failpoint import Failpoint, Moment
from actors.ports.database.pool import Pool
from actors.ports.database.settings import DatabaseSettings
from actors.ports.database.statistics import Counters
from protocols.failures import DatabaseUnavailable, InvalidInput, OutcomeUnclear

if TYPE_CHECKING:
    from actors.ports.database.connect import RawConnection

T = TypeVar("T")
Work = Callable[[Any], Awaitable[T]]
"""A unit with its arguments bound. It takes a ``schema.connection.Connection``; the driver's types do not say they are one."""

REPEATS = 5
_FIRST_PAUSE_S = 0.02


@define(slots=True)
class Progress:
    """How far a unit came, so that whoever interrupts it knows what that means."""

    at_risk: bool = False
    """Something may have been committed: a statement outside a transaction was sent, or a COMMIT."""
    commits_on: RawConnection | None = None
    """The COMMIT is on its way on this connection: too late to interrupt it."""
    unit: str = ""
    """What failpoints call it."""

    def give_up_commit(self) -> None:
        """Wait no longer for the answer to COMMIT: the line is cut, so the outcome is unclear."""
        if self.commits_on is not None:
            self.commits_on.terminate()


@define
class Engine:
    """Connections and what is counted about them. Lives in one event loop."""

    settings: DatabaseSettings
    counters: Counters = field(factory=Counters)
    pool: Pool = field(init=False)
    beat_connection: RawConnection | None = field(default=None, init=False)
    _failpoint: Failpoint | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.pool = Pool(self.settings, self.counters)
        if self.settings.failpoint is not None:
            self._failpoint = Failpoint.parse(self.settings.failpoint)

    async def open(self) -> None:
        """Prove that one connection can be had."""
        async with self.pool.connection():
            pass

    def close(self) -> None:
        """At once: a unit that still holds a connection loses it."""
        self.pool.close()
        if self.beat_connection is not None:
            self.beat_connection.terminate()

    # --- the four ways to run a unit -----------------------------------------------------------------------------------

    async def run(self, work: Work[T], progress: Progress) -> T:
        """Each statement commits by itself; behind a pooler the unit is a transaction all the same (D16)."""
        if self.settings.through_pooler:
            return await self.transact(work, progress)
        async with self._borrowed(progress) as connection:
            return await self._alone(connection, work, progress)

    async def transact(self, work: Work[T], progress: Progress) -> T:
        """All or nothing. Runs ``work`` again, up to five times, when the server rolled it back for concurrency (D8)."""
        for repeat in range(REPEATS):
            try:
                return await self._transact_once(work, progress)
            except RETRYABLE:
                self.counters.repeated += 1
                progress.at_risk, progress.commits_on = False, None
                await asyncio.sleep(random.uniform(0, _FIRST_PAUSE_S * 2**repeat))
        try:
            return await self._transact_once(work, progress)
        except RETRYABLE as error:
            raise DatabaseUnavailable(f"rolled back {REPEATS + 1} times for concurrency: {in_words(error)}") from error

    async def beat(self, work: Work[T], progress: Progress) -> T:
        """On the connection that serves nothing else. After trouble or an interruption the next beat gets a new one."""
        if self.beat_connection is None or self.beat_connection.is_closed():
            self.beat_connection = await connect(self.settings)
        connection = self.beat_connection
        with self._typing_errors(connection, progress):
            try:
                if self.settings.through_pooler:
                    return await self._in_transaction(connection, work, progress)
                return await self._alone(connection, work, progress)
            except BaseException as error:
                if not isinstance(error, Exception) or is_trouble(error, connection):
                    self._terminate(connection)
                raise

    async def direct(self, work: Work[T], progress: Progress) -> T:
        """On a connection of its own, round the pooler, without a limit on a statement: for migrations."""
        if self.settings.through_pooler and self.settings.direct_url is None:
            raise InvalidInput(
                "migrations cannot go through a transaction-mode pooler: give DATABASE_DIRECT_URL as well"
            )
        connection = await connect(self.settings, direct=True)
        try:
            with self._typing_errors(connection, progress):
                return await self._alone(connection, work, progress)
        finally:
            connection.terminate()

    # --- statements that commit by themselves, and one transaction -----------------------------------------------------

    async def _alone(self, connection: RawConnection, work: Work[T], progress: Progress) -> T:
        progress.at_risk = True
        self._at_commit(connection, progress, "before")
        result = await work(connection)
        self._at_commit(connection, progress, "after")
        return result

    async def _transact_once(self, work: Work[T], progress: Progress) -> T:
        async with self._borrowed(progress) as connection:
            return await self._in_transaction(connection, work, progress)

    async def _in_transaction(self, connection: RawConnection, work: Work[T], progress: Progress) -> T:
        """``progress.at_risk`` only when COMMIT was sent. On failure the transaction is over, or the connection is."""
        transaction = connection.transaction(isolation="read_committed")
        # entered, not started: an interrupted BEGIN is then rolled back by the driver when the connection comes to rest
        await transaction.__aenter__()
        try:
            if self.settings.through_pooler:
                await _set_locally(connection, self.settings.session)
            result = await work(connection)
        except BaseException as error:
            await self._roll_back(connection, transaction, error)
            raise
        progress.at_risk, progress.commits_on = True, connection
        self._at_commit(connection, progress, "before")
        await transaction.__aexit__(None, None, None)
        progress.commits_on = None
        self._at_commit(connection, progress, "after")
        return result

    def _at_commit(self, connection: RawConnection, progress: Progress, moment: Moment) -> None:
        if self._failpoint is not None:
            self._failpoint.pass_by(progress.unit, moment, connection)

    async def _roll_back(self, connection: RawConnection, transaction: Any, error: BaseException) -> None:
        if isinstance(error, OSError | asyncpg.InternalClientError):  # nothing polite will be heard on this connection
            self._terminate(connection)
            return
        try:
            async with asyncio.timeout(self.settings.go_home_limit_s):
                await transaction.__aexit__(type(error), error, error.__traceback__)
        except DRIVER_ERRORS:
            self._terminate(connection)

    # --- connections -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _borrowed(self, progress: Progress) -> AsyncIterator[RawConnection]:
        async with self.pool.connection() as connection:
            with self._typing_errors(connection, progress):
                yield connection

    @contextmanager
    def _typing_errors(self, connection: RawConnection, progress: Progress) -> Iterator[None]:
        """Driver errors that mean trouble become ours; after one that came from the line, the connection is gone (DB-06)."""
        try:
            yield
        except DRIVER_ERRORS as error:
            if not is_trouble(error, connection):
                raise
            if progress.at_risk or not isinstance(error, asyncpg.PostgresError) or isinstance(error, READ_ONLY):
                self._terminate(connection)
            if isinstance(error, READ_ONLY):
                progress.at_risk = False
            if not progress.at_risk:
                raise DatabaseUnavailable(f"the database did not do it: {in_words(error)}") from error
            self.counters.unclear += 1
            raise OutcomeUnclear(
                f"the answer of the database was lost, the write may have landed: {in_words(error)}"
            ) from error

    def _terminate(self, connection: RawConnection) -> None:
        if not connection.is_closed():
            self.counters.terminated += 1
            connection.terminate()


async def _set_locally(connection: RawConnection, session: dict[str, str]) -> None:
    names, values = list(session), list(session.values())
    await connection.execute(
        "SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS s(name, value)", names, values
    )
