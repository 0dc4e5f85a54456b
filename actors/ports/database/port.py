"""The trio side of the port: what actors hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

import outcome
import structlog
import trio
import trio_asyncio
from attrs import define, field

from actors.ports.database.engine import Engine, Progress
from actors.ports.database.failpoint import name_of
from actors.ports.database.listen import Listener, Subscription
from actors.ports.database.settings import DatabaseSettings
from actors.ports.database.statistics import DatabaseStatistics, oldest_snapshot_age_s
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from schema.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger(__name__)

TURN: Final = 50


@define
class Bridge:
    """The asyncio loop inside this trio run, and the one way over to it."""

    loop: Any
    commit_grace_s: float

    async def cross(self, work: Callable[[Progress], Coroutine[Any, Any, T]], progress: Progress) -> T:
        """Run ``work`` over there. When cancelled it is interrupted once, and still awaited to its end.

        While it commits, an interruption would only make the outcome unclear, so it waits for the answer a while.
        """
        task = trio.lowlevel.current_task()
        if self.loop.is_closed():
            raise DatabaseUnavailable("the database port is closed")
        future = self.loop.create_task(work(progress))
        interrupt: Callable[[], NoReturn] | None = None

        def finished(_: Any) -> None:
            trio.lowlevel.reschedule(task, outcome.capture(future.result))

        def abort(raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
            nonlocal interrupt
            interrupt = raise_cancel
            if progress.commits_on is not None:
                self.loop.call_later(self.commit_grace_s, progress.give_up_commit)
            else:
                future.cancel()
            return trio.lowlevel.Abort.FAILED

        future.add_done_callback(finished)
        try:
            result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        except asyncio.CancelledError:
            if interrupt is not None:
                interrupt()
            raise
        return result


@define
class Units:
    """Runs units of work. ``run(fn, a, b=c)`` awaits ``fn(connection, a, b=c)``; mypy checks the arguments.

    A unit that is cancelled before it commits wrote nothing (``transact``) or may have (``run``, ``beat``, ``direct``);
    one that is cancelled while it commits returns its result, or raises OutcomeUnclear when the answer stays away.
    """

    _engine: Engine
    _bridge: Bridge
    _beat_turn: trio.Lock
    _shield_s: float | None = None

    async def run(self, fn: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Each statement commits by itself. For reads and single statements."""
        return await self._cross(name_of(fn), partial(self._engine.run, _bound(fn, args, kwargs)))

    async def transact(
        self, fn: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """One READ COMMITTED transaction. ``fn`` runs again, up to five times, after a deadlock or serialization failure."""
        return await self._cross(name_of(fn), partial(self._engine.transact, _bound(fn, args, kwargs)))

    async def beat(
        self, fn: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As ``run``, on the connection that only beats use, so that no busy pool can delay them (D5). One at a time."""

        async def in_turn() -> T:
            async with self._beat_turn:
                return await self._bridge.cross(partial(self._engine.beat, _bound(fn, args, kwargs)), progress)

        progress = Progress(unit=name_of(fn))
        return await self._shielded(in_turn, progress)

    def shielded(self, *, shield_s: float) -> Units:
        """The same, but a cancellation from outside waits up to ``shield_s`` for the unit: for claims and final writes (D8).

        A unit that takes longer ends with DatabaseUnavailable, or OutcomeUnclear when something may have been written.
        """
        return Units(self._engine, self._bridge, self._beat_turn, shield_s)

    async def _cross(self, unit: str, work: Callable[[Progress], Coroutine[Any, Any, T]]) -> T:
        progress = Progress(unit=unit)
        if self._shield_s is None:
            return await self._bridge.cross(work, progress)
        return await self._shielded(partial(self._bridge.cross, work, progress), progress)

    async def _shielded(self, work: Callable[[], Awaitable[T]], progress: Progress) -> T:
        if self._shield_s is None:
            return await work()
        with trio.CancelScope(shield=True, relative_deadline=self._shield_s):
            return await work()
        if progress.at_risk:
            self._engine.counters.unclear += 1
            raise OutcomeUnclear(f"no answer of the database within {self._shield_s:g} s, the write may have landed")
        raise DatabaseUnavailable(f"the database did not do it within {self._shield_s:g} s")


@define
class Database(Units):
    """The opened port. Made by ``open_database``."""

    _nursery: trio.Nursery = field(kw_only=True)
    _subscription: Subscription | None = field(default=None, init=False)

    async def direct(
        self, fn: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As ``run``, on a new connection that goes round the pooler and has no statement limit: for migrations.

        InvalidInput when there is a pooler and no direct address.
        """
        return await self._cross(name_of(fn), partial(self._engine.direct, _bound(fn, args, kwargs)))

    def listen(self, channels: Collection[str], *, control: str = "regelrecht_control") -> Subscription:
        """Wake-ups for notifications on ``channels``, and the payloads sent on ``control``; once per port.

        Behind a pooler there is no LISTEN: the subscription then stays silent and is never ``proven``.
        """
        if self._subscription is not None:
            raise RuntimeError("this port listens already")
        listener = Listener.make(frozenset(channels), control, self._engine)
        self._subscription = listener.subscription
        if not self._engine.settings.through_pooler:
            self._nursery.start_soon(listener.run, self._bridge.cross)
        return listener.subscription

    async def oldest_snapshot_age_s(self) -> float:
        """Seconds; see ``statistics.oldest_snapshot_age_s``."""
        return await self.run(oldest_snapshot_age_s)

    @property
    def statistics(self) -> DatabaseStatistics:
        engine, counters = self._engine, self._engine.counters
        return DatabaseStatistics(
            pool_max=engine.settings.pool_size,
            pool_size=engine.pool.idle + engine.pool.in_use,
            pool_idle=engine.pool.idle,
            pool_in_use=engine.pool.in_use,
            waiting=counters.waiting,
            beat_connected=engine.beat_connection is not None and not engine.beat_connection.is_closed(),
            listening=self._subscription is not None and self._subscription.proven,
            listen_sessions=counters.listen_sessions,
            repeated=counters.repeated,
            unclear=counters.unclear,
            terminated=counters.terminated,
            loop_errors=counters.loop_errors,
        )


def _bound(
    fn: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Connection], Awaitable[T]]:
    return lambda connection: fn(connection, *args, **kwargs)


@asynccontextmanager
async def open_database(settings: DatabaseSettings) -> AsyncIterator[Database]:
    """The port, with one connection proven. DatabaseUnavailable or InvalidInput when there is none to be had.

    One for a process, outside the nursery of those who use it. An exception of the block leaves it as it is, not in the
    groups of the nurseries inside.
    """
    failure: Exception | None = None
    engine = Engine(settings)
    if settings.failpoint is not None:
        _log.warning("a failpoint is set: this process will hurt itself, for a test", failpoint=settings.failpoint)
    async with trio_asyncio.open_loop() as loop:
        _hasten(loop)
        loop.set_exception_handler(partial(_report, engine))
        bridge = Bridge(loop, commit_grace_s=settings.go_home_limit_s)
        async with trio.open_nursery() as nursery:
            try:
                await bridge.cross(lambda _: engine.open(), Progress())
                yield Database(engine, bridge, trio.Lock(), nursery=nursery)
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            finally:
                nursery.cancel_scope.cancel()
                engine.close()
    if failure is not None:
        raise failure


def _hasten(loop: Any) -> None:
    """Let ``loop`` run up to ``TURN`` callbacks that are ready in one turn of trio, as asyncio does.

    As it comes it takes a turn for each, and a statement is five of them: most of what the bridge costs (docs/benchmarks.md).
    """
    one = loop._main_loop_one

    async def several(no_wait: bool = False) -> None:
        await one(no_wait)
        with suppress(trio.WouldBlock):
            for _ in range(TURN):
                await one(no_wait=True)

    loop._main_loop_one = several


def _report(engine: Engine, _: Any, context: dict[str, Any]) -> None:
    """Background tasks of the driver have nobody to raise to; they must not end the process either."""
    engine.counters.loop_errors += 1
    error = context.get("exception")
    _log.error("error in the database driver", message=context.get("message"), exc_info=error)
