"""The other end of the prompt: line editing happens here, so the supervisor sees whole lines only. Synchronous."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import define, field, frozen

from actors.ports import localsocket
from protocols.failures import Transient
from supervisor.repl.wire import END, Mark

ANSWER_LIMIT_S = 30.0
"""More than a command and the sending of its answer may take."""


class PromptUnreachable(Transient):
    """Nobody answers, or the conversation broke off."""

    kind = "prompt_unreachable"


class NobodyThere(PromptUnreachable):
    """No supervisor runs here, or none that listens."""

    kind = "nobody_there"


@frozen
class Answer:
    text: str
    mark: Mark


@define
class Client:
    """A conversation. ``with`` it; the greeting is read at the start. PromptUnreachable: it was refused or broke off."""

    path: Path
    greeting: str = field(init=False, default="")
    incomplete: bool = field(init=False, default=False)
    """The last line began something that is not complete yet."""
    _buffer: bytes = field(init=False, default=b"")
    _socket: localsocket.Raw = field(init=False)

    def __enter__(self) -> Self:
        try:
            self._socket = localsocket.connect(self.path, limit_s=ANSWER_LIMIT_S)
        except OSError as error:
            raise NobodyThere(f"nobody answers at {self.path}: {error.strerror or error}") from None
        hello = self._read()
        if hello.mark is Mark.CLOSED:
            self._socket.close()
            raise PromptUnreachable(hello.text.strip())
        self.greeting = hello.text
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, line: str) -> Answer:
        """Send one line and wait for all of its answer."""
        try:
            self._socket.sendall(line.encode(errors="replace") + b"\n")
        except OSError:
            raise PromptUnreachable("the supervisor went away") from None
        answer = self._read()
        self.incomplete = answer.mark is Mark.MORE
        return answer

    def _read(self) -> Answer:
        mark = f"{END}".encode()
        while not (self._buffer.endswith(b"\n") and mark in self._buffer):
            try:
                block = self._socket.recv(65536)
            except TimeoutError:
                raise PromptUnreachable(f"no answer within {ANSWER_LIMIT_S:g} s: is the loop stuck?") from None
            except OSError:
                block = b""
            if not block:
                raise PromptUnreachable("the supervisor went away")
            self._buffer += block
        text, _, letter = self._buffer.partition(mark)
        self._buffer = b""
        return Answer(text.decode(errors="replace"), Mark(letter.decode().strip()))
