"""The opencode CLI: ``opencode run … --format json``. It talks to VLAM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from protocols.agentview import CallView
from protocols.dialects.base import (
    AgentCall,
    CallVerdict,
    CommandLine,
    Dialect,
    Ending,
    Folders,
    VerdictKind,
    passed_on,
    prompt_on_stdin,
)
from protocols.dialects.lineparser import first_line, own_words
from protocols.dialects.opencode_lines import OpencodeParser
from protocols.failures import InvalidInput

SWITCHES: Final = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}
"""Nothing is fetched, and nothing in the checkout, or in a folder above it, is taken for configuration (D49, D50)."""

NOT_PASSED: Final = frozenset({"OPENCODE_PATH", "OPENCODE_MODEL"})
"""Settings of the supervisor."""

_ELSEWHERE: Final = frozenset(
    {
        *("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION", "OPENCODE_DB"),
        *("OPENCODE_AUTH_CONTENT", "OPENCODE_API_KEY", "OPENCODE_CONSOLE_TOKEN", "OPENCODE_SERVER_PASSWORD"),
    }
)
"""They would put another configuration in the place of the one in the private folder, denials included, or are keys to
something else (D48, D50)."""


class Opencode(Dialect):
    name = "opencode"
    display_name = "VLAM"
    continues_sessions = False
    quiet_means_stalled = False
    names_model = False
    closing_total = False
    binary_settings = ("OPENCODE_PATH", "LLM_PATH")
    model_settings = ("OPENCODE_MODEL", "LLM_MODEL")
    granted_tools = ("Read", "Edit", "Write", "Grep", "Glob")
    default_binary = "opencode"
    default_model: ClassVar[str | None] = None

    def effort(self, settings: Mapping[str, str]) -> None:
        """None: opencode has no such setting for this provider; :meth:`command` warns when one is asked for."""

    def command(self, binary: str, call: AgentCall) -> CommandLine:
        """``--thinking``, or thoughts are missing from the output while they count against its limit.

        The model is never left out: opencode would go to a hosted model of its own. opencode escapes the quotes of a
        prompt in an argument, so a prompt with quotes goes to standard input too. A second session is impossible:
        calls are cold (OC-03).
        """
        if not call.model:
            raise InvalidInput("opencode: no model; set OPENCODE_MODEL or LLM_MODEL, or name one in opencode.json")
        if call.session is not None:
            raise InvalidInput("opencode: calls cannot continue a session")
        on_stdin = prompt_on_stdin(call.prompt) or '"' in call.prompt
        argv = [binary, "run", *([] if on_stdin else [call.prompt])]
        if call.attach is not None:
            argv += ["-f", call.attach]
        argv += ["--format", "json", "--dir", call.cwd, "--thinking", "--pure", "-m", call.model]
        warnings = [f"opencode has no effort setting; {call.effort!r} is ignored"] if call.effort else []
        return CommandLine(tuple(argv), stdin=call.prompt.encode() if on_stdin else None, warnings=tuple(warnings))

    def environment(
        self, environ: Mapping[str, str], *, folders: Folders | None, extra: Iterable[str] = (), credential: str = ""
    ) -> dict[str, str]:
        """``OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX`` must arrive: without it the output limit is 32000 whatever is set.

        The key is in the file of a private home only: opencode reads files for the model and follows links on its way,
        and its environment is one. A developer's own configuration may name the variable.
        """
        variables = passed_on(environ, folders, extra)
        refused = NOT_PASSED if folders is None else NOT_PASSED | _ELSEWHERE
        variables |= {
            name: value for name, value in environ.items() if name.startswith("OPENCODE_") and name not in refused
        }
        key = credential or environ.get("VLAM_API_KEY", "")
        if key and folders is None:
            variables["VLAM_API_KEY"] = key
        return variables | SWITCHES | {"NODE_OPTIONS": "--max-old-space-size=512"}

    def parser(self, cwd: str | None = None) -> OpencodeParser:
        return OpencodeParser(cwd)

    def verdict(self, view: CallView, ending: Ending) -> CallVerdict:
        """Success is a whole stream, exit code 0, no error event, and a last step that ended with ``stop``.

        Retries are silent, an output limit in prose ends with exit code 0, and so does a refused permission.
        """
        error = view.last_error
        reason, cause = (error.message or None, error.cause) if error is not None else (None, None)
        return CallVerdict(self._kind(view, ending), reason or self._told_on_stderr(view, ending), cause)

    @staticmethod
    def _kind(view: CallView, ending: Ending) -> VerdictKind:
        if ending.looping is not None:
            return VerdictKind.LOOPING
        if ending.exit_code < 0:
            return VerdictKind.SIGNAL
        if ending.truncated:
            return VerdictKind.TRUNCATED
        if view.api_errors:
            return VerdictKind.API_ERROR
        if ending.exit_code > 0:
            return VerdictKind.UNFINISHED if view.session_id is not None else VerdictKind.USAGE_ERROR
        if view.last_step is None:
            return VerdictKind.NO_RESULT
        if view.last_step.cut_off:
            return VerdictKind.CUT_OFF
        return VerdictKind.OK if view.last_step.reason == "stop" else VerdictKind.UNFINISHED

    @classmethod
    def _told_on_stderr(cls, view: CallView, ending: Ending) -> str | None:
        """Mistakes in command line and configuration are told nowhere else."""
        if cls._kind(view, ending) is not VerdictKind.USAGE_ERROR:
            return None
        return own_words(first_line(ending.stderr))
