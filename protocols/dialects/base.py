"""What every agent CLI has to answer: how it is started, what a line of it means, whether it did well.

Starting, watching and stopping a process is the same for all of them and happens elsewhere. Whatever differs is in one
file a CLI, and those files do not know each other.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar, Final

from attrs import field, frozen

from protocols.agentevents import Cause
from protocols.agentview import CallView
from protocols.dialects.lineparser import LineParser
from protocols.failures import InvalidInput

MOST_PROMPT_IN_ARGV: Final = 100 << 10
"""Bytes. Linux takes 128 KiB in one argument; what is longer goes to standard input."""

PASSED: Final = ("PATH", "TERM", "LANG", "USER", "SHELL")
PASSED_WITH_USER_HOME: Final = ("HOME", "TMPDIR")

NEVER_PASSED: Final = frozenset({"ANTHROPIC_MODEL", "CLAUDE_CODE_EFFORT_LEVEL"})
"""They would override what the supervisor asks for."""

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|DATABASE", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# --- Starting --------------------------------------------------------------------------------------------------------


@frozen
class Session:
    """A conversation to open under this id (a UUID), or to go on with."""

    id: str
    resume: bool = False


@frozen
class AgentCall:
    """One call to be made. ``cwd`` is absolute; ``attach`` a file below it that goes along with the prompt (D59).

    ``bash``: the agent may run commands; for conversions only, never for enrichment.
    """

    prompt: str = field(repr=False)
    cwd: str
    model: str
    effort: str | None = None
    session: Session | None = None
    attach: str | None = None
    bash: bool = False


@frozen
class CommandLine:
    """``stdin`` None: the null device. Never an open pipe: opencode waits for its end for ever (AG-11)."""

    argv: tuple[str, ...]
    stdin: bytes | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()


@frozen
class Folders:
    """Private folders of one call (D48)."""

    home: str
    tmp: str

    def variables(self) -> dict[str, str]:
        """What makes a program keep everything below them."""
        return {
            "HOME": self.home,
            "TMPDIR": self.tmp,
            "XDG_CONFIG_HOME": f"{self.home}/.config",
            "XDG_DATA_HOME": f"{self.home}/.local/share",
            "XDG_STATE_HOME": f"{self.home}/.local/state",
            "XDG_CACHE_HOME": f"{self.home}/.cache",
            "XDG_RUNTIME_DIR": self.tmp,
        }


# --- Ending ----------------------------------------------------------------------------------------------------------


class VerdictKind(StrEnum):
    """How a call went (D51)."""

    OK = "ok"
    API_ERROR = "api_error"
    CUT_OFF = "cut_off"
    """The output limit ended it."""
    UNFINISHED = "unfinished"
    """The CLI ended as if done, but was not."""
    NO_RESULT = "no_result"
    TRUNCATED = "truncated"
    """The stream ends within a line."""
    SIGNAL = "signal"
    USAGE_ERROR = "usage_error"
    """The CLI did not take its command line or configuration."""
    LOOPING = "looping"


@frozen
class Ending:
    """How the process ended. ``exit_code`` is negative for a death by signal.

    ``after_result``: we ended it, because it did not go after its closing result (AG-02). ``looping``: we ended it, and
    this is why. ``stderr``: its tail, for the mistakes that are told nowhere else.
    """

    exit_code: int
    truncated: bool = False
    after_result: bool = False
    looping: str | None = None
    stderr: str = field(default="", repr=False)


@frozen
class CallVerdict:
    """``reason`` is in the CLI's own words, or None. ``ok`` judges the call, not whether the law is any better."""

    kind: VerdictKind
    reason: str | None = None
    cause: Cause | None = None

    @property
    def ok(self) -> bool:
        return self.kind is VerdictKind.OK


# --- The contract ----------------------------------------------------------------------------------------------------


