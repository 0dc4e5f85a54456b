"""What a chat agent and an API may see of runs: one workspace's, and no argument that reaches further."""

from __future__ import annotations

import pytest

from actors.http.history import make_get_pipeline_runs
from protocols.runs import RunStatus
from schema.pipelines import history, items
from schema.pipelines.runs import RunNotFound
from tests.kit.pipelines import BROKEN, ON, PRICE, Shop


@pytest.mark.claim("S3-007", "S3-023", "S3-096", "S3-097", "S3-100", "S3-124")
async def test_the_tool_shows_the_newest_runs_of_its_own_workspace_and_no_others(shop: Shop) -> None:
    other = await shop.another()
    mine, foreign = await shop.pipeline(), await other.pipeline()
    runs = [await shop.perform(mine) for _ in range(3)]
    await other.perform(foreign)
    tool, theirs = (make_get_pipeline_runs(shop.database, one.workspace) for one in (shop, other))
    lines = (await tool()).splitlines()[1:]
    assert [line.split()[0] for line in lines] == [f"#{run.id}" for run in reversed(runs)]
    assert len((await theirs()).splitlines()) == 2
    for unknown in (foreign.id, 4711):
        assert await tool(unknown) == "no runs"
    assert len((await tool(mine.id, 2)).splitlines()) == 3


@pytest.mark.parametrize(("limit", "shown"), [(0, 1), (-1, 1), (1000, 2)])
async def test_the_limit_is_what_can_be_asked_of_a_database(shop: Shop, limit: int, shown: int) -> None:
    pipeline = await shop.pipeline()
    for _ in range(2):
        await shop.run_of(pipeline)
    found = await shop.database.run(history.recent_runs, shop.workspace, limit=limit)
    assert len(found) == shown


async def test_the_tool_cannot_write(shop: Shop) -> None:
    async def write(connection: object) -> None:
        await history.read_only(connection)  # type: ignore[arg-type]
        await connection.execute("DELETE FROM pipeline_runs")  # type: ignore[attr-defined]

    with pytest.raises(Exception, match="read-only transaction"):
        await shop.database.transact(write)


async def test_a_line_says_what_it_cost_and_why_it_failed(shop: Shop) -> None:
    shop.billing(ON)
    await shop.credit(PRICE)
    pipeline = await shop.pipeline()
    await shop.perform(pipeline)
    await shop.perform(pipeline)
    poor, paid = await shop.database.run(history.recent_runs, shop.workspace)
    assert (paid.charged_micros, paid.error, paid.crawls_succeeded) == (PRICE, None, 1)
    assert (poor.charged_micros, poor.error, poor.status) == (None, "out of crawl credit", "failed")


async def test_a_run_is_found_only_within_its_pipeline_and_workspace(shop: Shop) -> None:
    pipeline, other = await shop.pipeline(), await shop.pipeline()
    run = await shop.run_of(pipeline)
    assert await shop.database.run(history.run_within, shop.workspace, pipeline.id, run.id) == run
    for workspace, owner in ((shop.workspace, other.id), (shop.workspace + 1, pipeline.id)):
        with pytest.raises(RunNotFound):
            await shop.database.run(history.run_within, workspace, owner, run.id)


async def test_runs_and_items_come_in_pages(shop: Shop) -> None:
    shop.crawler.pages = {shop.urls(5)[4]: BROKEN}
    pipeline = await shop.pipeline(urls=shop.urls(5))
    done = [await shop.perform(pipeline) for _ in range(3)]
    page, total = await shop.database.run(history.runs_of, pipeline.id, limit=2, offset=1)
    assert ([run.id for run in page], total) == ([done[1].id, done[0].id], 3)
    assert all(run.status is RunStatus.SUCCEEDED for run in page)
    last = await shop.database.run(items.page_of, done[0].id, limit=2, offset=3)
    assert [(item.ordinal, item.outcome, item.http_status) for item in last] == [
        (3, "success", 200),
        (4, "failed", 500),
    ]
