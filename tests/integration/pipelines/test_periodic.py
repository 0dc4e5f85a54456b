"""The guard between pipelines and the connector's own schedule works both ways, whoever changes what when."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from protocols.failures import InvalidInput
from schema.pipelines import manage, periodic
from schema.pipelines.manage import NewPipeline, ScheduleOwned
from schema.pipelines.periodic import PeriodicChange
from schema.pipelines.rows import Connector, Pipeline
from tests.kit.pipelines import Shop


async def periodic_connector(shop: Shop, *, enabled: bool = True) -> Connector:
    return await shop.connector(is_indexable=True, periodic_indexing_enabled=enabled, indexing_frequency_minutes=60)


async def look(shop: Shop, connector: Connector) -> Connector:
    row = await shop.database.run(periodic.lock, connector.id)
    assert row is not None
    return row


async def state(shop: Shop, connector: Connector) -> tuple[bool, bool]:
    """Its own schedule is on; a pipeline owns it."""
    row = await look(shop, connector)
    assert (row.next_scheduled_at is not None) == row.periodic_indexing_enabled
    return row.periodic_indexing_enabled, row.periodic_suppressed


async def change(shop: Shop, pipeline: Pipeline, **changes: Any) -> PeriodicChange:
    _, done = await shop.database.transact(manage.update_pipeline, pipeline.id, changes)
    return done


async def made(shop: Shop, connector: Connector, **more: Any) -> tuple[Pipeline, PeriodicChange]:
    new = NewPipeline(shop.workspace, "P", connector.id, **more)
    return await shop.database.transact(manage.create_pipeline, new)


@pytest.mark.claim("S3-006", "S3-091", "S3-092", "S3-104", "S3-122", "S3-130")
async def test_creating_and_enabling_suppress_disabling_and_deleting_restore(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    pipeline, done = await made(shop, connector)
    assert done == PeriodicChange(suppressed=True)
    assert await state(shop, connector) == (False, True)
    assert await change(shop, pipeline, enabled=False) == PeriodicChange(restored=True)
    assert await state(shop, connector) == (True, False)
    assert await change(shop, pipeline, enabled=True) == PeriodicChange(suppressed=True)
    assert await shop.database.transact(manage.delete_pipeline, pipeline.id) == PeriodicChange(restored=True)
    assert await state(shop, connector) == (True, False)
    row = await look(shop, connector)
    assert await shop.rows.value("SELECT $1::timestamptz > now() + interval '59 minutes'", row.next_scheduled_at)


async def test_a_pipeline_that_is_created_switched_off_leaves_the_connector_alone(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    _, done = await made(shop, connector, enabled=False)
    assert done == PeriodicChange()
    assert await state(shop, connector) == (True, False)


async def test_a_manual_pipeline_owns_the_schedule_too(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    await made(shop, connector, schedule_cron=None)
    assert await state(shop, connector) == (False, True)


async def test_of_two_pipelines_the_last_one_restores_what_the_first_one_saved(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    (one, _), (two, second) = await made(shop, connector), await made(shop, connector)
    assert second == PeriodicChange()
    assert await change(shop, one, enabled=False) == PeriodicChange()
    assert await state(shop, connector) == (False, True)
    assert await change(shop, two, enabled=False) == PeriodicChange(restored=True)
    assert await state(shop, connector) == (True, False)


async def test_what_was_off_comes_back_off(shop: Shop) -> None:
    connector = await periodic_connector(shop, enabled=False)
    pipeline, _ = await made(shop, connector)
    await change(shop, pipeline, enabled=False)
    assert await state(shop, connector) == (False, False)


@pytest.mark.parametrize(
    "loss", ["is_indexable = false", "indexing_frequency_minutes = NULL, periodic_saved = '{\"enabled\": true}'"]
)
async def test_a_connector_that_cannot_be_indexed_any_more_comes_back_off(shop: Shop, loss: str) -> None:
    connector = await periodic_connector(shop)
    pipeline, _ = await made(shop, connector)
    await shop.rows.sql(f"UPDATE connectors SET {loss}")
    await change(shop, pipeline, enabled=False)
    assert await state(shop, connector) == (False, False)


async def test_switching_it_on_while_a_pipeline_owns_it_is_refused_with_the_pipelines(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    pipeline, _ = await made(shop, connector)
    with pytest.raises(ScheduleOwned) as refused:
        await shop.database.transact(manage.update_connector, connector.id, {"periodic_indexing_enabled": True})
    assert refused.value.details == {"pipeline_ids": [pipeline.id]}
    assert await state(shop, connector) == (False, True)


async def test_switching_it_off_while_a_pipeline_owns_it_is_remembered(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    pipeline, _ = await made(shop, connector)
    await shop.database.transact(manage.update_connector, connector.id, {"periodic_indexing_enabled": False})
    await change(shop, pipeline, enabled=False)
    assert await state(shop, connector) == (False, False)


async def test_two_pipelines_disabled_in_the_same_moment_restore_exactly_once(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    pipelines = [(await made(shop, connector))[0] for _ in range(4)]
    changes: list[PeriodicChange] = []

    async def disable(pipeline: Pipeline) -> None:
        changes.append(await change(shop, pipeline, enabled=False))

    async with trio.open_nursery() as nursery:
        for pipeline in pipelines:
            nursery.start_soon(disable, pipeline)
    assert sorted(done.restored for done in changes) == [False, False, False, True]
    assert await state(shop, connector) == (True, False)


async def test_enabling_and_disabling_at_once_never_leave_a_connector_to_two_schedulers_or_to_none(shop: Shop) -> None:
    connector = await periodic_connector(shop)
    pipelines = [(await made(shop, connector))[0] for _ in range(3)]

    async def flip(pipeline: Pipeline) -> None:
        for enabled in (False, True, False):
            await change(shop, pipeline, enabled=enabled)

    async with trio.open_nursery() as nursery:
        for pipeline in pipelines:
            nursery.start_soon(flip, pipeline)
    assert await state(shop, connector) == (True, False)
    assert await shop.database.transact(periodic.repair) == []


async def test_a_repair_makes_both_agree_and_is_safe_to_repeat(shop: Shop) -> None:
    owned, free = await periodic_connector(shop), await periodic_connector(shop)
    await made(shop, owned)
    gone, _ = await made(shop, free)
    await shop.rows.sql("DELETE FROM pipelines WHERE id = $1", gone.id)
    await shop.rows.sql(
        "UPDATE connectors SET periodic_suppressed = false, periodic_saved = NULL WHERE id = $1", owned.id
    )
    repaired = await shop.database.transact(periodic.repair)
    assert dict(repaired) == {owned.id: PeriodicChange(suppressed=True), free.id: PeriodicChange(restored=True)}
    assert await state(shop, free) == (True, False)
    assert await shop.database.transact(periodic.repair) == []


# --- what may be created ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("NOTION_CONNECTOR", {}),
        ("OBSIDIAN_CONNECTOR", {}),
        ("MCP_CONNECTOR", {}),
        ("BWB_LAWS_CONNECTOR", {"save_to_kb": True}),
        ("WEBCRAWLER_CONNECTOR", {"schedule_cron": "0 0 30 2 *"}),
        ("WEBCRAWLER_CONNECTOR", {"schedule_timezone": "Mars/Olympus"}),
        ("WEBCRAWLER_CONNECTOR", {"destination_folder_id": 4711}),
    ],
)
async def test_a_pipeline_that_could_never_run_is_not_created(shop: Shop, kind: str, more: dict[str, Any]) -> None:
    connector = await shop.connector(kind=kind)
    with pytest.raises(InvalidInput):
        await made(shop, connector, **more)
    assert await shop.rows.value("SELECT count(*) FROM pipelines") == 0
    assert await state(shop, connector) == (False, False)


async def test_a_connector_or_folder_of_another_workspace_is_none(shop: Shop) -> None:
    other = await shop.another()
    foreign, folder = await other.connector(), await other.folder()
    with pytest.raises(InvalidInput, match="no connector"):
        await made(shop, foreign)
    with pytest.raises(InvalidInput, match="no folder"):
        await made(shop, await shop.connector(), destination_folder_id=folder)


async def test_uploads_need_no_connector_and_can_have_no_schedule(shop: Shop) -> None:
    assert (await shop.pipeline(uploads=True)).connector_id is None
    with pytest.raises(InvalidInput, match="uploads"):
        await shop.pipeline(uploads=True, schedule_cron="@daily")


@pytest.mark.parametrize(
    "columns",
    [
        {"periodic_indexing_enabled": True},
        {"periodic_indexing_enabled": True, "is_indexable": True},
        {"is_indexable": True, "periodic_indexing_enabled": True, "indexing_frequency_minutes": 4},
        {"connector_type": "NOBODY_KNOWS"},
    ],
)
async def test_a_connector_whose_schedule_lacks_something_is_refused(shop: Shop, columns: dict[str, Any]) -> None:
    kind = columns.pop("connector_type", "WEBCRAWLER_CONNECTOR")
    with pytest.raises(InvalidInput):
        await shop.connector(kind=kind, **columns)


async def test_what_is_deleted_takes_with_it_what_it_must_and_nothing_else(shop: Shop) -> None:
    folder = await shop.folder()
    connector = await shop.connector(shop.urls(1))
    pipeline = await shop.pipeline(connector, destination_folder_id=folder)
    await shop.perform(pipeline)
    await shop.rows.sql("DELETE FROM folders WHERE id = $1", folder)
    assert (await shop.database.run(manage.get_pipeline, pipeline.id)).destination_folder_id is None
    await shop.rows.sql("DELETE FROM accounts WHERE id = $1", shop.actor)
    assert (await shop.database.run(manage.get_pipeline, pipeline.id)).created_by_id is None
    await shop.database.transact(manage.delete_connector, connector.id)
    assert await shop.rows.value("SELECT count(*) FROM pipelines") == 0
    assert await shop.rows.value("SELECT count(*) FROM pipeline_runs") == 0
    assert await shop.rows.value("SELECT key FROM blob_tombstones") == next(iter(shop.blobs.blobs))