class Dialect(ABC):
    """One agent CLI."""

    name: ClassVar[str]
    """As in payloads, settings and branch names."""
    display_name: ClassVar[str]
    """As people see it."""
    continues_sessions: ClassVar[bool]
    """A call can go on with an earlier one."""
    quiet_means_stalled: ClassVar[bool]
    """It writes while it works, so that silence says something."""
    names_model: ClassVar[bool]
    """The stream says which model answers; else the model asked for is recorded."""
    closing_total: ClassVar[bool]
    """The stream ends with the figures of the whole call; else they are summed over its steps."""
    binary_settings: ClassVar[tuple[str, ...]]
    model_settings: ClassVar[tuple[str, ...]]
    """Names of settings, the first one that is not empty counts (``enrich.md`` 2.5)."""
    granted_tools: ClassVar[tuple[str, ...]]
    """What an enrichment may use of it, in the names of claude (D50)."""
    default_binary: ClassVar[str]
    default_model: ClassVar[str | None]

    def binary(self, settings: Mapping[str, str]) -> str:
        """Path or name of the CLI. An empty setting counts as unset."""
        return _first(settings, self.binary_settings) or self.default_binary

    def model(self, settings: Mapping[str, str], configured: str | None = None) -> str | None:
        """The model to ask for; ``configured`` is what the CLI's own configuration names, where it names one."""
        return _first(settings, self.model_settings) or configured or self.default_model

    @abstractmethod
    def effort(self, settings: Mapping[str, str]) -> str | None:
        """The effort to ask for; None leaves it to the CLI. :class:`InvalidInput` for a word the CLI does not know."""

    @abstractmethod
    def command(self, binary: str, call: AgentCall) -> CommandLine:
        """How ``call`` is started. Holds no secret: those are in the environment."""

    @abstractmethod
    def environment(
        self, environ: Mapping[str, str], *, folders: Folders | None, extra: Iterable[str] = (), credential: str = ""
    ) -> dict[str, str]:
        """The whole environment of the process, out of the supervisor's ``environ`` (D49).

        ``folders`` None keeps the user's own HOME. ``extra`` are names to add, checked by :func:`check_extra`.
        ``credential`` is the one that was chosen for this call, for CLIs that take several.
        """

    @abstractmethod
    def parser(self, cwd: str | None = None) -> LineParser:
        """A reader for one call. ``cwd`` shortens paths, where the stream does not name it."""

    @abstractmethod
    def verdict(self, view: CallView, ending: Ending) -> CallVerdict:
        """How the call went (D51)."""


def _first(settings: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((settings[name].strip() for name in names if settings.get(name, "").strip()), None)


def prompt_on_stdin(prompt: str) -> bool:
    """Whether a prompt cannot be an argument: too long, or taken for an option."""
    return prompt.startswith("-") or "\0" in prompt or len(prompt.encode()) > MOST_PROMPT_IN_ARGV


def secret_name(name: str) -> bool:
    """Whether the value of a variable with this name is not to be shown."""
    return _SECRET_NAME.search(name) is not None


def check_extra(names: Iterable[str]) -> tuple[str, ...]:
    """The names in ``ENRICH_AGENT_ENV``; :class:`InvalidInput` for one that is no name or may never be passed (D49)."""
    kept = []
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise InvalidInput(f"ENRICH_AGENT_ENV: {name!r} is not the name of an environment variable")
        if name in NEVER_PASSED or secret_name(name):
            raise InvalidInput(
                f"ENRICH_AGENT_ENV: {name} is never passed to an agent; leave it out "
                "(refused are names with TOKEN, KEY, SECRET, PASSWORD or DATABASE, and what overrides model or effort)"
            )
        kept.append(name)
    return tuple(kept)


def passed_on(environ: Mapping[str, str], folders: Folders | None, extra: Iterable[str]) -> dict[str, str]:
    """The part of an environment that is the same for every CLI: a start from nothing, plus what is on the list."""
    names = [*PASSED, *check_extra(extra)]
    if folders is None:
        names += [*PASSED_WITH_USER_HOME, *(name for name in environ if name.startswith("XDG_"))]
    kept = {name: environ[name] for name in names if name in environ}
    return kept | (folders.variables() if folders is not None else {})
