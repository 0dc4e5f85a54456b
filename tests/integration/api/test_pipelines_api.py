"""Pipelines over HTTP (``pipelines.md`` 9, 12.24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocols.connectors import BWB_LAWS, CONNECTORS, WEB_CRAWLER
from protocols.webpolicy import WebRules
from schema.pipelines.workspaces import PERMISSIONS
from tests.kit.api import Api, created, faults, serving
from tests.kit.pipelines import Shop


@pytest.mark.claim("S3-103")
async def test_a_pipeline_is_created_with_its_defaults_and_read_back(api: Api) -> None:
    made = await created(api)
    assert (made["schedule_timezone"], made["enabled"], made["save_to_kb"], made["config"]) == ("UTC", True, False, {})
    assert made["created_by_id"] == str(api.shop.owner)
    assert made.pop("connector_periodic") == {"suppressed": True, "restored": False}
    assert await api.ask("GET", f"/pipelines/{made['id']}", expect=200) == made


async def test_pipelines_are_listed_by_id_in_pages(api: Api) -> None:
    ids = [(await created(api, name=f"p{number}"))["id"] for number in range(3)]
    listed = await api.ask("GET", f"/pipelines?workspace_id={api.workspace}", expect=200)
    assert ([one["id"] for one in listed["items"]], listed["total"]) == (ids, 3)
    paged = await api.ask("GET", f"/pipelines?workspace_id={api.workspace}&limit=1&offset=1", expect=200)
    assert ([one["id"] for one in paged["items"]], paged["total"]) == ([ids[1]], 3)


async def test_all_faults_of_a_request_are_told_at_once(api: Api) -> None:
    before = await api.counts()
    body = {
        "name": "",
        "connector_id": "7",
        "save_to_kb": 1,
        "schedule_cron": "0 0 0 * * *",
        "schedule_timezone": "Europe",
        "config": {"INITIAL_URLS": ["ftp://site.example/", "https://user:pw@site.example/", "https://fine.example/"]},
        "surprise": 1,
    }
    found = await faults(api, "POST", "/pipelines", body)
    assert found == {
        "workspace_id", "name", "connector_id", "save_to_kb", "schedule_cron", "schedule_timezone", "surprise",
        "config.INITIAL_URLS[0]", "config.INITIAL_URLS[1]",
    }  # fmt: skip
    assert await api.counts() == before


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://10.0.0.1/", "not on the public internet"),
        ("http://169.254.169.254/latest/", "metadata service"),
        ("http://[::1]/", "not on the public internet"),
        ("http://[::ffff:10.0.0.1]/", "not on the public internet"),
        ("http://localhost/", "inside network"),
        ("http://printer.local/", "inside network"),
        ("http://intranet/", "inside network"),
        ("http://127.0.0.1:22/", "port 22 is not allowed"),
        ("https://site.example:8443/", "port 8443 is not allowed"),
    ],
)
async def test_what_may_never_be_fetched_is_refused_when_it_is_written(api: Api, url: str, why: str) -> None:
    before = await api.counts()
    config = {"INITIAL_URLS": ["https://fine.example/", url]}
    bodies = {
        "/pipelines": {"name": "x", "config": config},
        "/connectors": {"name": "x", "connector_type": "WEBCRAWLER_CONNECTOR", "config": config},
    }
    for path, body in bodies.items():
        refused = await api.ask("POST", path, {"workspace_id": api.workspace, **body}, expect=422)
        [fault] = refused["error"]["details"]["faults"]
        assert fault["field"] == "config.INITIAL_URLS[1]"
        assert fault["message"].startswith(f"{url}: ")
        assert why in fault["message"]
    assert await api.counts() == before
    made = await created(api, name="later")
    changed = await api.ask("PUT", f"/pipelines/{made['id']}", {"config": config})
    assert changed.status_code == 422


async def test_what_may_be_fetched_here_may_be_written_here(shop: Shop, tmp_path: Path) -> None:
    rules = WebRules(ports=[80, 8080], allow=["127.0.0.0/8"], deny=["93.184.216.0/24"])
    async with serving(shop, tmp_path / "blobs", web=rules) as api:
        body = {"workspace_id": api.workspace, "name": "x", "connector_type": "WEBCRAWLER_CONNECTOR"}
        config = {"INITIAL_URLS": "http://127.0.0.1:8080/"}
        await api.ask("POST", "/connectors", {**body, "config": config}, expect=201)
        denied = {"INITIAL_URLS": "http://93.184.216.34/"}
        refused = await api.ask("POST", "/connectors", {**body, "name": "y", "config": denied}, expect=422)
        assert "denied networks" in refused["error"]["details"]["faults"][0]["message"]


async def test_a_password_in_a_refused_url_is_not_repeated(api: Api) -> None:
    body = {
        "workspace_id": api.workspace,
        "name": "x",
        "connector_id": None,
        "config": {"INITIAL_URLS": "https://u:geheim@site.example/"},
    }
    assert "geheim" not in (await api.ask("POST", "/pipelines", body)).text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'"x"', "body"),
        (b"null", "body"),
        (b"[" * 50_000, "body"),
        (b'{"name": "\xff"}', "body"),
    ],
)
async def test_what_is_no_json_object_is_refused(api: Api, body: bytes, field: str) -> None:
    answer = await api.ask("POST", "/pipelines", content=body, headers={"Content-Type": "application/json"}, expect=422)
    assert [fault["field"] for fault in answer["error"]["details"]["faults"]] == [field]


async def test_a_body_that_is_not_called_json_is_refused(api: Api) -> None:
    await api.ask("POST", "/pipelines", content=b"{}", headers={"Content-Type": "text/plain"}, expect=415)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "x" * 201}, "name"),
        ({"name": "   "}, "name"),
        ({"name": None}, "name"),
        ({"enabled": "yes"}, "enabled"),
        ({"config": []}, "config"),
        ({"config": {"a": "x" * 70_000}}, "config"),
        ({"schedule_cron": "* * * * * *"}, "schedule_cron"),
        ({"schedule_cron": "R R * * *"}, "schedule_cron"),
        ({"schedule_timezone": "../etc"}, "schedule_timezone"),
        ({"schedule_timezone": None}, "schedule_timezone"),
        ({"destination_folder_id": 0}, "destination_folder_id"),
        ({"destination_folder_id": 2**63}, "destination_folder_id"),
        ({"destination_folder_id": True}, "destination_folder_id"),
        ({"connector_id": 1}, "connector_id"),
        ({"workspace_id": 1}, "workspace_id"),
        ({"id": 1}, "id"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    api: Api, change: dict[str, Any], field: str
) -> None:
    made = await created(api)
    assert await faults(api, "PUT", f"/pipelines/{made['id']}", {"save_to_kb": True, **change}) == {field}
    assert (await api.ask("GET", f"/pipelines/{made['id']}", expect=200))["save_to_kb"] is False


async def test_refusals_say_what_to_do(api: Api) -> None:
    made = await created(api)
    answer = await api.ask("PUT", f"/pipelines/{made['id']}", {"connector_id": 1}, expect=422)
    assert "connector_id: unknown field; this request takes name, config, save_to_kb" in answer["error"]["message"]
    reader = (await api.new_token(["connectors:read"])).text
    answer = await api.ask("POST", f"/pipelines/{made['id']}/run", token=reader, expect=403)
    assert "token create" in answer["error"]["message"]
    laws = {"workspace_id": api.workspace, "name": "Wetten", "connector_type": "BWB_LAWS_CONNECTOR"}
    answer = await api.ask("POST", "/connectors", {**laws, "config": {"PRIORITY": 200}}, expect=422)
    assert "PRIORITY is a whole number from 0 to 100" in answer["error"]["message"]


async def test_absent_stays_and_null_clears(api: Api) -> None:
    folder = await api.shop.folder()
    made = await created(
        api, schedule_cron="15 3 * * *", schedule_timezone="Europe/Amsterdam", destination_folder_id=folder
    )
    path = f"/pipelines/{made['id']}"
    renamed = await api.ask("PUT", path, {"name": "Anders"}, expect=200)
    assert (renamed["name"], renamed["schedule_cron"], renamed["destination_folder_id"]) == (
        "Anders",
        "15 3 * * *",
        folder,
    )
    cleared = await api.ask("PUT", path, {"schedule_cron": None, "destination_folder_id": None}, expect=200)
    assert (cleared["schedule_cron"], cleared["destination_folder_id"]) == (None, None)
    assert cleared["schedule_timezone"] == "Europe/Amsterdam"
    assert (await api.ask("PUT", path, {}, expect=200))["name"] == "Anders"


@pytest.mark.claim("S3-089")
@pytest.mark.claim("S3-104")
async def test_a_new_schedule_forgets_the_next_time_and_an_equal_one_does_not(api: Api) -> None:
    made = await created(api, schedule_cron="0 1 * * *")
    path = f"/pipelines/{made['id']}"

    async def next_after(change: dict[str, Any]) -> Any:
        await api.shop.rows.sql("UPDATE pipelines SET next_scheduled_at = now() WHERE id = $1", made["id"])
        return (await api.ask("PUT", path, change, expect=200))["next_scheduled_at"]

    assert await next_after({"schedule_cron": "0 1 * * *", "schedule_timezone": "UTC"}) is not None
    assert await next_after({"schedule_cron": "0 2 * * *"}) is None
    assert await next_after({"schedule_timezone": "Europe/Dublin"}) is None
    assert await next_after({"schedule_cron": None}) is None


# Cron and zone are well-formed each by itself, and the schedule never fires.
@pytest.mark.claim("S3-103")
async def test_a_schedule_without_any_match_is_refused(api: Api) -> None:
    connector = await api.shop.connector()
    body = {"workspace_id": api.workspace, "name": "x", "connector_id": connector.id, "schedule_cron": "0 0 30 2 *"}
    answer = await api.ask("POST", "/pipelines", body, expect=422)
    assert answer["error"]["code"] == "invalid_schedule"


@pytest.mark.claim("S3-092")
@pytest.mark.claim("S3-104")
async def test_the_answer_tells_what_happened_to_the_schedule_of_the_connector(api: Api) -> None:
    connector = await api.shop.connector(
        is_indexable=True, periodic_indexing_enabled=True, indexing_frequency_minutes=60
    )
    made = await created(api, connector_id=connector.id)
    assert made["connector_periodic"] == {"suppressed": True, "restored": False}
    held = await api.ask("GET", f"/connectors/{connector.id}", expect=200)
    assert (held["periodic_indexing_enabled"], held["periodic_suppressed"]) == (False, True)
    path = f"/connectors/{connector.id}"
    refused = await api.ask("PUT", path, {"periodic_indexing_enabled": True}, expect=409)
    assert refused["error"]["details"]["pipeline_ids"] == [made["id"]]
    off = await api.ask("PUT", f"/pipelines/{made['id']}", {"enabled": False}, expect=200)
    assert off["connector_periodic"] == {"suppressed": False, "restored": True}
    on = await api.ask("PUT", f"/pipelines/{made['id']}", {"enabled": True}, expect=200)
    assert on["connector_periodic"] == {"suppressed": True, "restored": False}
    await api.ask("DELETE", f"/pipelines/{made['id']}", expect=204)
    assert (await api.ask("GET", path, expect=200))["periodic_indexing_enabled"] is True


@pytest.mark.claim("S3-129")
@pytest.mark.parametrize("kind", sorted(CONNECTORS.kinds))
async def test_a_pipeline_can_be_created_over_eligible_types_alone(api: Api, kind: str) -> None:
    connector = await api.shop.connector(kind=kind)
    body = {"workspace_id": api.workspace, "name": "x", "connector_id": connector.id}
    await api.ask("POST", "/pipelines", body, expect=201 if CONNECTORS.is_pipeline_eligible(kind) else 422)


async def test_a_pipeline_without_connector_may_be_and_has_no_schedule(api: Api) -> None:
    assert (await created(api, connector_id=None))["connector_id"] is None
    body = {"workspace_id": api.workspace, "name": "x", "schedule_cron": "@daily"}
    assert await faults(api, "POST", "/pipelines", body) == {"schedule_cron"}


async def test_a_pipeline_over_laws_saves_no_documents(api: Api) -> None:
    connector = await api.shop.connector(kind=BWB_LAWS)
    body = {"workspace_id": api.workspace, "name": "x", "connector_id": connector.id, "save_to_kb": True}
    await api.ask("POST", "/pipelines", body, expect=422)
    made = await created(api, connector_id=connector.id)
    await api.ask("PUT", f"/pipelines/{made['id']}", {"save_to_kb": True}, expect=422)


async def test_connector_and_folder_must_be_of_the_workspace(api: Api) -> None:
    other, _ = await api.stranger()
    foreign, folder = await other.connector(), await other.folder()
    own = await api.shop.connector()
    body = {"workspace_id": api.workspace, "name": "x"}
    answers = [
        await api.ask("POST", "/pipelines", {**body, "connector_id": number}, expect=404)
        for number in (foreign.id, 10**6)
    ]
    assert [answer["error"]["code"] for answer in answers] == ["connector_not_found"] * 2
    await api.ask("POST", "/pipelines", {**body, "connector_id": own.id, "destination_folder_id": folder}, expect=422)
    made = await created(api)
    await api.ask("PUT", f"/pipelines/{made['id']}", {"destination_folder_id": folder}, expect=422)


async def test_a_deleted_pipeline_is_gone_with_its_runs(api: Api) -> None:
    made = await created(api)
    await api.ask("POST", f"/pipelines/{made['id']}/run", expect=202)
    await api.ask("DELETE", f"/pipelines/{made['id']}", expect=204)
    await api.ask("GET", f"/pipelines/{made['id']}", expect=404)
    await api.ask("DELETE", f"/pipelines/{made['id']}", expect=404)
    assert (await api.counts())["pipeline_runs"] == 0


# --- who may what -----------------------------------------------------------------------------------------------------


def asked_for(pipeline: int, run: int, connector: int, folder: int, workspace: int) -> dict[tuple[str, str], Any]:
    """Every operation on a thing, with a body that is right."""
    return {
        ("GET", f"/pipelines?workspace_id={workspace}"): None,
        ("GET", f"/pipelines/{pipeline}"): None,
        ("PUT", f"/pipelines/{pipeline}"): {"name": "Gekaapt"},
        ("POST", f"/pipelines/{pipeline}/run"): None,
        ("GET", f"/pipelines/{pipeline}/runs"): None,
        ("GET", f"/pipelines/{pipeline}/runs/{run}"): None,
        ("GET", f"/pipelines/{pipeline}/runs/{run}/items"): None,
        ("GET", f"/pipelines/{pipeline}/runs/{run}/result"): None,
        ("POST", f"/pipelines/{pipeline}/runs/{run}/cancel"): None,
        ("DELETE", f"/pipelines/{pipeline}"): None,
        ("GET", f"/connectors?workspace_id={workspace}"): None,
        ("GET", f"/connectors/{connector}"): None,
        ("PUT", f"/connectors/{connector}"): {"name": "Gekaapt"},
        ("POST", f"/connectors/{connector}/index"): None,
        ("DELETE", f"/connectors/{connector}"): None,
        ("GET", f"/folders?workspace_id={workspace}"): None,
        ("GET", f"/folders/{folder}"): None,
        ("PUT", f"/folders/{folder}"): {"name": "Gekaapt"},
        ("DELETE", f"/folders/{folder}"): None,
        ("GET", f"/workspaces/{workspace}"): None,
        ("POST", "/pipelines"): {"workspace_id": workspace, "name": "Gekaapt"},
        ("POST", "/connectors"): {"workspace_id": workspace, "name": "Gekaapt", "connector_type": WEB_CRAWLER},
        ("POST", "/folders"): {"workspace_id": workspace, "name": "Gekaapt"},
    }


async def things(api: Api) -> dict[tuple[str, str], Any]:
    connector = await api.shop.connector(is_indexable=True)
    pipeline = await api.shop.pipeline(connector)
    run = await api.shop.run_of(pipeline)
    return asked_for(pipeline.id, run.id, connector.id, await api.shop.folder(), api.workspace)


async def test_ids_of_another_workspace_are_as_good_as_none(api: Api) -> None:
    everything = await things(api)
    _, foreign = await api.stranger()
    before = await api.counts()
    for (method, path), body in everything.items():
        answer = await api.ask(method, path, body, token=foreign)
        assert answer.status_code == 404, (method, path, answer.text)
    assert await api.counts() == before
    assert not await api.shop.rows.sql("SELECT FROM pipelines WHERE name = 'Gekaapt'")


async def test_a_run_is_only_there_under_its_own_pipeline(api: Api) -> None:
    first, second = await api.shop.pipeline(), await api.shop.pipeline()
    run = await api.shop.run_of(first)
    for what in ("", "/items", "/result"):
        await api.ask("GET", f"/pipelines/{second.id}/runs/{run.id}{what}", expect=404)
    await api.ask("POST", f"/pipelines/{second.id}/runs/{run.id}/cancel", expect=404)
    await api.ask("GET", f"/pipelines/{first.id}/runs/{run.id}", expect=200)


NEEDS = {
    "POST": "connectors:create",
    "PUT": "connectors:update",
    "DELETE": "connectors:delete",
    "GET": "connectors:read",
}


async def test_each_operation_needs_its_permission_and_nothing_else_will_do(api: Api) -> None:
    everything = await things(api)
    for (method, path), body in everything.items():
        permission = "connectors:update" if path.endswith(("/run", "/cancel", "/index")) else NEEDS[method]
        without = (await api.new_token([one for one in PERMISSIONS if one != permission])).text
        answer = await api.ask(method, path, body, token=without)
        assert (answer.status_code, answer.json()["error"]["details"]) == (403, {"permission": permission}), (
            method,
            path,
        )


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "x", "9223372036854775808", "01", "%00", "1%2F2"])
async def test_what_can_be_no_id_is_not_there(api: Api, number: str) -> None:
    answer = await api.ask("GET", f"/pipelines/{number}", expect=404)
    assert answer["error"]["code"] == "not_found"


async def test_unknown_paths_and_methods_are_answered_in_our_form(api: Api) -> None:
    assert (await api.ask("GET", "/nowhere", expect=404))["error"]["code"] == "not_found"
    assert (await api.ask("GET", "/pipelines/", expect=404))["error"]["code"] == "not_found"
    wrong = await api.ask("PATCH", "/pipelines/1")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "PUT", "DELETE"}


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=-1", "limit=x", "offset=-1", "offset=1.5", "limits=5"]
)
async def test_bounds_of_a_page_are_kept(api: Api, query: str) -> None:
    pipeline = await api.shop.pipeline()
    answer = await api.ask("GET", f"/pipelines/{pipeline.id}/runs?{query}", expect=422)
    assert [fault["field"] for fault in answer["error"]["details"]["faults"]] == [f"query.{query.split('=')[0]}"]
