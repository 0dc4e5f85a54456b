"""``replay``: what the product makes of a recorded agent stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from supervisor import exitcodes
from supervisor.commands.session import json_option, print_json
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from protocols.agentevents import AgentEvent, Usage
    from protocols.agentstream import AgentStream
    from protocols.agentview import CallView
    from protocols.dialects.base import CallVerdict
    from protocols.stall import LoopWatch

CHUNK_BYTES = 65_536


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor replay stream.jsonl --provider claude
  regelrecht-supervisor replay stream.jsonl --provider opencode \\
      --exit-code -9 --json
  zcat stream.jsonl.gz | regelrecht-supervisor replay - --provider claude
"""
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), metavar="FILE")
@click.option("--provider", type=click.Choice(["opencode", "claude"]), required=True, help="Whose stream it is.")
@click.option(
    "--exit-code",
    type=click.IntRange(-64, 255),
    default=0,
    show_default=True,
    metavar="N",
    help="How the CLI ended; negative for a death by signal.",
)
@json_option
def command(file: Path, provider: str, exit_code: int, as_json: bool) -> None:
    """Show what the supervisor makes of a recorded agent stream.

    FILE is what the CLI printed on stdout, byte for byte; - is stdin. What was written or read is never shown. Cost is
    as the stream reports it: for a resumed claude session that includes its earlier calls. Exits 1 when nothing in FILE
    is what such a CLI prints.
    """
    from protocols.agentstream import AgentStream
    from protocols.agentview import CallView
    from protocols.dialects import DIALECTS
    from protocols.dialects.base import Ending
    from protocols.stall import LoopWatch, StallLimits

    dialect = DIALECTS[provider]
    stream, view = AgentStream(dialect.parser()), CallView()
    limits = StallLimits().for_call(quiet_means_stalled=dialect.quiet_means_stalled, enrichment=True)
    timeline = Timeline(stream, LoopWatch(limits))
    events = shown = 0
    try:
        with click.open_file(str(file), "rb") as source:
            for number, event in _events(stream, source):
                view.fold(event)
                events += 1
                line = timeline.line(number, event)
                if line is not None and not as_json:
                    say(line)
                    shown += 1
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
    verdict = dialect.verdict(view, Ending(exit_code, truncated=stream.truncated))
    if timeline.looping is not None and not verdict.ok:
        verdict = dialect.verdict(view, Ending(exit_code, truncated=stream.truncated, looping=timeline.looping))
    if as_json:
        print_json(as_object(provider, stream, view, verdict))
    else:
        say("\n".join([""] * bool(shown) + conclusion(stream, view, verdict, timeline.looping)))
    if not events and (stream.lines or stream.truncated):
        other = " or ".join(name for name in DIALECTS if name != provider)
        say(
            f"Error: nothing in {file} is what {provider} prints: is it a recording, and of {provider}, not {other}?",
            err=True,
        )
        sys.exit(exitcodes.ESCALATED)


def _events(stream: AgentStream, source: IO[bytes]) -> Iterator[tuple[int, AgentEvent]]:
    """Line number (from 1) and event; the file is never held as a whole."""
    while chunk := source.read(CHUNK_BYTES):
        for line in stream.split(chunk):
            for event in stream.read((line,)):
                yield stream.lines, event
    for event in stream.finish():
        yield stream.lines, event


class Timeline:
    """Events in words, one line each, with the time where the stream gives one."""

    def __init__(self, stream: AgentStream, watch: LoopWatch) -> None:
        self._stream = stream
        self._watch = watch
        self.looping: str | None = None
        """Why a running call would have been stopped as looping; the first reason counts."""

    def line(self, number: int, event: AgentEvent) -> str | None:
        """None for an event that a reader can do without."""
        found = self._watch.note(event)
        text = describe(event)
        if found is not None and self.looping is None:
            self.looping = found
            text = f"{text or 'step'}; {found}"
        if text is None:
            return None
        stamp = self._stream.stamp_ms
        at = "" if stamp is None else f"{_clock(stamp)}  "
        return f"{number:6}  {at}{text}"


