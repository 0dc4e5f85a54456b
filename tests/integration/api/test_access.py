"""Who may speak to the HTTP interface, and how it describes itself (D70)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from actors.http.app import OPERATIONS
from protocols.failures import InvalidInput
from schema import tokens
from schema.pipelines import workspaces
from supervisor import exitcodes
from tests.kit import cli
from tests.kit.api import Api


async def status(api: Api, token: str | None) -> int:
    answer = await api.ask("GET", f"/workspaces/{api.workspace}", token=token)
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == "unauthorized"
    return int(answer.status_code)


async def test_a_token_is_good_until_it_is_revoked_or_expires(api: Api) -> None:
    made = await api.new_token()
    assert await status(api, made.text) == 200
    await api.shop.database.run(tokens.revoke_token, made.token.id)
    assert await status(api, made.text) == 401
    short = await api.new_token(valid_days=1)
    assert await status(api, short.text) == 200
    await api.shop.rows.sql("UPDATE api_tokens SET expires_at = now() WHERE id = $1", short.token.id)
    assert await status(api, short.text) == 401


async def test_nobody_comes_in_without_a_good_token(api: Api) -> None:
    made = await api.new_token()
    other = await api.new_token()
    number, secret = made.token.id, made.text.rpartition("_")[2]
    swapped = f"rrs_{number}_{other.text[-43:]}"
    for bad in (
        None,
        "x",
        "rrs_1_",
        swapped,
        made.text[:-1],
        f"{made.text}x",
        f"rrs_{10**17}_{secret}",
        f"rrs_٣_{secret}",
    ):
        headers = [] if bad is None else [(b"Authorization", f"Bearer {bad}".encode())]
        answer = await api.client.get(f"/workspaces/{api.workspace}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), bad
    basic = await api.client.get(f"/workspaces/{api.workspace}", headers={"Authorization": f"Basic {made.text}"})
    assert basic.status_code == 401


async def test_what_is_stored_does_not_hold_the_token(api: Api) -> None:
    made = await api.new_token()
    secret = made.text.rpartition("_")[2]
    [row] = await api.shop.rows.sql("SELECT t::text AS row FROM api_tokens AS t WHERE id = $1", made.token.id)
    assert secret not in row["row"]
    assert secret not in repr(made)


async def test_a_token_allows_no_more_than_its_account_may_do_now(api: Api) -> None:
    made = (await api.new_token()).text
    body = {"workspace_id": api.workspace, "name": "x"}
    await api.ask("POST", "/folders", body, token=made, expect=201)
    await api.shop.database.run(workspaces.add_member, api.workspace, api.shop.owner, ("connectors:read",))
    await api.ask("POST", "/folders", body, token=made, expect=403)
    assert await status(api, made) == 200
    await api.shop.rows.sql("DELETE FROM workspace_members")
    await api.ask("GET", f"/workspaces/{api.workspace}", token=made, expect=403)


async def test_a_token_cannot_be_made_for_more_than_its_account_may_do(api: Api) -> None:
    with pytest.raises(InvalidInput, match="may not"):
        await api.shop.database.transact(
            tokens.create_token,
            api.shop.actor,
            api.workspace,
            name="x",
            permissions=["connectors:read"],
            created_by="t",
        )


async def test_when_a_token_was_used_is_noted(api: Api) -> None:
    made = await api.new_token()
    assert made.token.last_used_at is None
    await status(api, made.text)
    found = {one.id: one for one in await api.shop.database.run(tokens.list_tokens, workspace_id=api.workspace)}
    assert found[made.token.id].last_used_at is not None


def command_shop(url: str) -> tuple[int, str]:
    """A workspace with an owner, for commands: its id, and the owner's address."""
    from tests.kit.postgres import run_on

    async def make(connection: Any) -> int:
        owner = await workspaces.create_account(connection, subject="s", email="jan@example.org", name="N. N.")
        return (await workspaces.create_workspace(connection, "Werkplaats", owner)).id

    workspace: int = run_on(url, make)
    return workspace, "jan@example.org"


