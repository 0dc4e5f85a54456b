"""The claude CLI: ``claude -p … --output-format stream-json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from protocols.agentevents import Cause, Closing
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
from protocols.dialects.claude_lines import ClaudeParser
from protocols.dialects.lineparser import first_line, own_words
from protocols.failures import InvalidInput

DEFAULT_MODEL: Final = "claude-opus-5-5"
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
GRANTED: Final = ("Read", "Edit", "Write")
DENIED: Final = (
    "Agent", "Bash", "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree", "Glob", "Grep", "ListAgents",
    "Monitor", "NotebookEdit", "RemoteTrigger", "ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "Task",
    "TaskStop", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Workflow",
)  # fmt: skip
"""Every other tool in the init lists of 2.1.303 and 2.1.332. What is only left off the allow list can be granted by
settings; what is denied cannot (D50)."""

_INTERRUPTED: Final = frozenset({"aborted_streaming", "aborted_tools"})
_LIMITED: Final = frozenset({"max_turns", "budget_exhausted"})
_SIGNAL_EXITS: Final = frozenset({129, 130, 137, 143})
"""The CLI catches SIGTERM and SIGHUP and exits by itself."""


class Claude(Dialect):
    name = "claude"
    display_name = "Claude"
    continues_sessions = True
    quiet_means_stalled = True
    names_model = True
    closing_total = True
    binary_settings = ("CLAUDE_PATH", "LLM_PATH")
    model_settings = ("CLAUDE_MODEL", "LLM_MODEL")
    granted_tools = GRANTED
    default_binary = "claude"
    default_model: ClassVar[str | None] = DEFAULT_MODEL

    def effort(self, settings: Mapping[str, str]) -> str | None:
        """``LLM_EFFORT``; the CLI would only warn about a word it does not know, and nothing reports what it chose."""
        effort = settings.get("LLM_EFFORT", "").strip()
        if effort and effort not in EFFORTS:
            raise InvalidInput(f"LLM_EFFORT: {effort!r} is none of {', '.join(EFFORTS)}")
        return effort or None

    def command(self, binary: str, call: AgentCall) -> CommandLine:
        """``--verbose`` is required for stream-json; without partial messages a long answer would be silence.

        The tools are scoped to the working directory: unscoped, ``Write`` writes anywhere. ``--tools`` takes the others
        away, ``--disallowedTools`` keeps settings from granting them, and neither settings nor MCP servers of the
        checkout are read (D50).
        """
        tools = (*(("Bash",) if call.bash else ()), *GRANTED)
        scoped = [*(("Bash",) if call.bash else ()), *(f"{tool}(./**)" for tool in GRANTED)]
        on_stdin = prompt_on_stdin(call.prompt)
        argv = [binary, "-p", *([] if on_stdin else [call.prompt])]
        argv += ["--output-format", "stream-json", "--verbose", "--include-partial-messages", "--model", call.model]
        if call.effort:
            argv += ["--effort", call.effort]
        if call.session is not None:
            argv += ["--resume" if call.session.resume else "--session-id", call.session.id]
        argv += ["--tools", ",".join(tools), "--allowedTools", ",".join(scoped)]
        argv += ["--disallowedTools", ",".join(tool for tool in DENIED if tool not in tools)]
        argv += ["--strict-mcp-config", "--setting-sources", "user"]
        return CommandLine(tuple(argv), stdin=call.prompt.encode() if on_stdin else None)

    def environment(
        self, environ: Mapping[str, str], *, folders: Folders | None, extra: Iterable[str] = (), credential: str = ""
    ) -> dict[str, str]:
        """One token, never a list of them; no API key, which would take precedence over the subscription."""
        variables = passed_on(environ, folders, extra)
        token = credential or environ.get("CLAUDE_CODE_OAUTH_TOKEN", "").strip()
        if token:
            variables["CLAUDE_CODE_OAUTH_TOKEN"] = token
        base_url = environ.get("CLAUDE_BASE_URL", "").strip()
        if base_url:
            variables["ANTHROPIC_BASE_URL"] = base_url
        return variables | {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "NODE_OPTIONS": "--max-old-space-size=512",
        }

    def parser(self, cwd: str | None = None) -> ClaudeParser:
        return ClaudeParser(cwd)

    def verdict(self, view: CallView, ending: Ending) -> CallVerdict:
        """Success is a whole stream, a last result without error, and exit code 0 or an end that we made after it.

        Exit code 0 alone is none (SIGINT), nor is ``subtype: success`` (API errors), AG-04.
        """
        closing = view.closing
        reason, cause = self._why(view)
        if ending.looping is not None:
            return CallVerdict(VerdictKind.LOOPING, reason, cause)
        if ending.exit_code < 0 and not ending.after_result:
            return CallVerdict(VerdictKind.SIGNAL, reason, cause)
        if ending.truncated:
            return CallVerdict(VerdictKind.TRUNCATED, reason, cause)
        if closing is not None and closing.is_error:
            return CallVerdict(self._failed(view, closing), reason, cause)
        if closing is not None:
            done = ending.exit_code == 0 or ending.after_result
            return CallVerdict(VerdictKind.OK if done else VerdictKind.UNFINISHED)
        if ending.exit_code in _SIGNAL_EXITS:
            return CallVerdict(VerdictKind.SIGNAL, reason, cause)
        if ending.exit_code > 0 and view.session_id is None:
            return CallVerdict(VerdictKind.USAGE_ERROR, own_words(first_line(ending.stderr)))
        return CallVerdict(VerdictKind.NO_RESULT, reason, cause)

    @staticmethod
    def _failed(view: CallView, closing: Closing) -> VerdictKind:
        if closing.kind in _INTERRUPTED:
            return VerdictKind.SIGNAL
        if closing.kind in _LIMITED:
            return VerdictKind.UNFINISHED
        if closing.kind == "error_during_execution":  # no terminal_reason: the session to resume was not found
            return VerdictKind.USAGE_ERROR
        if view.last_error is not None and view.last_error.cause is Cause.OUTPUT_LIMIT:
            return VerdictKind.CUT_OFF
        return VerdictKind.API_ERROR

    @staticmethod
    def _why(view: CallView) -> tuple[str | None, Cause | None]:
        closing, error = view.closing, view.last_error
        failed = closing is None or closing.is_error
        cause = error.cause if error is not None and failed else None
        if cause is Cause.RATE_LIMIT and view.limit is not None and view.limit.rejected:
            cause = Cause.QUOTA
        if closing is not None and closing.kind == "prompt_too_long":
            cause = Cause.CONTEXT
        if closing is not None:
            return closing.reason, cause
        return (error.message or None) if error is not None else None, cause
