"""Logs: one JSON object a line in a pod, readable lines on a terminal. Both on stderr; stdout is for results.

What an actor binds with ``structlog.contextvars`` (``actor``, ``job_id``, ``law_id``) is on each of its lines and on
those of the tasks it starts. Known secrets are masked in the finished line, so that neither a field, nor a traceback,
nor the text of a child process can carry one out. Tracebacks never show the values of locals.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from typing import Final, TextIO, cast
from urllib.parse import quote

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from supervisor.logstream import LogStream
from supervisor.settings.areas import Logging
from supervisor.terminaltext import harmless

MASK: Final = "***"

SHORTEST_SECRET: Final = 6
"""A shorter value would mask ordinary words, and is no secret."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_ADDRESS_USER: Final = re.compile(r"//[^/@\s\"'\\]+@")


def configure(settings: Logging, *, secrets: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging to write to ``stream`` (stderr, without ever waiting for long).

    Call it once, before the loop starts; a later call replaces the set-up.
    """
    out = _stderr(settings.format) if stream is None else stream
    kind = settings.format or ("text" if out.isatty() else "json")
    redact = Redactor(secrets)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    finish: list[Processor] = [*_renderers(kind, colours=_wants_colours(out)), redact]
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,  # so that the level can be changed while we run
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
        )
    )
    logging.basicConfig(handlers=[handler], level=_foreign_level(settings.level), force=True)


def _stderr(format_: str | None) -> TextIO:
    """What was stderr at the start; where that is closed, nowhere: its number may be somebody else's descriptor by now."""
    try:
        fd = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    except OSError:  # a stand-in without a descriptor
        return sys.stderr

    def note(lines: int) -> str:
        event = f"{lines} log lines were dropped: nobody read them"
        kind = format_ or ("text" if os.isatty(fd) else "json")
        return json.dumps({"event": event, "level": "warning"}) if kind == "json" else event

    return cast(TextIO, LogStream(fd, note))


def set_level(level: str) -> None:
    """Change the least level that is printed. ``level`` is ``debug``, ``info``, ``warning`` or ``error``."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]))
    logging.getLogger().setLevel(_foreign_level(level))


class Redactor:
    """The last processor: masks known secrets, however they are quoted, and the user part of any address."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                forms |= {secret, quote(secret, safe=""), quote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        ordered = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, logger: WrappedLogger, name: str, line: EventDict) -> str:
        """``line`` is what the renderer before us made: text, whatever the type of a processor says."""
        return self.text(str(line))

    def text(self, line: str) -> str:
        """``line`` without secrets."""
        if self._known is not None:
            line = self._known.sub(MASK, line)
        return _ADDRESS_USER.sub(f"//{MASK}@", line)

    def __repr__(self) -> str:
        return "Redactor(***)"


def _renderers(kind: str, *, colours: bool) -> list[Processor]:
    if kind == "json":
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer(default=str)]
    return [
        _harmless,
        structlog.dev.ConsoleRenderer(
            colors=colours and kind == "text",
            exception_formatter=structlog.dev.plain_traceback,
            pad_event_to=30,
        ),
    ]


def _harmless(logger: WrappedLogger, name: str, line: EventDict) -> EventDict:
    """For lines that a terminal shows as they are: what others wrote must not command it."""
    return {key: harmless(value) if isinstance(value, str) else value for key, value in line.items()}


def _wants_colours(out: TextIO) -> bool:
    """A terminal, or a pipe to one that says so."""
    return (out.isatty() or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")


def _foreign_level(level: str) -> int:
    """Libraries speak from WARNING up: their info lines (each HTTP request) are ours already, in our words."""
    return _LEVELS[level] if level in {"debug", "error"} else logging.WARNING