def describe(event: AgentEvent) -> str | None:
    """One event in words, without any text of law, prompt or model."""
    from protocols import agentevents as events

    match event:
        case events.SessionSeen(session_id=session_id):
            return f"session {click.unstyle(session_id)}"
        case events.ModelSeen(model=model):
            return f"model {model}"
        case events.ToolCall():
            return f"tool {event.summary}, {event.input_chars} characters of input"
        case events.ToolResult(failed=True):
            return "tool failed"
        case events.StepStarted():
            return "step starts again" if event.again else "step starts"
        case events.StepEnded():
            return _step(event)
        case events.Voided():
            return "the stream of this answer broke; its unfinished parts are void"
        case events.Retry():
            wait = "" if event.delay_s is None else f", waits {event.delay_s:g} s"
            return f"retry: {event.text}{wait}"
        case events.ApiError():
            return f"error {event.name} ({event.cause}): {event.message}"
        case events.LimitSeen():
            return "the provider's limit is reached" if event.rejected else "within the provider's limit"
        case events.Closing():
            ended = f"failed, {event.kind}: {event.reason}" if event.is_error else event.kind
            denied = f"; denied tools: {', '.join(event.denied_tools)}" if event.denied_tools else ""
            return f"result: {ended}{denied}"
        case _:
            return None


def _step(event: Any) -> str:
    tokens = "" if event.usage is None else f", {_tokens(event.usage)}"
    chars = (
        f"{event.text_chars} text, {event.reasoning_chars} reasoning, {event.tool_input_chars} tool input characters"
    )
    return f"step ends: {event.reason}{' (cut off by the output limit)' if event.cut_off else ''}, {chars}{tokens}"


def _tokens(usage: Usage) -> str:
    return (
        f"{usage.input_tokens} tokens in, {usage.output_tokens} out, "
        f"{usage.cache_read_tokens} read from and {usage.cache_write_tokens} written to cache"
    )


def _clock(stamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(stamp_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return "?"


def conclusion(stream: AgentStream, view: CallView, verdict: CallVerdict, looping: str | None) -> list[str]:
    """What stands below the timeline."""
    counts, usage = stream.counts, view.usage
    bound = "" if view.usage_complete(truncated=stream.truncated) else " (at least)"
    work = f"{view.turns} turns, {view.tool_calls} tool calls, {view.tool_errors} tool errors"
    trouble = f"{view.cut_off_steps} steps cut off, {view.retries} retries"
    unread = f"{counts.bad} bad, {counts.malformed} malformed, {stream.oversized_lines} oversized"
    lines = [
        f"verdict   {verdict.kind}" + (f" ({verdict.cause})" if verdict.cause else ""),
        f"reason    {verdict.reason or looping or '-'}",
        f"session   {view.session_id or '-'}",
        f"models    {', '.join(view.models) or '-'}",
        f"work      {work}, {trouble}",
        f"usage     {'-' if usage is None else _tokens(usage) + bound}",
        f"cost      {_money(view.total_cost_usd)}",
        f"lines     {stream.lines}: {unread}, {counts.unknown} of unknown type"
        + (", the last one cut off" if stream.truncated else ""),
    ]
    if view.recent.last is not None:
        lines.append(f"last      {view.recent.last}")
    return lines


def _money(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:.5f}"


def as_object(provider: str, stream: AgentStream, view: CallView, verdict: CallVerdict) -> dict[str, Any]:
    """The object of ``--json``. What the stream does not tell is null, not 0."""
    from protocols.agentview import millicents

    usage, total = view.usage, view.total_cost_usd
    return {
        "provider": provider,
        "model": view.model,
        "session_id": view.session_id,
        "turns": view.turns,
        "tool_calls": view.tool_calls,
        "tool_errors": view.tool_errors,
        "cut_off_steps": view.cut_off_steps,
        "retries": view.retries,
        "usage": None
        if usage is None
        else {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "cost_millicents": None if total is None else millicents(total),
        "ok": verdict.ok,
        "reason": verdict.reason,
        "lines": stream.lines,
        "bad_lines": stream.bad_lines,
        "truncated": stream.truncated,
    }
