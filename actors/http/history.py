"""``get_pipeline_runs``: recent runs of one workspace, for a chat agent (``pipelines.md`` 8). Knows nothing of MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from actors.ports.database import Units
from protocols.runhistory import DEFAULT_LIMIT, RunLine, render_runs
from schema.pipelines import history


class GetPipelineRuns(Protocol):
    async def __call__(self, pipeline_id: int | None = None, limit: int = DEFAULT_LIMIT) -> str:
        """The newest runs as lines of text; a pipeline that is not in the workspace has none."""
        ...


ReadRuns = Callable[[int | None, int], Awaitable[Sequence[RunLine]]]


def make_get_pipeline_runs(database: Units, workspace_id: int) -> GetPipelineRuns:
    """The tool for one workspace: no argument of a call can reach another. Each call is a read-only transaction."""
    read = run_reader(database, workspace_id)

    async def get_pipeline_runs(pipeline_id: int | None = None, limit: int = DEFAULT_LIMIT) -> str:
        return render_runs(await read(pipeline_id, limit))

    return get_pipeline_runs


def run_reader(database: Units, workspace_id: int) -> ReadRuns:
    """The same runs as values."""

    async def read(pipeline_id: int | None, limit: int) -> Sequence[RunLine]:
        return await database.transact(
            history.recent_runs_read_only, workspace_id, pipeline_id=pipeline_id, limit=limit
        )

    return read
