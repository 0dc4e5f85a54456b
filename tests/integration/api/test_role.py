"""Role ``api`` as a whole process: it starts alone, says where it listens, and is drained like the others (D20)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from schema import tokens
from schema.pipelines import workspaces
from schema.pipelines.workspaces import PERMISSIONS
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.postgres import run_on
from tests.kit.supervisors import Fleet, SupervisorProcess, fleet

SIZE = 24 << 20


@pytest.fixture
def ships(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as made:
        yield made


def start(ships: Fleet, **settings: str) -> SupervisorProcess:
    defaults = {"API_PORT": "0", "BLOB_LOCAL_ROOT": str(ships.folder / "blobs"), "SUPERVISOR_DRAIN_SECS": "10"}
    return ships.start({**defaults, **settings}, roles="api")


def url_of(process: SupervisorProcess) -> str:
    [line] = [line for line in process.lines() if line.get("event") == "api"]
    return str(line["urls"][0])


async def token_of(ships: Fleet) -> tuple[int, str]:
    """A new workspace, and a token for it."""

    async def make(connection: Any) -> tuple[int, str]:
        owner = await workspaces.create_account(connection, subject="s", email="jan@example.org", name="N. N.")
        made = await workspaces.create_workspace(connection, "Werkplaats", owner)
        token = await tokens.create_token(
            connection, owner, made.id, name="test", permissions=PERMISSIONS, created_by="test"
        )
        return made.id, token.text

    found: tuple[int, str] = await trio.to_thread.run_sync(run_on, ships.database_url, make)
    return found


async def test_the_role_serves_runs_and_mcp_and_a_drain_lets_an_open_stream_end(ships: Fleet) -> None:
    process = start(ships, API_MCP="1")
    await process.ready()
    workspace, token = await token_of(ships)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url_of(process), headers=headers, timeout=20, trust_env=False) as client:
        made = await client.post("/pipelines", json={"workspace_id": workspace, "name": "Uploads"})
        assert made.status_code == 201, made.text
        run = (await client.post(f"/pipelines/{made.json()['id']}/run")).json()  # the role has added the job type
        listed = await client.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            headers={"Accept": "application/json, text/event-stream"},
        )
        assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["get_pipeline_runs"]
        (ships.folder / "blobs" / "result-1.json").write_bytes(b"x" * SIZE)
        await ships.sql(
            "UPDATE pipeline_runs SET result_blob_key = 'result-1.json', result_blob_backend = 'local' WHERE id = $1",
            run["id"],
        )
        read = 0
        async with client.stream("GET", f"/pipelines/{run['pipeline_id']}/runs/{run['id']}/result") as answer:
            chunks = answer.aiter_raw()
            read += len(await anext(chunks))
            process.signal(signal.SIGTERM)
            with trio.fail_after(10):
                while not process.said("draining"):  # noqa: ASYNC110 - a log that another process writes
                    await trio.sleep(0.02)
            async for chunk in chunks:
                read += len(chunk)
        assert read == SIZE
    assert await process.exit_code() == exitcodes.CLEAN
    assert not any(token in str(line) for line in process.lines())
    held = [str(line.get("stack")) for line in process.lines() if line.get("event") == "a task holds the loop"]
    assert not any("import" in stack and "mcp" in stack for stack in held)  # it takes long to import
    hints = [str(line["hint"]) for line in process.lines() if line.get("event") == "settings"]
    assert any("role api runs here without role pipelines" in hint for hint in hints)


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(ships: Fleet) -> None:
    process = start(ships, SUPERVISOR_DRAIN_SECS="1")
    await process.ready()
    workspace, token = await token_of(ships)
    url = httpx.URL(url_of(process))
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        made = (await client.post("/pipelines", json={"workspace_id": workspace, "name": "Uploads"})).json()
        run = (await client.post(f"/pipelines/{made['id']}/run")).json()
    (ships.folder / "blobs" / "result-1.json").write_bytes(b"x" * SIZE)
    await ships.sql("UPDATE pipeline_runs SET result_blob_key = 'result-1.json' WHERE id = $1", run["id"])
    path = f"/pipelines/{made['id']}/runs/{run['id']}/result"
    async with await trio.open_tcp_stream(url.host, url.port or 80) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert (await stream.receive_some(1024)).startswith(b"HTTP/1.1 200")
        process.signal(signal.SIGTERM)
        assert await process.exit_code(limit_s=30) == exitcodes.CLEAN  # a forced end would be another code
    assert not process.said("forced end")


async def test_a_port_that_is_taken_is_told_in_a_line(ships: Fleet) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    try:
        port = listeners[0].socket.getsockname()[1]
        process = start(ships, API_PORT=str(port))
        assert await process.exit_code() == exitcodes.USAGE
        assert f"cannot serve on port {port} (API_PORT): is it in use?" in process.log.read_text()
        assert "Traceback" not in process.log.read_text()
    finally:
        for listener in listeners:
            await listener.aclose()


def test_hosts_that_are_none_are_refused_at_the_start(database_url: str) -> None:
    done = cli.run("run", "--roles", "api", DATABASE_URL=database_url, API_ALLOWED_HOSTS="https://x/", API_PORT="0x1")
    assert done.code == exitcodes.USAGE
    assert all(name in done.err for name in ("API_ALLOWED_HOSTS", "API_PORT"))
