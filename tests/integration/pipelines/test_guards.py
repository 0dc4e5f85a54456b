"""The guards of a run, in their order and with their texts; and the leases behind two of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from protocols.connectors import BWB_LAWS, CONNECTORS, WEB_CRAWLER, Availability
from protocols.runs import RunStatus, claim_holder
from schema.connection import Connection
from schema.pipelines import leases
from schema.pipelines.leases import Resource
from schema.pipelines.rows import Pipeline
from schema.rows import JobStatus
from tests.kit.pipelines import ON, Shop

OTHER = "00000000-0000-0000-0000-000000000001:1"


async def lease(shop: Shop, kind: Resource, resource_id: int | None, *, ttl_s: float = 60) -> None:
    assert resource_id is not None
    assert await shop.database.run(leases.acquire, kind, resource_id, OTHER, ttl_s=ttl_s)


async def uploads(shop: Shop) -> Pipeline:
    return await shop.pipeline(uploads=True)


async def retired(shop: Shop) -> Pipeline:
    """Neither eligible any more nor executable: the first of the two says so."""
    pipeline = await shop.pipeline(await shop.connector(kind="DROPBOX_CONNECTOR"))
    registry = CONNECTORS.with_availability("DROPBOX_CONNECTOR", Availability.MIGRATING)
    shop.settings = evolve(shop.settings, registry=registry)
    return pipeline


async def unknown(shop: Shop) -> Pipeline:
    pipeline = await shop.pipeline()
    await shop.rows.sql("UPDATE connectors SET connector_type = 'GONE_CONNECTOR'")
    return pipeline


async def without_executor(shop: Shop) -> Pipeline:
    """It has no URLs either."""
    return await shop.pipeline(await shop.connector(kind="GOOGLE_DRIVE_CONNECTOR"))


async def without_urls(shop: Shop) -> Pipeline:
    """And leased by somebody, too."""
    pipeline = await shop.pipeline(urls=())
    await lease(shop, Resource.PIPELINE, pipeline.id)
    return pipeline


async def blank_override(shop: Shop) -> Pipeline:
    return await shop.pipeline(urls=shop.urls(3), config={"INITIAL_URLS": "\n"})


async def too_many(shop: Shop) -> Pipeline:
    shop.settings = evolve(shop.settings, max_urls=2)
    pipeline = await shop.pipeline(urls=shop.urls(3))
    await lease(shop, Resource.PIPELINE, pipeline.id)
    return pipeline


async def in_progress(shop: Shop) -> Pipeline:
    """The connector is busy as well."""
    pipeline = await shop.pipeline()
    await lease(shop, Resource.PIPELINE, pipeline.id)
    await lease(shop, Resource.CONNECTOR, pipeline.connector_id)
    return pipeline


async def connector_busy(shop: Shop) -> Pipeline:
    """And there is no credit."""
    shop.billing(ON)
    pipeline = await shop.pipeline()
    await lease(shop, Resource.CONNECTOR, pipeline.connector_id)
    return pipeline


async def poor(shop: Shop) -> Pipeline:
    shop.billing(ON)
    return await shop.pipeline()


GUARDS: list[tuple[Any, str, str]] = [
    (uploads, "uploads_no_executor", "uploads pipeline has no fetch executor"),
    (retired, "connector_ineligible", "connector type DROPBOX_CONNECTOR no longer eligible"),
    (unknown, "connector_ineligible", "connector type GONE_CONNECTOR no longer eligible"),
    (without_executor, "executor_missing", "executor not implemented for GOOGLE_DRIVE_CONNECTOR"),
    (without_urls, "no_urls", "no URLs to crawl"),
    (blank_override, "no_urls", "no URLs to crawl"),
    (too_many, "too_many_urls", "3 URLs exceed the per-run limit of 2"),
    (in_progress, "already_in_progress", "a run for this pipeline is already in progress"),
    (connector_busy, "connector_busy", "connector is currently indexing; retry later"),
    (poor, "out_of_credit", "out of crawl credit"),
]


@pytest.mark.claim(
    "S3-009", "S3-011", "S3-043", "S3-044", "S3-045", "S3-046", "S3-049", "S3-050", "S3-051", "S3-062", "S3-063", "S3-119",
    "S3-120",
)  # fmt: skip
@pytest.mark.parametrize(("make", "code", "message"), GUARDS, ids=[make.__name__ for make, _, _ in GUARDS])
async def test_each_guard_ends_the_run_failed_with_its_text_and_leaves_no_lease(
    shop: Shop, make: Any, code: str, message: str
) -> None:
    run = await shop.run_of(await make(shop))
    others = await shop.leases()
    work = await shop.claimed()
    await shop.work_off(work)
    done = await shop.run(run.id)
    assert done.status is RunStatus.FAILED
    assert done.error is not None
    assert (done.error["code"], done.error["message"]) == (code, message)
    assert "type" not in done.error
    assert done.finished_at is not None
    assert shop.crawler.asked == []
    assert await shop.leases() == others
    assert await shop.rows.value("SELECT count(*) FROM leases WHERE holder <> $1", OTHER) == 0
    assert (done.crawls_attempted, done.charged_micros, done.reserved_micros) == (None, None, 0)
    assert (await shop.rows.job(work.job.id)).status is JobStatus.FAILED


# --- where the URLs come from -------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-028", "S3-048", "S3-069")
@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, ["https://a.example/"]),
        ({"INITIAL_URLS": []}, ["https://a.example/"]),
        ({"INITIAL_URLS": ""}, ["https://a.example/"]),
        ({"INITIAL_URLS": None}, ["https://a.example/"]),
        ({"INITIAL_URLS": ["https://b.example/"]}, ["https://b.example/"]),
        ({"INITIAL_URLS": " https://b.example/x \n\n https://c.example/ "}, ["https://b.example/x", "https://c.example/"]),
        ({"INITIAL_URLS": ["https://b.example/", 7, None, ["https://d.example/"], " "]}, ["https://b.example/"]),
        (
            {"INITIAL_URLS": ["https://b.example/#one", "https://B.example", "https://b.example/#two", "https://c.example/"]},
            ["https://b.example/", "https://c.example/"],
        ),
    ],
)  # fmt: skip
async def test_the_pipelines_own_urls_win_when_there_are_any_and_each_is_crawled_once(
    shop: Shop, own: dict[str, Any], expected: list[str]
) -> None:
    done = await shop.perform(await shop.pipeline(urls=("https://a.example/",), config=own))
    assert shop.crawler.asked == expected
    assert done.crawls_attempted == len(expected)


@pytest.mark.parametrize("value", [7, {"a": 1}, True])
async def test_urls_that_are_neither_text_nor_list_are_no_urls(shop: Shop, value: object) -> None:
    done = await shop.perform(await shop.pipeline(config={"INITIAL_URLS": value}))
    assert done.error is not None
    assert done.error["code"] == "no_urls"


# --- two at once --------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-022", "S3-123")
async def test_a_second_run_of_the_same_pipeline_fails_while_the_first_is_at_work(shop: Shop) -> None:
    pipeline = await shop.pipeline(urls=shop.urls(2))
    first, second = await shop.run_of(pipeline), await shop.run_of(pipeline)

    async def meanwhile(url: str) -> None:
        if url == shop.urls(2)[0]:
            shop.crawler.before = None
            failed = await shop.drive(second)
            assert failed.error is not None
            assert failed.error["code"] == "already_in_progress"
            assert await shop.leases() == 2

    shop.crawler.before = meanwhile
    assert (await shop.drive(first)).status is RunStatus.SUCCEEDED
    assert (await shop.run(second.id)).status is RunStatus.FAILED
    assert await shop.leases() == 0


async def test_two_pipelines_over_one_connector_take_turns(shop: Shop) -> None:
    connector = await shop.connector(shop.urls(2))
    one, other = await shop.pipeline(connector), await shop.pipeline(connector)
    first, second = await shop.run_of(one), await shop.run_of(other)

    async def meanwhile(url: str) -> None:
        if url == shop.urls(2)[0]:
            shop.crawler.before = None
            failed = await shop.drive(second)
            assert failed.error is not None
            assert failed.error["code"] == "connector_busy"
            held = await shop.rows.sql("SELECT kind, resource_id FROM leases ORDER BY kind")
            assert [(row["kind"], row["resource_id"]) for row in held] == [
                ("connector", connector.id),
                ("pipeline", one.id),
            ]

    shop.crawler.before = meanwhile
    assert (await shop.drive(first)).status is RunStatus.SUCCEEDED


# --- leases -------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-037", "S3-111")
async def test_a_lease_is_had_when_free_expired_or_ours_and_only_its_holder_can_give_it_back(shop: Shop) -> None:
    run = shop.database.run
    assert await run(leases.acquire, Resource.PIPELINE, 7, "a:1", ttl_s=60)
    assert await run(leases.acquire, Resource.PIPELINE, 7, "a:1", ttl_s=60)
    assert not await run(leases.acquire, Resource.PIPELINE, 7, "b:1", ttl_s=60)
    assert await run(leases.acquire, Resource.CONNECTOR, 7, "b:1", ttl_s=60)
    assert await run(leases.is_locked, Resource.PIPELINE, 7)
    await shop.rows.sql("UPDATE leases SET expires_at = now() - interval '1 second' WHERE kind = 'pipeline'")
    assert not await run(leases.is_locked, Resource.PIPELINE, 7)
    assert await run(leases.held, "a:1") == 0
    assert await run(leases.acquire, Resource.PIPELINE, 7, "b:1", ttl_s=60)
    await run(leases.release, "a:1")
    assert await run(leases.held, "b:1") == 2
    await run(leases.release, "b:1")
    assert not await run(leases.is_locked, Resource.PIPELINE, 7)


@pytest.mark.claim("S3-134")
async def test_leases_are_renewed_with_the_beat_of_their_job_and_with_no_others(shop: Shop) -> None:
    await shop.run_of(await shop.pipeline())
    work = await shop.claimed()
    ours = claim_holder(work.job.id, work.job.attempts)
    for number, holder in enumerate((ours, claim_holder(work.job.id, 0), OTHER)):
        await shop.database.run(leases.acquire, Resource.PIPELINE, number, holder, ttl_s=100)
    await shop.rows.sql("UPDATE leases SET expires_at = now() + interval '1 second'")
    answer = await shop.rows.queue.beat([work.lease])
    assert answer.confirmed == {work.lease}
    left = await shop.rows.sql(
        "SELECT holder, extract(epoch FROM expires_at - now())::int AS s FROM leases ORDER BY resource_id"
    )
    assert [row["s"] > 90 for row in left] == [True, False, False]


async def test_a_beat_does_not_wait_for_a_lease_that_somebody_has_locked(shop: Shop) -> None:
    # D5
    await shop.run_of(await shop.pipeline())
    work = await shop.claimed()
    holder = claim_holder(work.job.id, work.job.attempts)
    await shop.database.run(leases.acquire, Resource.PIPELINE, 1, holder, ttl_s=100)
    locked, beaten = trio.Event(), trio.Event()

    async def lock(connection: Connection) -> None:
        await connection.execute("SELECT FROM leases FOR UPDATE")
        while not beaten.is_set():
            locked.set()
            await connection.fetchval("SELECT pg_sleep(0.02)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.database.transact, lock)
        await locked.wait()
        with trio.fail_after(5):
            answer = await shop.rows.queue.beat([work.lease])
        beaten.set()
    assert answer.confirmed == {work.lease}


async def test_a_run_that_lost_its_lease_stops_and_writes_nothing_more(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(100_000)
    pipeline = await shop.pipeline(urls=shop.urls(3), save_to_kb=True)
    run = await shop.run_of(pipeline)

    async def steal(url: str) -> None:
        if url == shop.urls(3)[1]:
            await shop.rows.sql("UPDATE leases SET holder = $1 WHERE kind = 'pipeline'", OTHER)

    shop.crawler.before = steal
    work = await shop.claimed()
    failure = await shop.work_off(work)
    assert failure is not None
    assert failure.kind == "lease_lost"
    assert (await shop.rows.job(work.job.id)).status is JobStatus.PROCESSING
    assert (await shop.run(run.id)).status is RunStatus.RUNNING
    shop.crawler.before = None
    await shop.rows.sql("DELETE FROM leases WHERE holder = $1", OTHER)
    await shop.lose_worker(work)
    done = await shop.drive(run)
    assert (done.status, done.charged_micros) == (RunStatus.SUCCEEDED, 3000)
    assert await shop.imbalances() == []


async def test_a_lease_that_is_lost_right_before_the_end_is_no_success(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(1)))
    work = await shop.claimed()
    done = await shop.handler().run(work)
    await shop.rows.sql("DELETE FROM leases")
    with pytest.raises(Exception, match="lease_lost"):
        await shop.rows.queue.complete(work.lease, done.result, done.settle)
    assert (await shop.run(run.id)).status is RunStatus.RUNNING
    assert (await shop.rows.job(work.job.id)).status is JobStatus.PROCESSING


@pytest.mark.claim("S3-109")
def test_eligible_types_are_the_sources_that_are_available_and_nothing_unknown() -> None:
    eligible = {name for name in CONNECTORS.kinds if CONNECTORS.is_pipeline_eligible(name)}
    assert eligible == {
        WEB_CRAWLER, BWB_LAWS, "GOOGLE_DRIVE_CONNECTOR", "COMPOSIO_GOOGLE_DRIVE_CONNECTOR", "ONEDRIVE_CONNECTOR",
        "DROPBOX_CONNECTOR",
    }  # fmt: skip
    assert not CONNECTORS.is_pipeline_eligible("NOBODY_KNOWS_THIS")
    with pytest.raises(KeyError):
        CONNECTORS.with_availability("NOBODY_KNOWS_THIS", Availability.HIDDEN)
