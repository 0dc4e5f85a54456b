"""The HTTP interface on a real port, over a test database and a blob store in a folder; the fixture is ``api``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio
from attrs import define, evolve, field

from actors.http.app import api_app
from actors.http.mcpserver import McpEndpoint
from actors.http.operations import Desk
from actors.http.server import ApiServer
from actors.ports.blobs import Blobs, BlobSettings, open_blobs
from actors.ports.lifecycle import Lifecycle
from protocols.connectors import CONNECTORS, ConnectorRegistry
from protocols.crawl import blob_key
from protocols.messages import Phase
from schema import tokens
from schema.pipelines.rows import Run
from schema.pipelines.workspaces import PERMISSIONS
from schema.tokens import NewToken
from tests.kit.pipelines import Shop

VERSION = "0.0.test"


@define
class Api:
    """A client with the owner's token for the workspace of ``shop``, and what the server stands on."""

    shop: Shop
    blobs: Blobs
    lifecycle: Lifecycle
    url: str
    token: str
    client: httpx.AsyncClient
    stopped: trio.Event = field(factory=trio.Event)

    @property
    def workspace(self) -> int:
        return self.shop.workspace

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        expect: int | None = None,
        token: str | None = "",
        **more: Any,
    ) -> Any:
        """The parsed answer, or the whole one where no status is expected. ``token`` None: send none."""
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            more["json"] = body
        answer = await self.client.request(method, path, headers=headers, **more)
        if expect is None:
            return answer
        assert answer.status_code == expect, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def new_token(
        self, permissions: Sequence[str] = PERMISSIONS, *, shop: Shop | None = None, valid_days: float | None = None
    ) -> NewToken:
        at = shop or self.shop
        return await at.database.transact(
            tokens.create_token,
            at.owner,
            at.workspace,
            name="test",
            permissions=permissions,
            created_by="test",
            valid_days=valid_days,
        )

    async def stranger(self) -> tuple[Shop, str]:
        """Another workspace on this server, with a token for it that allows everything."""
        other = await self.shop.another()
        return other, (await self.new_token(shop=other)).text

    async def publish(self, run: Run, content: bytes, *, days: float = 30, backend: str = "local") -> str:
        """Give a run a stored result; its key."""
        key = blob_key(workspace_id=self.workspace, run_id=run.id, claim_seq=1)
        await self.blobs.put(key, content)
        await self.shop.rows.sql(
            "UPDATE pipeline_runs SET result_blob_key = $2, result_blob_backend = $3, result_bytes = $4, "
            "result_expires_at = now() + $5::float8 * interval '1 day' WHERE id = $1",
            run.id, key, backend, len(content), days,
        )  # fmt: skip
        return key

    async def counts(self) -> Mapping[str, int]:
        """Rows of each table that requests may change: equal before and after a request that was refused."""
        tables = ("pipelines", "connectors", "folders", "pipeline_runs", "jobs", "api_idempotency_keys")
        return {table: int(await self.shop.rows.value(f"SELECT count(*) FROM {table}")) for table in tables}


@asynccontextmanager
async def serving(
    shop: Shop,
    folder: Path,
    *,
    registry: ConnectorRegistry = CONNECTORS,
    grace_s: float = 5,
    **limits: Any,
) -> AsyncIterator[Api]:
    """The server on a free port of loopback until the end of the block."""
    blobs = await open_blobs(BlobSettings(local_root=folder))
    lifecycle = Lifecycle(Phase.RUNNING)
    desk = evolve(Desk(shop.database, blobs, registry), **limits)
    server = ApiServer(api_app(desk, VERSION, mcp=McpEndpoint(desk, VERSION)), 0, lifecycle, grace_s=grace_s)
    async with trio.open_nursery() as nursery:
        stopped = trio.Event()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            await server.run(task_status=task_status)
            stopped.set()

        await nursery.start(run)
        url = server.urls[0]
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            api = Api(shop, blobs, lifecycle, url, "", client, stopped)
            api.token = (await api.new_token()).text
            yield api
        nursery.cancel_scope.cancel()


async def created(api: Api, **more: Any) -> dict[str, Any]:
    """A pipeline over a new web connector, made over HTTP."""
    if "connector_id" not in more:
        more["connector_id"] = (await api.shop.connector()).id
    body = {"workspace_id": api.workspace, "name": "Beleid", **more}
    answer: dict[str, Any] = await api.ask("POST", "/pipelines", body, expect=201)
    return answer


async def faults(api: Api, method: str, path: str, body: object) -> set[str]:
    """The fields that a refused request has faults in."""
    answer = await api.ask(method, path, body, expect=422)
    assert answer["error"]["code"] == "invalid_request", answer
    return {fault["field"] for fault in answer["error"]["details"]["faults"]}
