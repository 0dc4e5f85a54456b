"""Role ``api``: what its server is made of. Imported only with the role (D28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
from attrs import define

from actors.http.app import AsgiApp, api_app
from actors.http.operations import Desk
from actors.http.server import ApiServer
from actors.ports.blobs import open_blobs
from actors.ports.database import Database
from protocols.failures import InvalidInput
from supervisor.settings.ports import blob_settings, web_rules
from supervisor.version import VERSION

if TYPE_CHECKING:
    from actors.ports.lifecycle import Lifecycle
    from supervisor.settings import Settings


@define
class ApiRole:
    """Opens the blob store, builds the application and serves it until the drain."""

    settings: Settings
    lifecycle: Lifecycle
    database: Database

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """InvalidInput when the blob store cannot be used or the port is taken (then in a group)."""
        area = self.settings.api
        blobs = await open_blobs(blob_settings(self.settings.blobs))
        desk = Desk(self.database, blobs, web=web_rules(self.settings.crawl))
        app = api_app(desk, VERSION, mcp=mcp_endpoint(desk, area.allowed_hosts) if area.mcp else None)
        server = ApiServer(app, area.port, self.lifecycle, host=area.host, grace_s=self.settings.drain.drain_s)
        await server.run(task_status=task_status)


def mcp_endpoint(desk: Desk, hosts: tuple[str, ...]) -> AsgiApp:
    """``/mcp``. InvalidInput when the library is not installed."""
    endpoint: Any = require_mcp().McpEndpoint
    made: AsgiApp = endpoint(desk, VERSION, hosts)
    return made


def prepare(settings: Settings) -> None:
    """To be called before the loop turns: imports take longer than it may be held. InvalidInput: no MCP library."""
    if settings.api.mcp:
        require_mcp()


def require_mcp() -> Any:
    """The module that imports the library, which only users of the extra have (D75). InvalidInput says how to get it."""
    try:
        from actors.http import mcpserver
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InvalidInput("MCP needs the extra: install regelrecht-supervisor[mcp]") from None
    return mcpserver
