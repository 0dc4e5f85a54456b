"""Reading a stream line by line, whatever its lines are: what all dialects share (``stack.md`` 5)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

import msgspec
from attrs import define

from protocols.agentevents import NOTHING, AgentEvent, Cause
from protocols.redaction import redact
from protocols.scrub import scrub_text

LONGEST_REASON: Final = 500

_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_ANSI_TEXT = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")
_SURROGATE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def own_words(text: str | None) -> str | None:
    """A text of a CLI made fit for errors and rows: one line, no colours, no secrets, at most 500 characters."""
    if not text:
        return None
    line = _CONTROL.sub(" ", _ANSI_TEXT.sub("", text[: 8 * LONGEST_REASON])).strip()
    clean = scrub_text(redact(line))
    return (clean if len(clean) <= LONGEST_REASON else clean[: LONGEST_REASON - 1] + "…") or None


def first_line(stderr: str) -> str:
    """Of what a CLI printed on stderr: the reason why it did not take its command line."""
    return next((line for line in stderr.splitlines() if line.strip()), "")


def cause_of_status(status: int | None) -> Cause:
    """What an HTTP status says; None is no answer at all."""
    match status:
        case None:
            return Cause.NETWORK
        case 401 | 403:
            return Cause.AUTH
        case 402:
            return Cause.BILLING
        case 413:
            return Cause.CONTEXT
        case 429:
            return Cause.RATE_LIMIT
        case 503 | 529:
            return Cause.OVERLOADED
        case _ if 400 <= status < 500:
            return Cause.BAD_REQUEST
        case _ if status >= 500:
            return Cause.SERVER_ERROR
        case _:
            return Cause.UNKNOWN


class TypeOnly(msgspec.Struct):
    """What is looked at in an object that is no event we know."""

    type: Any = None


_TYPE_ONLY = msgspec.json.Decoder(TypeOnly)


@define
class LineCounts:
    """Lines that gave no event because they could not. None of them ends a run."""

    unknown: int = 0
    """Objects of a type that newer or older versions have."""
    malformed: int = 0
    """Objects of a type we know, with fields we do not."""
    bad: int = 0
    """No JSON object in UTF-8."""


class LineParser(ABC):
    """Reads the stream of one call, line by line."""

    types: ClassVar[frozenset[str]]
    """The values of ``type`` that :attr:`decoder` knows."""
    decoder: ClassVar[msgspec.json.Decoder[Any]]

    def __init__(self, cwd: str | None = None) -> None:
        self.cwd = cwd
        self.counts = LineCounts()
        self.stamp_ms: int | None = None
        """The last time of day that the stream itself gave, in unix milliseconds."""

    def line(self, line: bytes) -> tuple[AgentEvent, ...]:
        """The events of one line without its newline. Never raises, whatever the bytes are."""
        try:
            if not line.isascii():
                line.decode()  # msgspec does not look into the strings that it skips
            wire = self.decoder.decode(line)
        except msgspec.ValidationError:
            return self._unread(line)
        except msgspec.DecodeError:
            return self._repaired(line)
        except (UnicodeDecodeError, RecursionError):
            self.counts.bad += 1
            return NOTHING
        return self.events(wire)

    @abstractmethod
    def events(self, wire: Any) -> tuple[AgentEvent, ...]:
        """The events of a decoded line."""

    def finish(self) -> tuple[AgentEvent, ...]:
        """Events that were waiting for a next line."""
        return NOTHING

    def knows(self, kind: str, line: bytes) -> bool:
        """Whether a line of this type should have been read."""
        return kind in self.types

    def _unread(self, line: bytes) -> tuple[AgentEvent, ...]:
        try:
            kind = _TYPE_ONLY.decode(line).type
        except (msgspec.ValidationError, RecursionError):
            self.counts.bad += 1
            return NOTHING
        except msgspec.DecodeError:
            return self._repaired(line)
        if isinstance(kind, str) and self.knows(kind, line):
            self.counts.malformed += 1
        else:
            self.counts.unknown += 1
        return NOTHING

    def _repaired(self, line: bytes) -> tuple[AgentEvent, ...]:
        """Once more without colours in front, and with U+FFFD for half a surrogate pair, which JavaScript prints."""
        repaired = _ANSI.sub(b"", line).strip() if line[:1] in (b"\x1b", b" ", b"\t", b"\r", b"") else line
        if not repaired:
            return NOTHING
        repaired = _SURROGATE.sub(lambda found: found[1] or rb"\ufffd", repaired)
        if repaired != line:
            try:
                return self.events(self.decoder.decode(repaired))
            except msgspec.ValidationError:
                return self._unread(repaired)
            except (msgspec.DecodeError, RecursionError):
                pass
        self.counts.bad += 1
        return NOTHING
