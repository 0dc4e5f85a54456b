"""One agent at work: its process, its output read into events, and what is known of it while it runs (D46).

Bytes go from the process into the spool, which stamps the moment; the parser folds them into the view and tells the job
the events on the channel that all slices share. Nothing on that way waits for the job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio
from attrs import define, field, frozen

from actors.ports.agentprocess import AgentEnd, AgentRunner, Stop, Stopped
from actors.ports.launcher import AgentCommand
from actors.ports.spool import Spool
from protocols.agentevents import ONLY_OUTPUT, OUTPUT, AgentEvent, Closing, Output, Turn
from protocols.agentview import CallView
from protocols.dialects.base import CallVerdict, Dialect, Ending
from protocols.failures import SupervisorError, classify
from protocols.lines import LineSplitter
from protocols.messages import AgentActive, AgentMessage, AgentSaid, Reply

AFTER_RESULT_S: Final = 30.0
"""How long a CLI may linger after its last line, once its closing word was read (AG-02, D51)."""

LINES_PER_TURN: Final = 200
"""After this many lines the others on the loop get a turn."""

ACTIVE_EVERY_S: Final = 0.1


@frozen
class SliceCall:
    """One call that one slice of a job is to make.

    ``label`` says what for (``translate``, a gate); ``folder`` takes the spill file; ``resumed``: the call goes on in
    an earlier session. ``limit_s`` is the share of time it has (D44).
    """

    label: str
    command: AgentCommand
    folder: Path
    limit_s: float
    asked_model: str | None = None
    resumed: bool = False


@frozen
class CallOutcome:
    """A call that is over, however it ended; enough for its row in ``agent_calls`` (D54)."""

    slice: int
    call: SliceCall
    view: CallView
    verdict: CallVerdict
    end: AgentEnd | None
    """None: it was cancelled, or could not be started (then ``fault`` says why)."""
    truncated: bool
    """The stream ends within a line."""
    cost_millicents: int | None = None
    fault: SupervisorError | None = None

    @property
    def stopped(self) -> Stopped | None:
        return self.end.stopped if self.end is not None else None

    @property
    def usage_complete(self) -> bool:
        """False: the tokens are a lower bound. Of a step that a signal cut, a CLI that tells of finished ones says nothing."""
        if self.end is None or (self.end.code is None and self.view.closing is None):
            return False
        return self.view.usage_complete(truncated=self.truncated)


@define(eq=False)
class AgentActor:
    """Runs the call of one slice. ``events`` is the job's merged channel; sending on it never waits."""

    slice: int
    call: SliceCall
    dialect: Dialect
    view: CallView
    runner: AgentRunner
    events: Reply[AgentMessage]
    stop: Stop = field(init=False, factory=Stop)
    looping: str | None = field(init=False, default=None)
    """Why the job says that it goes round in circles; set before the call is stopped for it."""
    _spool: Spool = field(init=False)
    _splitter: LineSplitter = field(init=False, factory=LineSplitter)
    _active_at: float = field(init=False, default=-math.inf)
    _closed: bool = field(init=False, default=False)
    """It has said its closing word, and has not begun anything since."""

    @_spool.default
    def _empty_spool(self) -> Spool:
        return Spool(self.call.folder, on_bytes=self._stamp)

    async def run(self) -> CallOutcome:
        """Until nothing of the call runs any more and all it wrote was read.

        Cancelled, it ends the process first; :meth:`outcome` then tells what is known.
        """
        end: AgentEnd | None = None
        fault: SupervisorError | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._parse)
                try:
                    end = await self.runner(
                        self.call.command, spool=self._spool, stop=self.stop, limit_s=self.call.limit_s
                    )
                except (SupervisorError, OSError) as error:  # OSError: the disk of the spill file is full
                    fault = classify(error)
                finally:
                    self._spool.close()
        finally:
            self._spool.discard()
        return self.outcome(end, fault)

    def outcome(self, end: AgentEnd | None = None, fault: SupervisorError | None = None) -> CallOutcome:
        """What the call came to; without ``end`` it was cancelled."""
        exit_code = end.exit_code if end is not None else None
        stopped = end.stopped if end is not None else None
        ending = Ending(
            exit_code=-9 if exit_code is None else exit_code,
            truncated=self._splitter.unfinished,
            after_result=stopped is not None and self._closed,
            looping=self.looping if stopped is Stopped.LOOPING else None,
            stderr=end.stderr if end is not None else "",
        )
        verdict = self.dialect.verdict(self.view, ending)
        return CallOutcome(self.slice, self.call, self.view, verdict, end, ending.truncated, fault=fault)

    async def _parse(self) -> None:
        parser = self.dialect.parser(str(self.call.command.cwd))
        lines = 0
        while chunk := await self._receive():
            now = trio.current_time()
            for line in self._splitter.feed(chunk):
                self._take(parser.line(line), now)
                lines += 1
                if lines % LINES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            if now - self._active_at >= ACTIVE_EVERY_S:
                self._active_at = now
                self.events.send_nowait(AgentActive(self.slice))
        self._take(parser.finish(), trio.current_time())

    async def _receive(self) -> bytes:
        """The next bytes; empty at the end. A CLI that has said its closing word is stopped when it lingers."""
        while True:
            lingers = self._closed and self.stop.reason is None
            with trio.move_on_after(AFTER_RESULT_S if lingers else math.inf) as patience:
                return await self._spool.receive()
            assert patience.cancelled_caught
            self.stop.request(Stopped.AFTER_RESULT)

    def _take(self, events: tuple[AgentEvent, ...], now: float) -> None:
        times = self.view.times
        if events is ONLY_OUTPUT:
            if times.retry_since is not None:
                times.note(OUTPUT, now)
            return
        for event in events:
            times.note(event, now)
            if isinstance(event, Output):
                continue
            if isinstance(event, Closing | Turn):
                self._closed = isinstance(event, Closing)
            self.view.fold(event)
            self.events.send_nowait(AgentSaid(self.slice, event))

    def _stamp(self) -> None:
        self.view.times.bytes_at(trio.current_time())


Record = Callable[[CallOutcome], None]
"""Takes note of a call that is over; must not wait."""
