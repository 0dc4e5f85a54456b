"""One conversation at the prompt: lines in, answers out, and no way for either to hurt the supervisor.

Each command is bounded in time, in output, and in reach: it runs in a nursery and a scope of its own, and whatever it raises
becomes text. Only a loop that never awaits can still freeze everything; the watchdog tells of that.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
import trio
from attrs import define, field, frozen

from actors.ports.localsocket import Peer, hung_up
from protocols.failures import SupervisorError, leaves
from supervisor.repl import commands
from supervisor.repl.evaluator import Evaluator
from supervisor.repl.scene import Scene
from supervisor.repl.wire import MOST_ANSWER_BYTES, MOST_LINE_BYTES, Mark, cut, frame
from supervisor.version import VERSION

_log = structlog.get_logger(__name__)

_LOGGED_CHARACTERS = 500
_BLOCK = 4096


@frozen
class SessionRule:
    """Seconds. ``idle_s`` without a line ends a conversation, so that a forgotten one does not keep others out."""

    command_s: float = 5
    send_s: float = 5
    idle_s: float = 600
    python: bool = False


class _Failed(Exception):
    """What a command raised, as text."""


@define
class Output:
    """What a command printed, up to a little more than is shown."""

    text: str = ""

    def write(self, text: str) -> int:
        if len(self.text) < 2 * MOST_ANSWER_BYTES:
            self.text += text[: 2 * MOST_ANSWER_BYTES - len(self.text)]
        return len(text)


@define
class Session:
    """``redact`` masks the secrets of the settings in everything that is said."""

    stream: trio.SocketStream
    peer: Peer
    scene: Scene
    redact: Callable[[str], str]
    rule: SessionRule = field(factory=SessionRule)
    _output: Output = field(init=False, factory=Output)
    _evaluator: Evaluator | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.rule.python:
            house = self.scene.tree.house
            names = {"scene": self.scene, "tree": self.scene.tree, "house": house, "trio": trio}
            self._evaluator = Evaluator({**names, **self._helpers}, lambda text: self._output.write(text))

    @property
    def _helpers(self) -> Mapping[str, Callable[..., Any]]:
        """What Python has beyond the parts of the supervisor."""
        return {} if self.scene.pipelines is None else self.scene.pipelines.helpers

    async def run(self) -> None:
        """Until the client goes, says ``quit`` or is silent for too long. trio.BrokenResourceError when it went in between."""
        languages = "commands"
        if self.rule.python:
            helpers = ", ".join(f"{name}()" for name in self._helpers)
            languages = f"commands and Python{helpers and f' with {helpers}'}"
        await self._send(f"regelrecht-supervisor {VERSION}: {languages}; `help` lists them", Mark.READY)
        lines, received = trio.open_memory_channel[bytes](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, lines, nursery.cancel_scope, name="repl:receive")
            await self._converse(received)
            nursery.cancel_scope.cancel(reason="conversation ended")

    # --- lines -------------------------------------------------------------------------------------------------------------

    async def _receive(self, lines: trio.MemorySendChannel[bytes], scope: trio.CancelScope) -> None:
        """Pass lines on. A client that is gone ends the command it waits for as well."""
        buffered = bytearray()
        with lines:
            try:
                while block := await self.stream.receive_some(_BLOCK):
                    buffered += block
                    while (end := buffered.find(b"\n")) >= 0:
                        await lines.send(bytes(buffered[:end]))
                        del buffered[: end + 1]
                    if len(buffered) > MOST_LINE_BYTES:
                        await lines.send(bytes(buffered))
                        return
            except trio.BrokenResourceError:
                scope.cancel(reason="client gone")
            if hung_up(self.stream):
                scope.cancel(reason="client gone")

    async def _converse(self, lines: trio.MemoryReceiveChannel[bytes]) -> None:
        while True:
            with trio.move_on_after(self.rule.idle_s) as silence:
                try:
                    raw = await lines.receive()
                except trio.EndOfChannel:
                    return
            if silence.cancelled_caught:
                await self._send(f"closed: nothing was asked for {self.rule.idle_s:g} s", Mark.CLOSED)
                return
            if len(raw) > MOST_LINE_BYTES:
                await self._send(f"closed: a line has at most {MOST_LINE_BYTES} bytes", Mark.CLOSED)
                return
            line = raw.decode(errors="replace").rstrip("\r")
            if line.strip() in {"quit", "exit"}:
                await self._send("", Mark.CLOSED)
                return
            await self._send(*await self._answer(line))

    async def _send(self, text: str, mark: Mark) -> None:
        """A client that does not read is no client: BrokenResourceError."""
        with trio.move_on_after(self.rule.send_s) as limit:
            await self.stream.send_all(frame(cut(self.redact(text)), mark))
        if limit.cancelled_caught:
            raise trio.BrokenResourceError("the client does not read")

    # --- commands ----------------------------------------------------------------------------------------------------------

    async def _answer(self, line: str) -> tuple[str, Mark]:
        self._output = Output()
        waiting = self._evaluator is not None and self._evaluator.waiting
        if not line.strip() and not waiting:
            return "", Mark.READY
        _log.info("repl command", pid=self.peer.pid, uid=self.peer.uid, line=line[:_LOGGED_CHARACTERS])
        try:
            found = None if waiting else commands.match(line)
            if found is not None:
                command, word = found
                await self._bounded(lambda _: self._tell(command, word))
            elif self._evaluator is not None:
                if not await self._evaluate(self._evaluator, line):
                    return "", Mark.MORE
            else:
                raise commands.refuse(line)
        except SupervisorError as error:
            return error.message, Mark.FAILED
        except _Failed as failed:
            return f"{self._output.text}{failed}", Mark.FAILED
        return self._output.text, Mark.READY

    async def _tell(self, command: commands.Command, word: str) -> None:
        self._output.write("\n".join(await command.answer(self.scene, word)))

    async def _evaluate(self, evaluator: Evaluator, line: str) -> bool:
        """False: the line is not complete yet."""
        try:
            code = evaluator.feed(line)
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
            raise _Failed("".join(traceback.format_exception_only(error))) from None
        if code is None:
            return False

        async def run(nursery: trio.Nursery) -> None:
            evaluator.namespace["nursery"] = nursery
            await evaluator.run(code)

        await self._bounded(run)
        return True

    async def _bounded(self, run: Callable[[trio.Nursery], Awaitable[None]]) -> None:
        """_Failed, or SupervisorError. A cancellation of ours passes, without what was raised on the way."""
        try:
            with trio.move_on_after(self.rule.command_s) as limit:
                async with trio.open_nursery() as nursery:
                    await run(nursery)
                    nursery.cancel_scope.cancel(reason="command ended")
        except BaseExceptionGroup as group:
            passing, rest = group.split(trio.Cancelled)
            if passing is not None:
                raise passing from None
            assert rest is not None
            raise _failure(rest) from None
        if limit.cancelled_caught:
            raise _Failed(f"stopped after {self.rule.command_s:g} s")


def _failure(group: BaseExceptionGroup[Any]) -> Exception:
    """One exception as itself, several as they are; without the frames of the prompt. Values of locals are never shown."""
    found = list(leaves(group))
    if len(found) == 1 and isinstance(found[0], SupervisorError):
        return found[0]
    error = found[0] if len(found) == 1 else group
    return _Failed("".join(traceback.format_exception(error, limit=-8)))
