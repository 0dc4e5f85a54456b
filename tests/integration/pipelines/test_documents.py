"""Documents over several crawls, and the two-phase indexer that pipelines and connectors share."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve

from actors.jobs.connector_index import ConnectorIndex
from actors.jobs.pipeline_run.crawl import Entry
from actors.jobs.pipeline_run.indexer import Indexer, Stats, Ticking, unpack_indexed
from protocols.connectors import CONNECTORS, WEB_CRAWLER, Availability
from protocols.failures import SupervisorError
from protocols.runs import DocAction, RunStatus, claim_holder
from schema.pipelines import indexing, leases
from schema.pipelines.leases import Resource
from schema.rows import JobStatus, JobType
from tests.kit.pipelines import BROKEN, EMPTY, ON, PRICE, HandWork, Shop, page


async def actions(shop: Shop, run_id: int) -> list[DocAction | None]:
    return [item.doc_action for item in await shop.items(run_id)]


@pytest.mark.claim("S3-029")
async def test_a_page_is_created_then_unchanged_then_updated(shop: Shop) -> None:
    [url] = shop.urls(1)
    pipeline = await shop.pipeline(urls=(url,), save_to_kb=True)
    shop.crawler.pages[url] = page("één", title="Eerste")
    first = await shop.perform(pipeline)
    shop.crawler.pages[url] = page("één", title="Andere titel, zelfde inhoud")
    second = await shop.perform(pipeline)
    shop.crawler.pages[url] = page("twee", title="Tweede")
    third = await shop.perform(pipeline)
    assert [await actions(shop, run.id) for run in (first, second, third)] == [["created"], ["unchanged"], ["updated"]]
    assert [run.documents_indexed for run in (first, second, third)] == [1, 0, 1]
    assert [run.crawls_succeeded for run in (first, second, third)] == [1, 1, 1]
    [row] = await shop.documents()
    assert (row["title"], row["content"], row["state"], row["last_run_id"]) == ("Tweede", "twee", "ready", third.id)
    assert second.summary is not None
    assert second.summary["documents"] == {"created": 0, "updated": 0, "unchanged": 1, "duplicate": 0}


async def test_the_hash_is_of_the_content_and_not_of_what_changes_with_every_fetch(shop: Shop) -> None:
    [url] = shop.urls(1)
    pipeline = await shop.pipeline(urls=(url,), save_to_kb=True)
    hashes = []
    for title in ("a", "b"):
        shop.crawler.pages[url] = page("gelijk", title=title)
        await shop.perform(pipeline)
        hashes.append((await shop.documents())[0]["content_hash"])
    assert hashes[0] == hashes[1]
    assert json.loads((await shop.documents())[0]["metadata"])["title"] == "a"


async def test_the_same_content_under_another_url_is_a_duplicate_and_is_paid_for_all_the_same(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    shop.crawler.pages = dict.fromkeys(shop.urls(2), page("dezelfde tekst"))
    shop.settings = evolve(shop.settings, workers=1)
    done = await shop.perform(await shop.pipeline(urls=shop.urls(2), save_to_kb=True))
    assert await actions(shop, done.id) == ["created", "duplicate"]
    states = [(row["state"], row["state_reason"]) for row in await shop.documents()]
    assert sorted(states, key=str) == [("failed", "Duplicate content exists"), ("ready", None)]
    assert (done.documents_indexed, done.crawls_succeeded, done.charged_micros) == (1, 2, 2 * PRICE)


@pytest.mark.parametrize(("outcome", "reason"), [(EMPTY, "No content extracted"), (BROKEN, "HTTP 500")])
async def test_a_page_that_gives_nothing_is_a_failed_document_with_the_reason(
    shop: Shop, outcome: Any, reason: str
) -> None:
    shop.crawler.pages = {shop.urls(1)[0]: outcome}
    done = await shop.perform(await shop.pipeline(urls=shop.urls(1), save_to_kb=True))
    [row] = await shop.documents()
    assert (row["state"], row["state_reason"], row["content"]) == ("failed", reason, "")
    assert (done.status, done.documents_indexed) == (RunStatus.SUCCEEDED, 0)


@pytest.mark.parametrize("outcome", [EMPTY, BROKEN])
async def test_a_crawl_that_fails_later_costs_a_document_nothing_that_it_had(shop: Shop, outcome: Any) -> None:
    [url] = shop.urls(1)
    pipeline = await shop.pipeline(urls=(url,), save_to_kb=True)
    await shop.perform(pipeline)
    shop.crawler.pages = {url: outcome}
    await shop.perform(pipeline)
    [row] = await shop.documents()
    assert (row["state"], row["content"]) == ("ready", f"content of {url}")
    assert row["state_reason"]


@pytest.mark.claim("S3-068")
async def test_new_documents_go_into_the_folder_and_old_ones_move_only_into_a_named_one(shop: Shop) -> None:
    [url] = shop.urls(1)
    one, two = await shop.folder("een"), await shop.folder("twee")
    connector = await shop.connector((url,))
    rooted = await shop.pipeline(connector, save_to_kb=True)
    first = await shop.pipeline(connector, save_to_kb=True, destination_folder_id=one)
    second = await shop.pipeline(connector, save_to_kb=True, destination_folder_id=two)

    async def folder() -> Any:
        [row] = await shop.documents()
        return row["folder_id"]

    for pipeline, expected in ((first, one), (rooted, one), (second, two), (rooted, two)):
        await shop.perform(pipeline)
        assert await folder() == expected
    shop.crawler.pages = {url: page("nieuw")}
    await shop.perform(first)
    assert await folder() == one


async def test_another_workspace_has_documents_of_its_own(shop: Shop) -> None:
    other = await shop.another()
    for place in (shop, other):
        await place.perform(await place.pipeline(urls=shop.urls(1), save_to_kb=True))
    rows = await shop.documents()
    assert [row["state"] for row in rows] == ["ready", "ready"]
    assert {row["workspace_id"] for row in rows} == {shop.workspace, other.workspace}


async def test_a_document_that_another_live_claim_is_at_is_left_out_and_a_stale_one_is_taken(shop: Shop) -> None:
    urls = shop.urls(3)
    pipeline = await shop.pipeline(urls=urls, save_to_kb=True)
    await shop.perform(pipeline)
    other = await shop.pipeline(urls=urls)
    await shop.run_of(other)
    alive = await shop.claimed()
    live, dead = claim_holder(alive.job.id, alive.job.attempts), claim_holder(alive.job.id, alive.job.attempts - 1)
    for url, holder in ((urls[0], live), (urls[1], dead)):
        await shop.rows.sql("UPDATE documents SET state = 'processing', claimed_by = $2 WHERE url = $1", url, holder)
    asked = len(shop.crawler.asked)
    done = await shop.perform(pipeline)
    assert shop.crawler.asked[asked:] == list(urls[1:])
    assert (done.crawls_attempted, done.crawls_succeeded) == (2, 2)
    assert [item.outcome for item in await shop.items(done.id)] == ["skipped", "success", "success"]


async def test_a_page_that_the_database_refuses_is_one_failed_document(shop: Shop) -> None:
    urls = shop.urls(3)
    shop.crawler.pages = {urls[1]: page("verboden")}
    await shop.rows.sql("ALTER TABLE documents ADD CONSTRAINT poison CHECK (content <> 'verboden')")
    done = await shop.perform(await shop.pipeline(urls=urls, save_to_kb=True))
    assert (done.status, done.crawls_succeeded) == (RunStatus.SUCCEEDED, 2)
    assert [item.outcome for item in await shop.items(done.id)] == ["success", "failed", "success"]
    reasons = {row["url"]: row["state"] for row in await shop.documents()}
    assert reasons[urls[1]] == "failed"


async def test_hostile_titles_and_texts_are_stored_as_what_they_are(shop: Shop) -> None:
    [url] = shop.urls(1)
    shop.crawler.pages = {url: page("a\x00b\ud800'; DROP TABLE documents; --", title="\x00" * 600 + "x" * 900)}
    await shop.perform(await shop.pipeline(urls=(url,), save_to_kb=True))
    [row] = await shop.documents()
    assert row["content"] == "a\ufffdb\ufffd'; DROP TABLE documents; --"
    assert len(row["title"]) == 500


async def test_progress_says_how_far_it_is_and_nothing_of_a_page(shop: Shop) -> None:
    await shop.run_of(await shop.pipeline(urls=shop.urls(3)))
    work = await shop.claimed()
    await shop.work_off(work)
    last = work.reports[-1]
    assert last["phase"] == "crawl"
    assert (last["done"], last["total"], last["succeeded"], last["failed"]) == (3, 3, 3, 0)
    assert last["current_host"] == "site.example"
    assert last["bytes"] > 0
    assert "content of" not in str(work.reports)
    assert [report["done"] for report in work.reports] == sorted(report["done"] for report in work.reports)


# --- the indexer as others call it --------------------------------------------------------------------------------------


async def held(shop: Shop, urls: tuple[str, ...]) -> tuple[HandWork, int]:
    """A claimed connector job that has its lease."""
    connector = await shop.connector(urls)
    await shop.database.transact(indexing.request_index, connector, priority=50)
    work = await shop.claimed(JobType.CONNECTOR_INDEX)
    holder = claim_holder(work.job.id, work.job.attempts)
    await shop.database.run(leases.acquire, Resource.CONNECTOR, connector.id, holder, ttl_s=60)
    return work, connector.id


@pytest.mark.claim("S3-030", "S3-071", "S3-106", "S3-125")
async def test_the_indexer_returns_a_count_and_a_text_and_fills_stats_when_they_are_asked_for(shop: Shop) -> None:
    urls = shop.urls(4)
    shop.crawler.pages = {urls[1]: EMPTY}
    work, connector = await held(shop, urls)
    indexer, stats, beats = Indexer(work, shop.crawler, shop.settings), Stats(leftover=7), list[int]()
    result = await indexer.index_crawled_urls(
        connector, shop.workspace, shop.actor, bill=False, stats=stats, on_heartbeat=beats.append
    )
    assert result == (3, "Completed with issues: 1 of 4 URLs gave no document")
    assert stats == {"leftover": 7, "documents_indexed": 3, "crawls_attempted": 4, "crawls_succeeded": 3}
    assert beats == [1, 2, 3, 4]
    assert indexer.settle is None
    report = unpack_indexed(result)
    assert (report.indexed, report.skipped, report.failed) == (3, 0, False)
    assert await shop.rows.value("SELECT last_indexed_at IS NOT NULL FROM connectors")


async def test_what_indexers_return_is_unpacked_by_its_length() -> None:
    assert unpack_indexed((3, None)).indexed == 3
    three = unpack_indexed((3, 2, "Completed with issues: x"))
    assert (three.indexed, three.skipped, three.failed) == (3, 2, False)
    assert unpack_indexed((0, "no URLs to crawl")).failed
    with pytest.raises(ValueError, match="unpack"):
        unpack_indexed((1, 2, 3, 4))


async def test_the_indexer_crawls_the_list_it_is_given_and_can_leave_the_time_of_indexing_alone(shop: Shop) -> None:
    work, connector = await held(shop, shop.urls(3))
    indexer = Indexer(work, shop.crawler, shop.settings)
    given = ["https://other.example/x", "https://other.example/x"]
    result = await indexer.index_crawled_urls(
        connector, shop.workspace, shop.actor, urls=given, bill=False, update_last_indexed=False
    )
    assert result == (1, None)
    assert shop.crawler.asked == ["https://other.example/x"]
    assert await shop.rows.value("SELECT last_indexed_at IS NULL FROM connectors")


@pytest.mark.parametrize("with_stats", [True, False])
async def test_a_fatal_error_raises_for_who_counts_and_is_returned_to_who_does_not(
    shop: Shop, with_stats: bool
) -> None:
    work, connector = await held(shop, shop.urls(2))
    await shop.rows.sql("ALTER TABLE documents ADD CONSTRAINT poison CHECK (false) NOT VALID")
    indexer = Indexer(work, shop.crawler, shop.settings)
    if with_stats:
        stats: Stats = {}
        with pytest.raises(Exception, match="poison"):
            await indexer.index_crawled_urls(connector, shop.workspace, shop.actor, bill=False, stats=stats)
        assert stats == {"documents_indexed": 0, "crawls_attempted": 0, "crawls_succeeded": 0}
    else:
        count, text = await indexer.index_crawled_urls(connector, shop.workspace, shop.actor, bill=False)
        assert count == 0
        assert text is not None
        assert "poison" in text


async def test_a_run_ticks_off_its_items_with_its_documents(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(2), save_to_kb=True))
    work = await shop.claimed()
    with trio.CancelScope() as scope:

        async def look(url: str) -> None:
            if url == shop.urls(2)[1]:
                await trio.testing.wait_all_tasks_blocked(0.1)
                scope.cancel()

        shop.crawler.before = look
        shop.settings = evolve(shop.settings, workers=1)
        await shop.handler().run(work)
    done = [(item.outcome, item.document_id is not None) for item in await shop.items(run.id)]
    ready = [row["state"] for row in await shop.documents() if row["state"] == "ready"]
    assert len(ready) == sum(outcome == "success" and there for outcome, there in done) == 1
    assert Ticking(1, [Entry(0, "x")]).leases == 2


# --- connectors by themselves -------------------------------------------------------------------------------------------


@pytest.mark.claim("S3-019", "S3-070", "S3-107", "S3-126")
async def test_a_connector_pays_for_its_own_crawls_in_the_commit_that_completes_its_job(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    urls = shop.urls(3)
    shop.crawler.pages = {urls[1]: BROKEN}
    connector = await shop.connector(urls)
    holds: list[int] = []

    async def look(_: str) -> None:
        holds.append((await shop.wallet()).reserved_micros)
        assert await shop.imbalances() == []

    shop.crawler.before = look
    job = await shop.index(connector)
    assert job.status is JobStatus.COMPLETED
    assert job.result == {
        "connector_id": connector.id, "documents_indexed": 2, "warning": "Completed with issues: 1 of 3 URLs gave no document",
    }  # fmt: skip
    assert set(holds) == {3 * PRICE}
    wallet = await shop.wallet()
    assert (wallet.balance_micros, wallet.reserved_micros) == (8 * PRICE, 0)
    [line] = await shop.usage()
    assert json.loads(line["call_details"]) == {"urls": 3, "successes": 2, "connector_id": connector.id}
    assert (line["pipeline_run_id"], line["cost_micros"]) == (None, 2 * PRICE)
    assert "hold" not in job.payload
    assert {row["created_by_id"] for row in await shop.documents()} == {shop.owner}
    assert await shop.leases() == 0
    assert await shop.imbalances() == []


async def test_a_connector_without_credit_fetches_nothing(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(2 * PRICE)
    job = await shop.index(await shop.connector(shop.urls(3)))
    assert job.status is JobStatus.FAILED
    assert job.result["error"].startswith("Insufficient crawl credit: ")
    assert shop.crawler.asked == []
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.imbalances() == []


@pytest.mark.parametrize(
    ("kind", "urls", "text"),
    [
        (WEB_CRAWLER, (), "no URLs to crawl"),
        ("DROPBOX_CONNECTOR", ("https://a.example/",), "executor not implemented for DROPBOX_CONNECTOR"),
    ],
)
async def test_a_connector_that_cannot_be_indexed_fails_cleanly(
    shop: Shop, kind: str, urls: tuple[str, ...], text: str
) -> None:
    job = await shop.index(await shop.connector(urls, kind=kind))
    assert (job.status, job.result["error"]) == (JobStatus.FAILED, text)
    assert await shop.leases() == 0


async def test_a_connector_of_a_retired_type_fails_cleanly(shop: Shop) -> None:
    shop.settings = evolve(shop.settings, registry=CONNECTORS.with_availability(WEB_CRAWLER, Availability.MIGRATING))
    job = await shop.index(await shop.connector())
    assert job.result["error"] == "connector type WEBCRAWLER_CONNECTOR no longer eligible"


async def test_a_connector_that_a_pipeline_crawls_just_now_is_busy_and_the_pipeline_is_not_disturbed(
    shop: Shop,
) -> None:
    connector = await shop.connector(shop.urls(2))
    run = await shop.run_of(await shop.pipeline(connector))

    async def meanwhile(url: str) -> None:
        if url == shop.urls(2)[0]:
            shop.crawler.before = None
            job = await shop.index(connector)
            assert job.result["error"] == "connector is currently indexing; retry later"
            assert await shop.leases() == 2

    shop.crawler.before = meanwhile
    assert (await shop.drive(run)).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("end", ["reaped", "drained", "cancelled"])
async def test_whatever_ends_a_connector_job_gives_its_hold_and_its_lease_back(shop: Shop, end: str) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    connector = await shop.connector(shop.urls(2))
    await shop.database.transact(indexing.request_index, connector, priority=50)
    work = await shop.claimed(JobType.CONNECTOR_INDEX)
    with trio.CancelScope() as process:

        async def die(_: str) -> None:
            process.cancel()
            await trio.sleep_forever()

        shop.crawler.before = die
        await ConnectorIndex(shop.settings, shop.crawler).run(work)
    assert (await shop.wallet()).reserved_micros == 2 * PRICE
    assert await shop.imbalances() == []
    if end == "reaped":
        await shop.lose_worker(work)
    elif end == "drained":
        await shop.rows.queue.hand_back(work.lease, why="drain")
    else:
        await shop.rows.queue.fail(work.lease, SupervisorError("cancelled"))
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.leases() == 0
    assert await shop.imbalances() == []
    assert "processing" not in {row["state"] for row in await shop.documents()}


async def test_a_connector_that_is_deleted_while_it_is_crawled_costs_nothing(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    connector = await shop.connector(shop.urls(3))

    async def remove(url: str) -> None:
        if url.endswith("/1"):
            await shop.rows.sql("DELETE FROM connectors WHERE id = $1", connector.id)

    shop.crawler.before = remove
    job = await shop.index(connector)
    assert (job.status, job.result) == (JobStatus.COMPLETED, {"gone": True})
    wallet = await shop.wallet()
    assert (wallet.balance_micros, wallet.reserved_micros) == (10 * PRICE, 0)
    assert await shop.leases() == 0
