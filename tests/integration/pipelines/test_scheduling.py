"""Ticks of the scheduler on a real database: what fires, what is healed, put off, switched off, and that nothing is lost."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import trio
from attrs import define

from actors.ports.database import Database
from actors.scheduler import ScheduleTick
from protocols.connectors import CONNECTORS, WEB_CRAWLER, Availability
from protocols.failures import InvalidInput
from protocols.runs import RunStatus, Trigger
from schema.pipelines import leases, manage, periodic, scheduling
from schema.pipelines.leases import Resource
from schema.pipelines.rows import Pipeline
from schema.pipelines.scheduling import ScheduleRules
from schema.rows import JobStatus, JobType
from tests.kit.pipelines import Shop

TEN = dt.datetime(2026, 6, 1, 10, 0, tzinfo=dt.UTC)
HOURLY = "0 * * * *"


def at(text: str) -> dt.datetime:
    """A time of 1 June 2026, UTC."""
    return dt.datetime.fromisoformat(f"2026-06-01T{text}+00:00")


@define
class Ticks:
    shop: Shop
    tick: ScheduleTick

    async def due(self, when: dt.datetime | None = TEN, **more: Any) -> Pipeline:
        """An enabled pipeline whose next time is ``when``."""
        more.setdefault("schedule_cron", HOURLY)
        pipeline = await self.shop.pipeline(**more)
        await self.shop.rows.sql("UPDATE pipelines SET next_scheduled_at = $2 WHERE id = $1", pipeline.id, when)
        return await self.look(pipeline)

    async def look(self, pipeline: Pipeline) -> Pipeline:
        return await self.shop.database.run(manage.get_pipeline, pipeline.id)

    async def spoil(self, pipeline: Pipeline, **columns: str) -> None:
        """Write what no API would accept."""
        for column, value in columns.items():
            await self.shop.rows.sql(f"UPDATE pipelines SET {column} = $2 WHERE id = $1", pipeline.id, value)


@pytest.fixture
def ticks(shop: Shop) -> Ticks:
    return Ticks(shop, ScheduleTick(shop.database))


# --- firing -------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-005", "S3-020", "S3-026", "S3-081", "S3-085", "S3-121")
async def test_a_due_pipeline_gets_one_scheduled_run_with_its_job_and_its_next_time(ticks: Ticks) -> None:
    pipeline = await ticks.due(schedule_timezone="Europe/Amsterdam", schedule_cron="0 12 * * *")
    assert await ticks.tick(at("10:00:20")) == {"fired": 1}
    [run] = await ticks.shop.history(pipeline)
    assert (run.status, run.trigger, run.scheduled_for) == (RunStatus.PENDING, Trigger.SCHEDULED, TEN)
    assert run.job_id is not None
    job = await ticks.shop.rows.job(run.job_id)
    assert (job.job_type, job.priority, job.max_attempts) == (JobType.PIPELINE_RUN, 40, 2)
    assert job.payload == {
        "run_id": run.id, "pipeline_id": pipeline.id, "workspace_id": ticks.shop.workspace, "trigger": "scheduled",
    }  # fmt: skip
    after = await ticks.look(pipeline)
    assert after.next_scheduled_at == dt.datetime(2026, 6, 2, 10, 0, tzinfo=dt.UTC)
    assert after.last_fired_at is not None
    assert await ticks.tick(at("10:01")) == {}
    assert (await ticks.shop.drive(run)).status is RunStatus.SUCCEEDED


async def test_a_manual_run_goes_before_a_scheduled_one(ticks: Ticks) -> None:
    pipeline = await ticks.due()
    await ticks.tick(TEN)
    manual = await ticks.shop.run_of(pipeline)
    assert (await ticks.shop.claimed()).job.id == manual.job_id


@pytest.mark.claim("S3-080")
async def test_a_new_pipeline_is_healed_first_and_never_fires_in_the_same_tick(ticks: Ticks) -> None:
    pipeline = await ticks.due(None, schedule_cron="* * * * *")
    assert await ticks.tick(at("10:00:59.999")) == {"healed": 1}
    assert (await ticks.look(pipeline)).next_scheduled_at == at("10:01:00")
    assert await ticks.tick(at("10:01:00")) == {"fired": 1}


@pytest.mark.claim("S3-082", "S3-090")
async def test_what_has_no_cron_no_connector_or_is_off_never_fires(ticks: Ticks) -> None:
    manual = await ticks.due(None, schedule_cron=None)
    off = await ticks.due(enabled=False)
    uploads = await ticks.due(None, uploads=True, schedule_cron=None)
    await ticks.spoil(uploads, schedule_cron=HOURLY)
    later = await ticks.due(at("10:30"))
    assert await ticks.tick(at("10:01")) == {}
    await ticks.shop.rows.sql(
        "UPDATE pipelines SET next_scheduled_at = $2 WHERE id = ANY ($1::bigint[])", [manual.id, uploads.id], TEN
    )
    assert await ticks.tick(at("10:01")) == {}
    for pipeline in (manual, off, uploads, later):
        assert await ticks.shop.history(pipeline) == []


@pytest.mark.claim("S3-086", "S3-087")
@pytest.mark.parametrize("status", ["pending", "running"])
async def test_a_run_that_is_not_over_suppresses_the_next_which_still_moves_on(ticks: Ticks, status: str) -> None:
    pipeline = await ticks.due()
    await ticks.shop.run_of(pipeline)
    await ticks.shop.rows.sql("UPDATE pipeline_runs SET status = $1::text::pipeline_run_status", status)
    assert await ticks.tick(at("10:00:10")) == {"suppressed": 1}
    assert (await ticks.look(pipeline)).next_scheduled_at == at("11:00")
    assert len(await ticks.shop.history(pipeline)) == 1
    await ticks.shop.rows.sql("UPDATE pipeline_runs SET status = 'failed', error = '{}', finished_at = now()")
    assert await ticks.tick(at("11:00:01")) == {"fired": 1}


async def test_the_run_of_a_fire_is_never_made_twice(ticks: Ticks) -> None:
    pipeline = await ticks.due()
    await ticks.tick(TEN)
    await ticks.shop.rows.sql("UPDATE pipeline_runs SET status = 'failed', error = '{}', finished_at = now()")
    await ticks.shop.rows.sql("UPDATE pipelines SET next_scheduled_at = $2 WHERE id = $1", pipeline.id, TEN)
    assert await ticks.tick(at("10:05")) == {"suppressed": 1}
    assert len(await ticks.shop.history(pipeline)) == 1


async def test_a_missed_stretch_is_one_late_fire_and_no_more(ticks: Ticks) -> None:
    # CR-04
    pipeline = await ticks.due(TEN)
    assert await ticks.tick(at("12:31")) == {"fired": 1}
    [run] = await ticks.shop.history(pipeline)
    assert run.scheduled_for == TEN
    assert (await ticks.look(pipeline)).next_scheduled_at == at("13:00")
    assert await ticks.tick(at("12:32")) == {}


async def test_with_a_grace_a_fire_that_is_later_is_dropped(ticks: Ticks) -> None:
    ticks.tick.rules = ScheduleRules(misfire_grace_s=600)
    late, fresh = await ticks.due(at("10:00")), await ticks.due(at("10:25"), schedule_cron="*/5 * * * *")
    assert await ticks.tick(at("10:31")) == {"fired": 1, "missed": 1}
    assert await ticks.shop.history(late) == []
    assert len(await ticks.shop.history(fresh)) == 1
    assert (await ticks.look(late)).next_scheduled_at == at("11:00")


@pytest.mark.slow
@pytest.mark.claim("S3-033")
async def test_450_due_pipelines_fire_in_three_ticks_the_longest_due_first(ticks: Ticks) -> None:
    connector = await ticks.shop.connector()
    await ticks.shop.rows.sql(
        """
        INSERT INTO pipelines (workspace_id, connector_id, name, schedule_cron, next_scheduled_at)
        SELECT $1, $2, 'p' || n, '0 * * * *', $3::timestamptz - n * interval '1 second' FROM generate_series(1, 450) AS n
        """,
        ticks.shop.workspace,
        connector.id,
        TEN,
    )
    for count in (200, 200, 50, 0):
        assert (await ticks.tick(at("10:01")))["fired"] == count
        left = await ticks.shop.rows.value(
            "SELECT min(next_scheduled_at) FROM pipelines WHERE next_scheduled_at <= $1", TEN
        )
        fired = await ticks.shop.rows.value("SELECT max(scheduled_for) FROM pipeline_runs")
        assert left is None or fired <= left
    assert await ticks.shop.rows.value("SELECT count(*) FROM pipeline_runs") == 450


async def test_two_schedulers_at_once_fire_everything_once(ticks: Ticks) -> None:
    for _ in range(20):
        await ticks.due()
    other = ScheduleTick(ticks.shop.database)
    found: list[dict[str, int]] = []

    async def tick(one: ScheduleTick) -> None:
        found.append(await one(at("10:01")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick, ticks.tick)
        nursery.start_soon(tick, other)
    assert sum(tally.get("fired", 0) for tally in found) == 20
    assert await ticks.shop.rows.value("SELECT count(*), count(DISTINCT pipeline_id) FROM pipeline_runs") == 20
    assert await ticks.shop.rows.value("SELECT count(*) FROM jobs") == 20


# --- bad rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-084")
@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("not cron", "UTC"),
        ("0 0 30 2 *", "UTC"),
        ("* * * * * *", "UTC"),
        ("R * * * *", "UTC"),
        (HOURLY, "Europe"),
        (HOURLY, "Europe/Amsterdm"),
        (HOURLY, ""),
        (HOURLY, "../../etc/passwd"),
    ],
)
@pytest.mark.parametrize("when", [at("09:00"), None])
async def test_a_bad_row_is_switched_off_with_a_reason_and_the_others_fire(
    ticks: Ticks, cron: str, zone: str, when: dt.datetime | None
) -> None:
    # CR-02
    before, bad, after = await ticks.due(at("08:00")), await ticks.due(when), await ticks.due(at("09:30"))
    await ticks.spoil(bad, schedule_cron=cron, schedule_timezone=zone)
    assert await ticks.tick(TEN) == {"fired": 2, "disabled": 1}
    off = await ticks.look(bad)
    assert (off.enabled, off.next_scheduled_at) == (False, None)
    assert off.schedule_error
    assert await ticks.shop.history(bad) == []
    for good in (before, after):
        assert (await ticks.look(good)).next_scheduled_at == at("11:00")
    assert await ticks.tick(at("10:01")) == {}


async def test_a_pipeline_that_is_switched_off_gives_its_connector_its_own_schedule_back(ticks: Ticks) -> None:
    connector = await ticks.shop.connector(
        is_indexable=True, periodic_indexing_enabled=True, indexing_frequency_minutes=60
    )
    bad = await ticks.due(connector=connector)
    await ticks.spoil(bad, schedule_cron="bad")
    await ticks.tick(TEN)
    row = await ticks.shop.database.run(periodic.lock, connector.id)
    assert row is not None
    assert (row.periodic_indexing_enabled, row.periodic_suppressed) == (True, False)


async def test_a_row_whose_fire_raises_is_put_off_and_the_others_fire(ticks: Ticks) -> None:
    poison, good = await ticks.due(at("08:00")), await ticks.due(at("09:00"))
    await ticks.shop.rows.sql(
        f"ALTER TABLE pipeline_runs ADD CONSTRAINT poison CHECK (pipeline_id <> {poison.id}) NOT VALID"
    )
    assert await ticks.tick(TEN) == {"put_off": 1, "fired": 1}
    assert (await ticks.look(poison)).next_scheduled_at == at("11:00")
    assert await ticks.shop.history(poison) == []
    assert len(await ticks.shop.history(good)) == 1


# --- crashes ------------------------------------------------------------------------------------------------------------


async def test_a_crash_before_the_commit_leaves_the_pipeline_due_and_it_fires_next_time(ticks: Ticks) -> None:
    # CR-06
    pipeline = await ticks.due()

    async def dies(connection: Any) -> None:
        assert await scheduling.fire(connection, pipeline.id, TEN, ScheduleRules()) is scheduling.Fired.FIRED
        raise ConnectionResetError("the process is gone")

    with pytest.raises(Exception, match="gone"):
        await ticks.shop.database.transact(dies)
    assert (await ticks.look(pipeline)).next_scheduled_at == TEN
    assert await ticks.shop.history(pipeline) == []
    assert await ticks.shop.rows.value("SELECT count(*) FROM jobs") == 0
    assert await ticks.tick(at("10:01")) == {"fired": 1}


# --- changes ------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-089", "S3-102")
@pytest.mark.parametrize(
    ("change", "forgets"),
    [
        ({"schedule_cron": "5 * * * *"}, True),
        ({"schedule_timezone": "Europe/Amsterdam"}, True),
        ({"schedule_cron": None}, True),
        ({"enabled": False}, True),
        ({"schedule_cron": HOURLY}, False),
        ({"schedule_timezone": "UTC"}, False),
        ({"enabled": True}, False),
        ({"name": "Anders", "save_to_kb": True}, False),
    ],
)
async def test_a_change_of_the_schedule_forgets_the_next_time_and_an_equal_value_does_not(
    ticks: Ticks, change: dict[str, Any], forgets: bool
) -> None:
    pipeline = await ticks.due()
    await ticks.shop.rows.sql("UPDATE pipelines SET schedule_error = 'old'")
    changed, _ = await ticks.shop.database.transact(manage.update_pipeline, pipeline.id, change)
    assert changed.next_scheduled_at == (None if forgets else TEN)
    assert changed.schedule_error == (None if forgets else "old")


async def test_a_pipeline_that_is_switched_on_again_does_not_fire_for_the_time_it_was_off(ticks: Ticks) -> None:
    pipeline = await ticks.due(at("08:00"))
    for enabled in (False, True):
        await ticks.shop.database.transact(manage.update_pipeline, pipeline.id, {"enabled": enabled})
    assert await ticks.tick(at("10:01")) == {"healed": 1}
    assert (await ticks.look(pipeline)).next_scheduled_at == at("11:00")


@pytest.mark.parametrize(
    "change",
    [
        {"schedule_cron": "0 0 30 2 *"},
        {"schedule_timezone": "Europe"},
        {"connector_id": 3},
        {"workspace_id": 3},
        {"name": "  "},
        {"name": "x" * 201},
        {"config": []},
        {"config": {"a": "x" * 70_000}},
        {"destination_folder_id": 4711},
    ],
)
async def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(
    ticks: Ticks, change: dict[str, Any]
) -> None:
    pipeline = await ticks.due()
    with pytest.raises(InvalidInput):
        await ticks.shop.database.transact(manage.update_pipeline, pipeline.id, change)
    assert await ticks.look(pipeline) == pipeline


# --- connectors ---------------------------------------------------------------------------------------------------------


async def periodic_connector(shop: Shop, **more: Any) -> Any:
    connector = await shop.connector(
        is_indexable=True, periodic_indexing_enabled=True, indexing_frequency_minutes=60, **more
    )
    await shop.rows.sql("UPDATE connectors SET next_scheduled_at = $2 WHERE id = $1", connector.id, TEN)
    return connector


async def next_of(shop: Shop, connector_id: int) -> Any:
    return await shop.rows.value("SELECT next_scheduled_at FROM connectors WHERE id = $1", connector_id)


@pytest.mark.claim("S3-010", "S3-036")
async def test_a_due_connector_is_queued_once_and_moves_on_by_its_frequency(shop: Shop, ticks: Ticks) -> None:
    connector = await periodic_connector(shop)
    assert await ticks.tick(at("10:05")) == {"connector_queued": 1}
    assert await next_of(shop, connector.id) == at("11:05")
    [job] = await shop.rows.jobs_of(f"connector:{connector.id}", JobType.CONNECTOR_INDEX)
    assert (job.status, job.max_attempts, job.priority) == (JobStatus.PENDING, 1, 40)
    await shop.rows.sql("UPDATE connectors SET next_scheduled_at = $1", TEN)
    assert await ticks.tick(at("10:06")) == {"connector_busy": 1}
    assert await next_of(shop, connector.id) == TEN


@pytest.mark.claim("S3-093", "S3-122")
async def test_a_connector_that_is_being_crawled_stays_due(shop: Shop, ticks: Ticks) -> None:
    connector = await periodic_connector(shop)
    await shop.database.run(leases.acquire, Resource.CONNECTOR, connector.id, "x:1", ttl_s=60)
    assert await ticks.tick(at("10:05")) == {"connector_busy": 1}
    await shop.database.run(leases.release, "x:1")
    assert await ticks.tick(at("10:06")) == {"connector_queued": 1}


async def test_a_connector_of_a_retired_type_is_switched_off(shop: Shop, ticks: Ticks) -> None:
    connector = await periodic_connector(shop)
    ticks.tick.rules = ScheduleRules(CONNECTORS.with_availability(WEB_CRAWLER, Availability.DISABLED))
    assert await ticks.tick(at("10:05")) == {"connector_retired": 1}
    assert await next_of(shop, connector.id) is None


async def test_a_bad_connector_does_not_keep_the_others(shop: Shop, ticks: Ticks) -> None:
    bad, good = await periodic_connector(shop), await periodic_connector(shop)
    await shop.rows.sql(f"ALTER TABLE jobs ADD CONSTRAINT poison CHECK (law_id <> 'connector:{bad.id}') NOT VALID")
    assert await ticks.tick(at("10:05")) == {"connector_queued": 1}
    assert await next_of(shop, bad.id) == TEN
    assert await next_of(shop, good.id) == at("11:05")


# --- the indexes serve it -----------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-135")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        (f"pipelines WHERE {scheduling.DUE.format(at='now()')} ORDER BY next_scheduled_at, id", "ix_pipelines_due"),
        (f"pipelines WHERE {scheduling.UNSET} ORDER BY id", "ix_pipelines_heal"),
        (
            f"connectors WHERE {scheduling.CONNECTOR_DUE.format(at='now()')} ORDER BY next_scheduled_at, id",
            "ix_connectors_due",
        ),
    ],
)
async def test_a_tick_reads_by_its_partial_indexes(database: Database, query: str, index: str) -> None:
    async def explain(connection: Any) -> str:
        await connection.execute("SET LOCAL enable_seqscan = off")
        await connection.execute("SET LOCAL enable_bitmapscan = off")
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN SELECT id FROM {query} LIMIT 200"))

    assert index in await database.transact(explain)
