"""The actor that listens for the debug prompt: one conversation at a time, with nobody but our own user.

The children of supervisors have that user, too, and are turned away: agents do what strangers' texts tell them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog
import trio
from attrs import define, field

from actors.ports import adopted, localsocket
from actors.ports.localsocket import Peer
from protocols.failures import InvalidInput, leaves
from supervisor.repl import places
from supervisor.repl.scene import Scene
from supervisor.repl.session import Session, SessionRule
from supervisor.repl.wire import Mark, frame

_log = structlog.get_logger(__name__)

_REFUSE_S = 1.0


@define
class ReplServer:
    """Tries ``paths`` in turn. Where none can be had it says so and ends: a supervisor works without a prompt."""

    scene: Scene
    paths: Sequence[Path]
    redact: Callable[[str], str]
    rule: SessionRule = field(factory=SessionRule)
    uid: int = field(factory=os.geteuid)
    path: Path | None = field(init=False, default=None)
    """Where it listens now."""
    _talking_to: Peer | None = field(init=False, default=None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. The socket is there when it is ready, and gone when it has ended."""
        with self._listening() as listener:
            task_status.started()
            if listener is not None:
                await trio.serve_listeners(self._receive_caller, [listener])

    @contextmanager
    def _listening(self) -> Iterator[trio.SocketListener | None]:
        with ExitStack() as opened:
            listener = self._open_first(opened)
            try:
                yield listener
            finally:
                self.path = None

    def _open_first(self, opened: ExitStack) -> trio.SocketListener | None:
        for path in self.paths:
            try:
                listener = opened.enter_context(localsocket.listening(path))
            except (InvalidInput, OSError) as error:
                _log.warning("no debug prompt here", path=str(path), why=str(error))
                continue
            places.sweep(path.parent)
            self.path = path
            _log.info("debug prompt", socket=str(path), python=self.rule.python)
            return listener
        return None

    async def _receive_caller(self, stream: trio.SocketStream) -> None:
        peer = localsocket.peer_of(stream)
        async with stream:
            if peer.uid != self.uid:
                _log.warning("repl refused", pid=peer.pid, uid=peer.uid)
                await _turn_away(stream, f"refused: this prompt is for uid {self.uid}")
            elif adopted.started_here(peer.pid):
                # An agent has our uid. It gets no unix socket where the launcher can help it; this is for where not.
                _log.warning("repl refused", pid=peer.pid, uid=peer.uid, why="a child of a supervisor")
                await _turn_away(stream, "refused: this prompt is not for what a supervisor has started")
            elif self._talking_to is not None:
                await _turn_away(stream, f"busy: process {self._talking_to.pid} has the prompt")
            else:
                await self._talk(stream, peer)

    async def _talk(self, stream: trio.SocketStream, peer: Peer) -> None:
        self._talking_to = peer
        _log.info("repl opened", pid=peer.pid, uid=peer.uid)
        try:
            await Session(stream, peer, self.scene, self.redact, self.rule).run()
        except Exception as error:  # noqa: BLE001 - a conversation must not end the actor
            if not all(isinstance(leaf, trio.BrokenResourceError | trio.ClosedResourceError) for leaf in leaves(error)):
                _log.exception("repl failed", pid=peer.pid)
        finally:
            self._talking_to = None
            _log.info("repl closed", pid=peer.pid, uid=peer.uid)


async def _turn_away(stream: trio.SocketStream, why: str) -> None:
    try:
        with trio.move_on_after(_REFUSE_S):
            await stream.send_all(frame(why, Mark.CLOSED))
    except trio.BrokenResourceError:
        pass