def test_a_token_is_made_listed_and_revoked_by_commands(database_url: str) -> None:
    workspace, owner = command_shop(database_url)
    common = ("--workspace", workspace, "--account", owner, "--name", "dashboard")
    made = cli.run("token", "create", *common, "--days", 7, DATABASE_URL=database_url)
    assert made.code == 0, made.err
    text = made.out.strip()
    assert text.startswith("rrs_1_")
    listed = cli.run("token", "list", "--json", DATABASE_URL=database_url)
    [seen] = listed.json
    assert (seen["name"], seen["permissions"], seen["revoked_at"]) == ("dashboard", ["connectors:read"], None)
    assert text.rpartition("_")[2] not in listed.out
    first, second = (cli.run("token", "revoke", 1, DATABASE_URL=database_url) for _ in range(2))
    assert (first.code, first.out) == (0, "token 1 (dashboard): revoked\n")
    assert (second.code, "revoked already, at " in second.out) == (0, True)
    table = cli.run("token", "list", DATABASE_URL=database_url)
    assert "revoked" in table.out
    assert cli.run("token", "revoke", 99, DATABASE_URL=database_url).code == exitcodes.USAGE
    wrong = cli.run("token", "create", *common, "--permission", "everything", DATABASE_URL=database_url)
    assert (wrong.code, "connectors:read" in wrong.err) == (exitcodes.USAGE, True)


# --- the document -----------------------------------------------------------------------------------------------------


async def test_the_document_has_every_operation_and_refers_to_nothing_that_is_not_there(api: Api) -> None:
    document = await api.ask("GET", "/openapi.json", token=None, expect=200)
    found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert found == {(one.method, one.path) for one in OPERATIONS}
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    for reference in set(text.split('"#/components/schemas/')[1:]):
        assert reference.partition('"')[0] in schemas
    for name in (
        "PipelineCreate",
        "PipelineUpdate",
        "ConnectorCreate",
        "ConnectorUpdate",
        "FolderCreate",
        "FolderUpdate",
    ):
        assert schemas[name]["additionalProperties"] is False


async def test_answers_are_what_the_document_says(api: Api) -> None:
    document = await api.ask("GET", "/openapi.json", token=None, expect=200)
    run = await api.shop.perform(await api.shop.pipeline())
    path = f"/pipelines/{run.pipeline_id}/runs/{run.id}"
    for url, name in (
        (f"/workspaces/{api.workspace}", "WorkspaceAnswer"),
        (f"/pipelines?workspace_id={api.workspace}", "PipelinePage"),
        (f"/connectors?workspace_id={api.workspace}", "ConnectorPage"),
        (f"/pipelines/{run.pipeline_id}/runs", "RunPage"),
        (path, "RunDetailAnswer"),
        (f"{path}/items", "ItemPage"),
    ):
        validator = jsonschema_rs.validator_for(
            {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        )
        validator.validate(await api.ask("GET", url, expect=200))
    refused = await api.ask("GET", "/pipelines/999", expect=404)
    jsonschema_rs.validate({"$ref": "#/components/schemas/ErrorAnswer", "components": document["components"]}, refused)


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        ({"workspace_id": 1, "name": "x"}, True),
        ({"workspace_id": 1, "name": ""}, False),
        ({"workspace_id": 1, "name": "x", "more": 1}, False),
        ({"workspace_id": "1", "name": "x"}, False),
        ({"workspace_id": 1, "name": "x", "schedule_timezone": None}, False),
        ({"workspace_id": 1, "name": "x", "schedule_cron": None}, True),
        ({"name": "x"}, False),
    ],
)
async def test_the_document_and_the_checks_agree(api: Api, body: dict[str, Any], fine: bool) -> None:
    document = await api.ask("GET", "/openapi.json", token=None, expect=200)
    schema = {"$ref": "#/components/schemas/PipelineCreate", "components": document["components"]}
    assert jsonschema_rs.is_valid(schema, body) is fine
    sent = {**body, "workspace_id": api.workspace} if body.get("workspace_id") == 1 else body
    assert (await api.ask("POST", "/pipelines", sent)).status_code == (201 if fine else 422)
