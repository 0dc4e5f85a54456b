"""A job whose agents play scripts on the mock clock."""

from __future__ import annotations

from pathlib import Path

from actors.agent import CallOutcome
from actors.agentcalls import AgentCalls, CallsEnd
from protocols.agentview import AgentView
from protocols.dialects import DIALECTS
from protocols.stall import StallLimits
from tests.kit.agentlines import (
    Played,
    PlayedRunner,
    slice_call,
)

IDLE = StallLimits(idle_s=600.0)


class Job:
    """A job that makes calls with scripts; what they came to, and when they were stopped."""

    def __init__(self, folder: Path, provider: str = "claude", limits: StallLimits = IDLE, **scripts: Played) -> None:
        self.folder = folder
        self.scripts = scripts
        self.runner = PlayedRunner(scripts)
        self.view = AgentView(provider)
        self.recorded: list[CallOutcome] = []
        self.calls = AgentCalls(
            DIALECTS[provider], self.view, self.runner, self.recorded.append, limits, secrets=("canary-secret",)
        )

    async def run(self, *, limit_s: float = 7200.0, enrichment: bool = True) -> CallsEnd:
        end = await self.calls.run(
            *(slice_call(name, self.folder, limit_s=limit_s) for name in self.scripts), enrichment=enrichment
        )
        assert self.runner.now_running == 0
        assert [outcome.slice for outcome in end.outcomes] == list(range(len(self.scripts)))
        assert sorted(outcome.slice for outcome in self.recorded) == list(range(len(self.scripts)))
        return end
