"""Agent streams for tests: our own fixtures, and what the product makes of any bytes."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from protocols.agentevents import AgentEvent
from protocols.agentstream import AgentStream
from protocols.agentview import CallView
from protocols.dialects import DIALECTS
from protocols.dialects.base import CallVerdict, Ending
from protocols.stall import LoopWatch, StallLimits

FIXTURES = Path(__file__).parents[1] / "fixtures" / "agent-streams"
CANARY = "KANARIE"
"""Stands in every text of law, of the model and of a tool in the fixtures, and may be seen nowhere else."""


@frozen
class Read:
    """A stream that was read to its end."""

    stream: AgentStream
    view: CallView
    events: list[AgentEvent]
    looping: str | None
    provider: str

    def verdict(self, exit_code: int = 0, stderr: str = "", *, after_result: bool = False) -> CallVerdict:
        ending = Ending(
            exit_code,
            truncated=self.stream.truncated,
            after_result=after_result,
            looping=self.looping,
            stderr=stderr,
        )
        return DIALECTS[self.provider].verdict(self.view, ending)


def read(provider: str, content: bytes, chunk_bytes: int = 65_536, cwd: str | None = None) -> Read:
    """``content`` in chunks through splitter, parser and view."""
    dialect = DIALECTS[provider]
    stream, view = AgentStream(dialect.parser(cwd)), CallView()
    limits = StallLimits().for_call(quiet_means_stalled=dialect.quiet_means_stalled, enrichment=True)
    watch, looping, events = LoopWatch(limits), None, []
    for start in range(0, len(content), chunk_bytes):
        events += stream.read(stream.split(content[start : start + chunk_bytes]))
    events += stream.finish()
    for event in events:
        view.fold(event)
        looping = looping or watch.note(event)
    return Read(stream, view, events, looping, provider)


def fixture(provider: str, name: str) -> bytes:
    return (FIXTURES / provider / f"{name}.jsonl").read_bytes()


def fixture_names(provider: str) -> list[str]:
    return sorted(path.stem for path in (FIXTURES / provider).glob("*.jsonl"))
