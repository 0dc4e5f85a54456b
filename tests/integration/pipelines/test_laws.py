"""Pipelines over laws: which laws, in which order, and that a nightly refresh does no harm."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import trio

from protocols.connectors import BWB_LAWS
from protocols.failures import InvalidInput
from protocols.payloads import Change, HarvestResult, read_harvest_payload
from protocols.runs import ItemOutcome, RunStatus
from schema import harvest, laws
from schema.harvest import HarvestRules
from schema.pipelines import history, lawruns, manage
from schema.pipelines.rows import Pipeline
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.pipelines import ON, Shop

LAW, OTHER, THIRD = "BWBR0000001", "BWBR0000002", "BWBR0000003"


async def over(shop: Shop, *, own: dict[str, Any] | None = None, **config: Any) -> Pipeline:
    connector = await shop.connector(kind=BWB_LAWS, config=config)
    return await shop.pipeline(connector, config=own or {})


async def harvested(shop: Shop, law_id: str, *, days: float, status: LawStatus = LawStatus.HARVESTED) -> None:
    """A law that was harvested so many days ago."""
    await shop.rows.set_law(status, law_id)
    job = await shop.rows.add(law_id=law_id)
    await shop.rows.sql(
        "UPDATE jobs SET status = 'completed', completed_at = now() - $2 * interval '1 day' WHERE id = $1", job.id, days
    )


async def queued(shop: Shop, *law_ids: str) -> list[Job]:
    """The pending harvests of these laws, in order."""
    found = []
    for law_id in law_ids:
        found += [job for job in await shop.rows.jobs_of(law_id) if job.status is JobStatus.PENDING]
    return found


async def outcomes(shop: Shop, run_id: int) -> dict[str, tuple[str | None, str | None]]:
    return {item.target: (item.outcome, item.error) for item in await shop.items(run_id)}


async def test_listed_laws_are_queued_below_everything_that_people_ask_for(shop: Shop) -> None:
    shop.billing(ON)
    pipeline = await over(shop, LAW_IDS=[LAW, OTHER, "CVDR100394"])
    done = await shop.perform(pipeline)
    assert done.status is RunStatus.SUCCEEDED
    assert (done.crawls_attempted, done.crawls_succeeded, done.charged_micros) == (None, None, None)
    assert (done.documents_indexed, done.unit_price_micros) == (0, None)
    assert done.summary == {"laws": 3, "enqueued": 3, "failed": 0, "skipped": {}}
    jobs = await queued(shop, LAW, OTHER, "CVDR100394")
    assert [job.priority for job in jobs] == [20, 20, 20]
    for job in jobs:
        payload = read_harvest_payload(job.payload, job.law_id)
        assert (payload.no_follow, payload.refresh, payload.follows) == (True, True, False)
    starts = [None if job.scheduled_at is None else job.scheduled_at for job in jobs]
    gaps = [(late - early).total_seconds() for early, late in pairwise(starts) if early and late]
    assert all(1.5 < gap < 10 for gap in gaps)
    assert [item.job_id for item in await shop.items(done.id)] == [job.id for job in jobs]
    assert await shop.leases() == 0
    assert await shop.usage() == []
    assert await shop.imbalances() == []


async def test_progress_counts_the_last_law_too(shop: Shop) -> None:
    await shop.run_of(await over(shop, LAW_IDS=[LAW, OTHER]))
    work = await shop.claimed()
    await shop.handler().run(work)
    assert [report["done"] for report in work.reports if report.get("phase") == "laws"] == [0, 1, 2]
    assert work.reports[-1] == {"phase": "laws", "done": 2, "total": 2}


async def test_what_cannot_be_harvested_now_is_left_out_with_its_reason(shop: Shop) -> None:
    await shop.rows.set_law(LawStatus.HARVEST_EXHAUSTED, "BWBR0000010")
    await shop.rows.set_law(LawStatus.NOT_HARVESTABLE, "BWBR0000011")
    waiting = await shop.rows.add(law_id="BWBR0000012", delay_s=3600, priority=80)
    await harvested(shop, "BWBR0000013", days=1, status=LawStatus.ENRICHING)
    await shop.rows.enrich(law_id="BWBR0000013")
    pipeline = await over(shop, LAW_IDS=[f"BWBR00000{n}" for n in range(10, 15)] + ["geen wet", 7, "BWBR0000014"])
    done = await shop.perform(pipeline)
    assert done.summary == {
        "laws": 6, "enqueued": 1, "failed": 1,
        "skipped": {"already queued": 1, "an enrichment is queued or running": 1, "not harvestable": 1, "harvest exhausted": 1},
    }  # fmt: skip
    found = await outcomes(shop, done.id)
    assert found["BWBR0000014"] == (ItemOutcome.SUCCESS, None)
    assert found["geen wet"][0] is ItemOutcome.FAILED
    again = await shop.rows.job(waiting.id)
    assert (again.priority, again.scheduled_at) == (80, waiting.scheduled_at)
    assert (await shop.rows.law("BWBR0000013")).status is LawStatus.ENRICHING
    assert (await shop.rows.law("BWBR0000010")).status is LawStatus.HARVEST_EXHAUSTED


async def test_above_the_cap_the_oldest_harvests_go_first_and_the_next_fire_goes_on(shop: Shop) -> None:
    for number in range(1, 8):
        await harvested(shop, f"BWBR000000{number}", days=number)
    await shop.rows.set_law(LawStatus.HARVEST_EXHAUSTED, "BWBR0000009")
    pipeline = await over(shop, SELECT="all_harvested", MAX_LAWS_PER_FIRE=3)
    seen = []
    for _ in range(3):
        done = await shop.perform(pipeline)
        seen.append([item.target for item in await shop.items(done.id) if item.outcome is ItemOutcome.SUCCESS])
    assert seen == [
        ["BWBR0000007", "BWBR0000006", "BWBR0000005"],
        ["BWBR0000004", "BWBR0000003", "BWBR0000002"],
        ["BWBR0000001"],
    ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"SELECT": "stale", "MAX_AGE_DAYS": 10}, [OTHER]),
        ({"SELECT": "stale"}, []),
        ({"SELECT": "all_harvested"}, [OTHER, LAW]),
        ({"SELECT": "failed"}, [THIRD]),
        ({"LAW_IDS": f"{LAW}\n\n {LAW} \n"}, [LAW]),
        ({"LAW_IDS": []}, []),
        ({"SELECT": "all_harvested", "INCLUDE_NOT_HARVESTABLE": True}, [OTHER, LAW, "BWBR0000004"]),
    ],
)
async def test_the_selection_is_what_the_configuration_says(
    shop: Shop, config: dict[str, Any], expected: list[str]
) -> None:
    await harvested(shop, LAW, days=5)
    await harvested(shop, OTHER, days=20)
    await shop.rows.set_law(LawStatus.HARVEST_FAILED, THIRD)
    await harvested(shop, "BWBR0000004", days=1, status=LawStatus.NOT_HARVESTABLE)
    done = await shop.perform(await over(shop, **config))
    if expected:
        assert [item.target for item in await shop.items(done.id)] == expected
        assert done.status is RunStatus.SUCCEEDED
    else:
        assert done.error == {"code": "no_laws", "message": "no laws to harvest"}


async def test_the_pipeline_overrides_its_connector_key_by_key_with_what_is_not_empty(shop: Shop) -> None:
    pipeline = await over(shop, LAW_IDS=[LAW], PRIORITY=5, own={"LAW_IDS": [], "PRIORITY": 11, "DATE": ""})
    await shop.perform(pipeline)
    [job] = await queued(shop, LAW)
    assert job.priority == 11
    assert read_harvest_payload(job.payload, LAW).date is None


@pytest.mark.parametrize(
    "config",
    [
        {"SELECT": "everything"},
        {"PRIORITY": 101},
        {"PRIORITY": "20"},
        {"MAX_LAWS_PER_FIRE": -1},
        {"DATE": "2026-13-01"},
        {"DATE": "2999-01-01"},
        {"DATE": 7},
        {"FOLLOW_REFERENCES": "yes"},
    ],
)
async def test_a_configuration_that_cannot_be_used_is_refused_and_one_that_got_there_fails_the_run_with_the_reason(
    shop: Shop, config: dict[str, Any]
) -> None:
    pipeline = await over(shop, LAW_IDS=[LAW])
    assert pipeline.connector_id is not None
    for change in (
        partial(over, shop, LAW_IDS=[LAW], **config),
        partial(over, shop, LAW_IDS=[LAW], own=config),
        partial(shop.database.transact, manage.update_pipeline, pipeline.id, {"config": config}),
        partial(shop.database.transact, manage.update_connector, pipeline.connector_id, {"config": config}),
    ):
        with pytest.raises(InvalidInput, match="configuration of the law pipeline"):
            await change()
    await shop.rows.sql("UPDATE pipelines SET config = $2::text::jsonb WHERE id = $1", pipeline.id, json.dumps(config))
    await shop.database.transact(manage.update_pipeline, pipeline.id, {"name": "A name can be changed all the same"})
    done = await shop.perform(pipeline)
    assert done.error is not None
    assert done.error["code"] == "invalid_config"
    assert await queued(shop, LAW) == []


async def test_a_date_and_references_are_passed_on_when_they_are_asked_for(shop: Shop) -> None:
    await shop.perform(await over(shop, LAW_IDS=[LAW], DATE="2020-01-01", FOLLOW_REFERENCES=True))
    [job] = await queued(shop, LAW)
    payload = read_harvest_payload(job.payload, LAW)
    assert (payload.date, payload.follows) == ("2020-01-01", True)


async def end_harvest(shop: Shop, change: Change, *, auto: bool = False) -> None:
    """Claim the refresh of ``LAW`` and complete it as the harvest job does."""
    await shop.rows.sql("UPDATE jobs SET scheduled_at = NULL WHERE job_type = 'harvest'")
    job = await shop.rows.claimed(JobType.HARVEST)
    await shop.rows.queue.write(job.lease_held, harvest.begin)
    result = HarvestResult(
        "Wet", "wet", "WET", "regulation/nl/wet/wet/2020-01-01.yaml", "2020-01-01", change=change,
        referenced_bwb_ids=(OTHER,), source_sha256="a" * 64, content_sha256="b" * 64,
    )  # fmt: skip

    async def settle(connection: Any, row: Job) -> None:
        payload = read_harvest_payload(row.payload, row.law_id)
        await harvest.settle(connection, row, payload=payload, result=result, rules=HarvestRules(auto_enrich=auto))

    document = {"changed": change is not Change.NONE}
    await shop.rows.queue.complete(job.lease_held, document, settle)


@pytest.mark.parametrize("status", [LawStatus.ENRICHED, LawStatus.ENRICH_FAILED, LawStatus.HARVESTED])
async def test_a_refresh_that_changes_nothing_leaves_the_law_as_it_was(shop: Shop, status: LawStatus) -> None:
    # D14
    await harvested(shop, LAW, days=3, status=status)
    done = await shop.perform(await over(shop, LAW_IDS=[LAW]))
    assert (await shop.rows.law(LAW)).status is status
    await end_harvest(shop, Change.NONE, auto=True)
    assert (await shop.rows.law(LAW)).status is status
    assert await shop.rows.jobs_of(LAW, JobType.ENRICH) == []
    assert await shop.rows.jobs_of(OTHER) == []
    children = await shop.database.run(history.children_of, done.id)
    assert (children.completed, children.changed, children.pending) == (1, 0, 0)


async def test_a_refresh_that_changes_the_text_is_enriched_after_everything_else(shop: Shop) -> None:
    # D73
    await harvested(shop, LAW, days=3, status=LawStatus.ENRICHED)
    done = await shop.perform(await over(shop, LAW_IDS=[LAW]))
    await end_harvest(shop, Change.TEXT, auto=True)
    assert (await shop.rows.law(LAW)).status is LawStatus.HARVESTED
    assert {job.priority for job in await shop.rows.jobs_of(LAW, JobType.ENRICH)} == {10}
    assert await shop.rows.jobs_of(OTHER) == []
    assert (await shop.database.run(history.children_of, done.id)).changed == 1


async def test_a_law_that_nobody_knew_becomes_queued(shop: Shop) -> None:
    await shop.perform(await over(shop, LAW_IDS=[LAW]))
    assert (await shop.rows.law(LAW)).status is LawStatus.QUEUED


async def test_a_run_over_laws_that_lost_its_worker_goes_on_where_it_stopped(shop: Shop) -> None:
    run = await shop.run_of(await over(shop, LAW_IDS=[LAW, OTHER, THIRD]))
    work = await shop.claimed()
    with trio.CancelScope() as process:

        async def die(number: int) -> None:
            if number == 6:  # begin, choose, leases, preflight, one law
                process.cancel()
                await trio.lowlevel.checkpoint()

        work.before_write = die
        await shop.handler().run(work)
    assert len(await queued(shop, LAW, OTHER, THIRD)) == 1
    await shop.lose_worker(work)
    done = await shop.drive(run)
    assert done.summary is not None
    assert (done.summary["enqueued"], done.summary["skipped"]) == (3, {})
    assert len(await queued(shop, LAW, OTHER, THIRD)) == 3


async def test_a_law_whose_request_raises_is_that_laws_failure(shop: Shop) -> None:
    await shop.rows.sql(f"ALTER TABLE jobs ADD CONSTRAINT poison CHECK (law_id <> '{OTHER}') NOT VALID")
    done = await shop.perform(await over(shop, LAW_IDS=[LAW, OTHER, THIRD]))
    assert done.summary == {"laws": 3, "enqueued": 2, "failed": 1, "skipped": {}}


async def test_the_ready_made_pipeline_harvests_every_law_again_at_night(shop: Shop) -> None:
    made = await shop.database.transact(lawruns.create_daily_reharvest, shop.workspace, shop.owner)
    assert (made.name, made.schedule_cron, made.schedule_timezone) == (
        "Dagelijkse herharvest",
        "15 3 * * *",
        "Europe/Amsterdam",
    )
    assert made.enabled
    await harvested(shop, LAW, days=1)
    done = await shop.perform(made)
    assert done.summary == {"laws": 1, "enqueued": 1, "failed": 0, "skipped": {}}
    with pytest.raises(InvalidInput, match="there already"):
        await shop.database.transact(lawruns.create_daily_reharvest, shop.workspace, shop.owner)


async def test_runs_are_no_laws_to_anybody_who_counts_laws(shop: Shop) -> None:
    # D73
    pipeline = await shop.pipeline(save_to_kb=True)
    await shop.perform(pipeline)
    await shop.index(await shop.connector())
    assert await shop.database.run(laws.list_laws) == []
    kinds = await shop.rows.sql("SELECT law_id FROM jobs ORDER BY law_id")
    assert [row["law_id"].partition(":")[0] for row in kinds] == ["connector", "pipeline"]
