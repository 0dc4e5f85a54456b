"""Runs from their request to their end: both branches, what they cost, and what they leave behind."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from attrs import evolve

from protocols.connectors import CONNECTORS, WEB_CRAWLER, Availability
from protocols.credits import Pricing
from protocols.runs import RunStatus, Trigger
from schema.pipelines import manage
from schema.pipelines.runs import RunNotFound
from schema.rows import JobStatus
from tests.kit.pipelines import BROKEN, EMPTY, OFF, ON, PRICE, Shop, page
from tests.kit.processes import until


@pytest.mark.claim("S3-001", "S3-002", "S3-012", "S3-014", "S3-015", "S3-047", "S3-054", "S3-055", "S3-113", "S3-137")
async def test_a_manual_run_that_saves_puts_documents_into_its_folder(shop: Shop) -> None:
    folder = await shop.folder()
    pipeline = await shop.pipeline(urls=shop.urls(3), save_to_kb=True, destination_folder_id=folder)
    run = await shop.run_of(pipeline)
    assert (run.status, run.trigger, run.started_at) == (RunStatus.PENDING, Trigger.MANUAL, None)
    seen: list[RunStatus] = []

    async def look(_: str) -> None:
        seen.append((await shop.run(run.id)).status)

    shop.crawler.before = look
    done = await shop.drive(run)
    assert set(seen) == {RunStatus.RUNNING}
    assert done.status is RunStatus.SUCCEEDED
    assert (done.documents_indexed, done.crawls_attempted, done.crawls_succeeded) == (3, 3, 3)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.result_blob_key is None
    rows = await shop.documents()
    assert [row["url"] for row in sorted(rows, key=lambda row: row["url"])] == list(shop.urls(3))
    assert {(row["folder_id"], row["state"], row["last_run_id"]) for row in rows} == {(folder, "ready", run.id)}
    assert {str(row["created_by_id"]) for row in rows} == {str(shop.actor)}
    assert json.loads(rows[0]["metadata"])["crawler_type"] == "static"
    assert await shop.rows.value("SELECT last_indexed_at >= $1 FROM connectors", done.started_at)
    assert await shop.leases() == 0
    assert run.job_id is not None
    job = await shop.rows.job(run.job_id)
    assert (job.status, job.law_id, job.max_attempts) == (JobStatus.COMPLETED, f"pipeline:{pipeline.id}", 2)


@pytest.mark.claim("S3-016")
async def test_a_run_that_saves_without_a_folder_saves_at_the_root(shop: Shop) -> None:
    await shop.perform(await shop.pipeline(save_to_kb=True))
    assert [row["folder_id"] for row in await shop.documents()] == [None]


async def test_a_folder_that_is_deleted_meanwhile_means_the_root_and_the_run_goes_on(shop: Shop) -> None:
    folder = await shop.folder()
    pipeline = await shop.pipeline(urls=shop.urls(3), save_to_kb=True, destination_folder_id=folder)
    run = await shop.run_of(pipeline)

    async def remove(url: str) -> None:
        if url.endswith("/1"):
            await shop.rows.sql("DELETE FROM folders WHERE id = $1", folder)

    shop.crawler.before = remove
    assert (await shop.drive(run)).status is RunStatus.SUCCEEDED
    assert [row["folder_id"] for row in await shop.documents()] == [None] * 3


async def test_without_a_creator_documents_are_the_owners(shop: Shop) -> None:
    await shop.perform(await shop.pipeline(save_to_kb=True, created_by_id=None))
    assert [str(row["created_by_id"]) for row in await shop.documents()] == [str(shop.owner)]


@pytest.mark.claim("S3-017", "S3-056", "S3-075", "S3-077", "S3-078", "S3-114")
async def test_a_run_that_does_not_save_makes_one_blob_in_the_order_of_its_list(shop: Shop) -> None:
    urls = shop.urls(5)
    shop.crawler.pages = {urls[1]: EMPTY, urls[3]: BROKEN}
    pipeline = await shop.pipeline(urls=urls)
    run = await shop.run_of(pipeline)

    async def shuffle(url: str) -> None:
        for _ in range(9 - int(url[-1])):
            await trio.lowlevel.checkpoint()

    shop.crawler.before = shuffle
    done = await shop.drive(run)
    assert done.status is RunStatus.SUCCEEDED
    assert (done.documents_indexed, done.crawls_attempted, done.crawls_succeeded) == (0, 5, 3)
    assert await shop.documents() == []
    assert done.result_blob_key == f"pipeline_runs/{shop.workspace}/{run.id}/result-1.json"
    assert done.result_blob_backend == "local"
    [(key, data)] = shop.blobs.blobs.items()
    assert (key, len(data)) == (done.result_blob_key, done.result_bytes)
    entries = json.loads(data)["runs"]
    assert [entry["url"] for entry in entries] == list(urls)
    assert [entry["status"] for entry in entries] == ["success", "empty", "success", "failed", "success"]
    assert entries[0]["content"] == f"content of {urls[0]}"
    assert entries[0]["metadata"]["source"] == urls[0]
    assert entries[3] == {"url": urls[3], "status": "failed", "content": "", "metadata": {}, "error": "HTTP 500"}
    assert await shop.rows.value("SELECT count(*) FROM blob_tombstones") == 0
    assert done.result_expires_at is not None


@pytest.mark.claim("S3-076")
async def test_what_the_blob_holds_is_json_whatever_pages_say(shop: Shop) -> None:
    url = "https://site.example/ünï?q=a b#part"
    hostile = 'quote " and \\ and \x00 and \ud800 and </script> \u2028'
    shop.crawler.pages = {"https://site.example/%C3%BCn%C3%AF?q=a%20b": page(hostile, title=hostile)}
    await shop.perform(await shop.pipeline(urls=(url,)))
    [data] = shop.blobs.blobs.values()
    [entry] = json.loads(data.decode())["runs"]
    assert 'quote " and \\ and' in entry["content"]
    assert entry["url"] == "https://site.example/%C3%BCn%C3%AF?q=a%20b"


@pytest.mark.claim("S3-133")
async def test_a_run_that_does_not_save_fetches_and_costs_everything_each_time(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    pipeline = await shop.pipeline(urls=shop.urls(2))
    first, second = await shop.perform(pipeline), await shop.perform(pipeline)
    assert (first.charged_micros, second.charged_micros) == (2 * PRICE, 2 * PRICE)
    assert len(shop.crawler.asked) == 4
    assert len(shop.blobs.blobs) == 2


# --- money ------------------------------------------------------------------------------------------------------------


@pytest.mark.claim(
    "S3-003", "S3-004", "S3-018", "S3-040", "S3-052", "S3-057", "S3-058", "S3-059", "S3-079", "S3-115", "S3-128"
)
@pytest.mark.parametrize("save", [True, False])
async def test_the_owner_pays_for_what_succeeded_the_same_in_both_branches(shop: Shop, save: bool) -> None:
    # WB-05
    shop.billing(ON)
    await shop.credit(5 * PRICE)
    urls = shop.urls(5)
    shop.crawler.pages = {urls[1]: EMPTY, urls[3]: BROKEN}
    pipeline = await shop.pipeline(urls=urls, save_to_kb=save)
    done = await shop.perform(pipeline)
    assert sorted(shop.crawler.asked) == list(urls)
    assert (done.charged_micros, done.unit_price_micros, done.reserved_micros) == (3 * PRICE, PRICE, 0)
    wallet = await shop.wallet()
    assert (wallet.balance_micros, wallet.reserved_micros) == (2 * PRICE, 0)
    [line] = await shop.usage()
    assert (line["usage_type"], line["workspace_id"], line["cost_micros"]) == ("web_crawl", shop.workspace, 3 * PRICE)
    assert (str(line["user_id"]), line["message_id"]) == (str(shop.owner), None)
    assert json.loads(line["call_details"]) == {
        "urls": 5, "successes": 3, "pipeline_id": pipeline.id, "run_id": done.id,
    }  # fmt: skip
    assert await shop.imbalances() == []


@pytest.mark.claim("S3-053", "S3-116")
@pytest.mark.parametrize("save", [True, False])
@pytest.mark.parametrize("short", [1, 5 * PRICE])
async def test_too_little_credit_ends_the_run_before_any_fetch_and_takes_nothing(
    shop: Shop, save: bool, short: int
) -> None:
    shop.billing(ON)
    if short < 5 * PRICE:
        await shop.credit(5 * PRICE - short)
    done = await shop.perform(await shop.pipeline(urls=shop.urls(5), save_to_kb=save))
    assert done.status is RunStatus.FAILED
    assert done.error == {
        "code": "out_of_credit",
        "message": "out of crawl credit",
        "detail": {"required_micros": 5 * PRICE, "available_micros": 5 * PRICE - short},
    }
    assert shop.crawler.asked == []
    assert (await shop.wallet()).reserved_micros == 0
    assert await shop.usage() == []
    assert done.charged_micros is None
    assert await shop.leases() == 0
    assert await shop.imbalances() == []


async def test_credit_to_the_last_micro_is_enough(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(5 * PRICE)
    assert (await shop.perform(await shop.pipeline(urls=shop.urls(5)))).status is RunStatus.SUCCEEDED
    assert (await shop.wallet()).balance_micros == 0


@pytest.mark.claim("S3-117")
async def test_with_billing_off_nothing_is_charged_or_written(shop: Shop) -> None:
    shop.billing(OFF)
    done = await shop.perform(await shop.pipeline(urls=shop.urls(3)))
    assert (done.status, done.charged_micros, done.unit_price_micros) == (RunStatus.SUCCEEDED, None, None)
    assert await shop.usage() == []
    assert await shop.rows.value("SELECT count(*) FROM credit_wallets") == 0


@pytest.mark.parametrize("save", [True, False])
async def test_a_run_whose_every_url_failed_succeeds_and_costs_nothing(shop: Shop, save: bool) -> None:
    shop.billing(ON)
    await shop.credit(10 * PRICE)
    shop.crawler.pages = dict.fromkeys(shop.urls(3), BROKEN)
    done = await shop.perform(await shop.pipeline(urls=shop.urls(3), save_to_kb=save))
    assert (done.status, done.crawls_attempted, done.crawls_succeeded) == (RunStatus.SUCCEEDED, 3, 0)
    assert done.charged_micros is None
    assert await shop.usage() == []
    wallet = await shop.wallet()
    assert (wallet.balance_micros, wallet.reserved_micros) == (10 * PRICE, 0)
    assert done.summary is not None
    assert done.summary["failed"] == 3


async def test_a_price_that_changes_under_a_run_is_not_the_price_of_that_run(shop: Shop) -> None:
    # D64
    shop.billing(ON)
    await shop.credit(100 * PRICE)
    pipeline = await shop.pipeline(urls=shop.urls(2))
    run = await shop.run_of(pipeline)
    work = await shop.claimed()

    async def redeploy(_: str) -> None:
        await shop.lose_worker(work)
        raise AssertionError("the worker is dead")

    shop.crawler.before = redeploy
    await shop.work_off(work)
    shop.crawler.before = None
    shop.billing(Pricing(enabled=False))
    done = await shop.drive(run)
    assert (done.status, done.charged_micros) == (RunStatus.SUCCEEDED, 2 * PRICE)
    assert await shop.imbalances() == []


async def test_a_balance_that_falls_below_the_hold_is_charged_all_the_same_and_new_runs_fail(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(2 * PRICE)
    pipeline = await shop.pipeline(urls=shop.urls(2))
    run = await shop.run_of(pipeline)

    async def refund(url: str) -> None:
        if url.endswith("/0"):
            await shop.credit(-2 * PRICE)

    shop.crawler.before = refund
    assert (await shop.drive(run)).charged_micros == 2 * PRICE
    assert (await shop.wallet()).balance_micros == -2 * PRICE
    assert (await shop.perform(pipeline)).error is not None
    assert await shop.imbalances() == []


async def test_who_owned_the_workspace_at_the_start_pays(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(2 * PRICE)
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(2)))

    async def sell(_: str) -> None:
        await shop.rows.sql("UPDATE workspaces SET owner_id = $2 WHERE id = $1", shop.workspace, shop.actor)

    shop.crawler.before = sell
    await shop.drive(run)
    assert (await shop.wallet()).balance_micros == 0
    assert await shop.imbalances() == []


async def test_a_charge_that_cannot_be_audited_is_not_made(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(5 * PRICE)
    await shop.rows.sql("ALTER TABLE token_usage ADD CONSTRAINT no_lines CHECK (false) NOT VALID")
    run = await shop.run_of(await shop.pipeline(urls=shop.urls(2)))
    work = await shop.claimed()
    with pytest.raises(Exception, match="no_lines"):
        await shop.work_off(work)
    assert (await shop.wallet()).balance_micros == 5 * PRICE
    assert (await shop.run(run.id)).status is RunStatus.RUNNING
    assert await shop.imbalances() == []


# --- errors of pages and of ours --------------------------------------------------------------------------------------


async def test_one_bad_url_is_one_failed_item_and_the_run_goes_on(shop: Shop) -> None:
    urls = (
        *shop.urls(2),
        "ftp://site.example/x",
        "https://user:geheim@site.example/",
        f"https://site.example/{'x' * 3000}",
    )
    shop.crawler.pages = {urls[0]: RuntimeError("a defect of the crawler")}
    done = await shop.perform(await shop.pipeline(urls=urls))
    assert (done.status, done.crawls_attempted, done.crawls_succeeded) == (RunStatus.SUCCEEDED, 5, 1)
    items = await shop.items(done.id)
    assert [item.outcome for item in items] == ["failed", "success", "failed", "failed", "failed"]
    assert all(item.error for item in items if item.outcome == "failed")
    assert "geheim" not in str(items)
    assert "geheim" not in str(shop.blobs.blobs)
    assert [json.loads(data)["runs"][4]["status"] for data in shop.blobs.blobs.values()] == ["failed"]


@pytest.mark.claim("S3-027", "S3-061")
async def test_an_unforeseen_error_ends_the_run_with_its_type_and_without_secrets(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(5 * PRICE)
    shop.blobs.fails = ExceptionGroup(
        "several", [OSError("disk full at https://user:geheim@store.example/?X-Signature=abc123&x=1")]
    )
    done = await shop.perform(await shop.pipeline(urls=shop.urls(2)))
    assert done.status is RunStatus.FAILED
    assert done.error is not None
    assert (done.error["code"], done.error["type"]) == ("exception", "OSError")
    assert "geheim" not in done.error["message"]
    assert "abc123" not in done.error["message"]
    assert (done.charged_micros, (await shop.wallet()).reserved_micros) == (None, 0)
    assert (done.crawls_attempted, done.result_blob_key) == (2, None)
    assert await shop.leases() == 0
    assert done.job_id is not None
    assert (await shop.rows.job(done.job_id)).status is JobStatus.FAILED


async def test_a_result_that_grows_too_large_fails_the_run_and_is_not_published(shop: Shop) -> None:
    shop.settings = evolve(shop.settings, max_result_bytes=500)
    shop.crawler.pages = {shop.urls(3)[1]: page("x" * 1000)}
    done = await shop.perform(await shop.pipeline(urls=shop.urls(3)))
    assert done.error is not None
    assert done.error["code"] == "result_too_large"
    assert shop.blobs.blobs == {}
    assert await shop.rows.value("SELECT count(*) FROM blob_tombstones") == 1


async def test_a_run_that_takes_too_long_fails_and_is_not_driven_again(
    shop: Shop,
) -> None:
    shop.settings = evolve(shop.settings, run_timeout_s=0.3)

    async def hang(_: str) -> None:
        await trio.sleep_forever()

    shop.crawler.before = hang
    done = await shop.perform(await shop.pipeline())
    assert done.error is not None
    assert (done.status, done.error["code"]) == (RunStatus.FAILED, "timeout")
    assert done.job_id is not None
    assert (await shop.rows.job(done.job_id)).status is JobStatus.FAILED


async def test_at_most_a_window_of_pages_is_fetched_ahead_of_the_one_that_is_awaited(shop: Shop) -> None:
    urls, slow = shop.urls(30), trio.Event()
    run = await shop.run_of(await shop.pipeline(urls=urls))

    async def wait(url: str) -> None:
        if url == urls[0]:
            await slow.wait()

    shop.crawler.before = wait
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.drive, run)
        await until(lambda: len(shop.crawler.asked) >= shop.settings.window)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(shop.crawler.asked) == shop.settings.window
        slow.set()
    assert (await shop.run(run.id)).crawls_succeeded == 30


# --- deleted while it runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [True, False])
@pytest.mark.parametrize("what", ["pipelines", "connectors", "workspaces"])
async def test_a_run_whose_pipeline_connector_or_workspace_is_deleted_ends_quietly_and_costs_nothing(
    shop: Shop, save: bool, what: str
) -> None:
    shop.billing(ON)
    await shop.credit(5 * PRICE)
    pipeline = await shop.pipeline(urls=shop.urls(4), save_to_kb=save)
    await shop.run_of(pipeline)
    key = {"pipelines": pipeline.id, "connectors": pipeline.connector_id, "workspaces": shop.workspace}[what]

    async def remove(url: str) -> None:
        if url.endswith("/1"):
            await shop.rows.sql(f"DELETE FROM {what} WHERE id = $1", key)

    shop.crawler.before = remove
    work = await shop.claimed()
    assert await shop.work_off(work) is None
    job = await shop.rows.job(work.job.id)
    assert job.status is JobStatus.COMPLETED
    wallet = await shop.wallet()
    assert (wallet.balance_micros, wallet.reserved_micros) == (5 * PRICE, 0)
    assert await shop.leases() == 0
    assert await shop.usage() == []


async def test_a_job_whose_run_was_deleted_before_it_began_completes_as_gone(shop: Shop) -> None:
    pipeline = await shop.pipeline()
    await shop.run_of(pipeline)
    await shop.database.transact(manage.delete_pipeline, pipeline.id)
    work = await shop.claimed()
    await shop.work_off(work)
    assert (await shop.rows.job(work.job.id)).result == {"gone": True}
    with pytest.raises(RunNotFound):
        await shop.run(10**9)


@pytest.mark.claim("S3-129")
async def test_the_registry_is_asked_again_at_the_time_of_the_run(shop: Shop) -> None:
    pipeline = await shop.pipeline()
    shop.settings = evolve(shop.settings, registry=CONNECTORS.with_availability(WEB_CRAWLER, Availability.MIGRATING))
    done = await shop.perform(pipeline)
    assert done.error == {
        "code": "connector_ineligible",
        "message": "connector type WEBCRAWLER_CONNECTOR no longer eligible",
    }
