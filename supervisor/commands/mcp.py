"""``mcp``: the run history of a workspace for a chat agent on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.numbers import ID
from supervisor.commands.session import embedded_option, on_database

if TYPE_CHECKING:
    from actors.ports.database import Database


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor mcp --workspace 3

\b
As a tool of an agent that takes such a file:
  {"mcpServers": {"pipelines": {
    "command": "regelrecht-supervisor", "args": ["mcp", "--workspace", "3"]}}}
"""
)
@click.option("--workspace", type=ID, required=True, help="The workspace; nothing else is reachable.")
@embedded_option
def command(workspace: int, embedded: bool) -> None:
    """Serve the tool get_pipeline_runs over stdin and stdout (MCP), until stdin ends.

    Whoever may read the database may do this: the tool is bound to the workspace, not to an account. Over HTTP, for
    others, it is at /mcp of role api. Needs the extra `mcp`.
    """
    from supervisor.apirole import require_mcp
    from supervisor.version import VERSION

    server = require_mcp()

    async def work(database: Database) -> None:
        from schema.pipelines import workspaces

        await database.run(workspaces.get_workspace, workspace)
        await server.serve_stdio(database, workspace, VERSION)

    on_database(work, embedded=embedded)
