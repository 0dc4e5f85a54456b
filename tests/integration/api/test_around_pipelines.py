"""Folders, connectors and workspaces over HTTP (``pipelines.md`` 9, 12.24)."""

from __future__ import annotations

from protocols.connectors import WEB_CRAWLER
from tests.kit.api import Api, created, faults


async def test_folders_are_made_moved_and_deleted(api: Api) -> None:
    top = await api.ask("POST", "/folders", {"workspace_id": api.workspace, "name": "Boven"}, expect=201)
    body = {"workspace_id": api.workspace, "name": "Onder", "parent_id": top["id"]}
    low = await api.ask("POST", "/folders", body, expect=201)
    assert low["parent_id"] == top["id"]
    await api.ask("PUT", f"/folders/{top['id']}", {"parent_id": low["id"]}, expect=422)  # a ring
    await api.ask("PUT", f"/folders/{top['id']}", {"parent_id": top["id"]}, expect=422)
    moved = await api.ask("PUT", f"/folders/{low['id']}", {"parent_id": None, "position": "b1"}, expect=200)
    assert (moved["parent_id"], moved["position"], moved["name"]) == (None, "b1", "Onder")
    listed = await api.ask("GET", f"/folders?workspace_id={api.workspace}", expect=200)
    assert ([one["id"] for one in listed["items"]], listed["total"]) == ([top["id"], low["id"]], 2)
    await api.ask("DELETE", f"/folders/{low['id']}", expect=204)
    await api.ask("GET", f"/folders/{low['id']}", expect=404)


async def test_a_deleted_folder_leaves_its_pipelines_at_the_root(api: Api) -> None:
    folder = await api.shop.folder()
    made = await created(api, destination_folder_id=folder)
    await api.ask("DELETE", f"/folders/{folder}", expect=204)
    assert (await api.ask("GET", f"/pipelines/{made['id']}", expect=200))["destination_folder_id"] is None


async def test_a_connector_is_made_changed_indexed_and_deleted_with_its_pipelines(api: Api) -> None:
    body = {
        "workspace_id": api.workspace,
        "name": "Site",
        "connector_type": WEB_CRAWLER,
        "config": {"INITIAL_URLS": ["https://site.example/"]},
    }
    made = await api.ask("POST", "/connectors", body, expect=201)
    path = f"/connectors/{made['id']}"
    await api.ask("POST", "/connectors", body, expect=422)  # the name is taken
    await api.ask("POST", f"{path}/index", expect=422)  # not indexable
    changed = await api.ask("PUT", path, {"is_indexable": True, "indexing_frequency_minutes": 30}, expect=200)
    assert (changed["is_indexable"], changed["name"]) == (True, "Site")
    assert (await api.ask("PUT", path, {"indexing_frequency_minutes": None}, expect=200))[
        "indexing_frequency_minutes"
    ] is None
    job = await api.ask("POST", f"{path}/index", expect=202)
    assert job["status"] == "pending"
    await api.ask("POST", f"{path}/index", expect=409)
    pipeline = await created(api, connector_id=made["id"])
    await api.ask("DELETE", path, expect=204)
    await api.ask("GET", f"/pipelines/{pipeline['id']}", expect=404)


async def test_a_name_that_is_taken_is_a_conflict(api: Api) -> None:
    first, second = await api.shop.connector(), await api.shop.connector()
    answer = await api.ask("PUT", f"/connectors/{second.id}", {"name": first.name}, expect=409)
    assert answer["error"]["code"] == "conflict"


async def test_an_unknown_connector_type_is_refused(api: Api) -> None:
    body = {"workspace_id": api.workspace, "name": "x", "connector_type": "UNHEARD_OF"}
    await api.ask("POST", "/connectors", body, expect=422)
    assert await faults(api, "POST", "/connectors", {**body, "connector_type": "lower"}) == {"connector_type"}


async def test_a_workspace_shows_the_credit_of_its_owner(api: Api) -> None:
    await api.shop.credit(5_000)
    seen = await api.ask("GET", f"/workspaces/{api.workspace}", expect=200)
    assert seen == {
        "id": api.workspace,
        "name": "Werkplaats",
        "wallet": {"balance_micros": 5_000, "reserved_micros": 0, "spendable_micros": 5_000},
    }
