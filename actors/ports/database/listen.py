"""LISTEN: a wake-up that shortens a wait, never the only way to learn of work (D10, DB-01)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import structlog
import trio
from attrs import define

from actors.ports.database.connect import DRIVER_ERRORS, connect, in_words
from actors.ports.database.engine import Engine, Progress
from protocols.failures import DatabaseUnavailable, SupervisorError

_log = structlog.get_logger(__name__)

_CONTROL_BACKLOG = 256
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0

Cross = Callable[[Callable[[Progress], Coroutine[Any, Any, None]], Progress], Coroutine[Any, Any, None]]


@define
class Subscription:
    """What a listener gives its user.

    ``wakeups`` holds one at most: any number of notifications, and each new LISTEN session, are one wake-up.
    ``control`` yields the payloads of the control channel, in order; those sent while nobody listened are lost, and so is
    what arrives beyond a backlog of 256.
    """

    wakeups: trio.MemoryReceiveChannel[None]
    control: trio.MemoryReceiveChannel[str]
    proven: bool = False
    """A notification sent to ourselves came back on the present connection, at most a probe interval ago."""
    sessions: int = 0
    """How many sessions were proven so far: with each new one, messages may have been lost before it."""


@define
class Listener:
    """Keeps one LISTEN session alive on a connection of its own."""

    subscription: Subscription
    _channels: frozenset[str]
    _control: str
    _engine: Engine
    _wake: trio.MemorySendChannel[None]
    _messages: trio.MemorySendChannel[str]

    @classmethod
    def make(cls, channels: frozenset[str], control: str, engine: Engine) -> Listener:
        wake, wakeups = trio.open_memory_channel[None](1)
        messages, control_payloads = trio.open_memory_channel[str](_CONTROL_BACKLOG)
        return cls(Subscription(wakeups, control_payloads), channels, control, engine, wake, messages)

    async def run(self, cross: Cross) -> None:
        """For ever: one session after the other, with a growing pause between those that never came up."""
        failures = 0
        with self._wake, self._messages:
            while True:
                try:
                    await cross(lambda _: self._session(), Progress())
                except SupervisorError as error:
                    failures = 0 if self.subscription.proven else failures + 1
                    _log.warning("listening for notifications was interrupted", error=error.message)
                finally:
                    self.subscription.proven = False
                await trio.sleep(random.uniform(0.5, 1) * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**failures))

    # --- the asyncio side ------------------------------------------------------------------------------------------------

    async def _session(self) -> None:
        """One connection, until it fails: DatabaseUnavailable, always."""
        connection = await connect(self._engine.settings)
        lost, echo = asyncio.Event(), asyncio.Event()
        echo_channel = f"regelrecht_probe_{uuid4().hex}"
        try:
            connection.add_termination_listener(lambda *_: lost.set())
            for channel in self._channels:
                await connection.add_listener(channel, self._on_wake)
            await connection.add_listener(self._control, self._on_control)
            await connection.add_listener(echo_channel, lambda *_: echo.set())
            self._engine.counters.listen_sessions += 1
            while not lost.is_set():
                echo.clear()
                await connection.execute("SELECT pg_notify($1, '')", echo_channel)
                async with asyncio.timeout(self._engine.settings.statement_timeout_s):
                    await echo.wait()
                if not self.subscription.proven:
                    self.subscription.proven = True
                    self.subscription.sessions += 1
                    self._on_wake()  # what was sent while nobody listened is found by looking (DB-01)
                await _wait(lost, self._engine.settings.probe_s)
        except DRIVER_ERRORS as error:
            raise DatabaseUnavailable(in_words(error)) from error
        finally:
            connection.terminate()
        raise DatabaseUnavailable("the server closed the connection")

    def _on_wake(self, *_: object) -> None:
        """In the loop's own task: must not block or raise."""
        with contextlib.suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            self._wake.send_nowait(None)

    def _on_control(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            self._messages.send_nowait(str(payload))
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            _log.warning("a control message was dropped: nobody reads them")


async def _wait(event: asyncio.Event, limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()
