"""What a completed window of enrichment means in the corpus flow: rows of its own transaction (``enrich.md`` 5.7)."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import pytest

from protocols.bwb.search import BwbHit
from protocols.enrichpayload import read_enrich_payload
from protocols.failures import BaseDrift, ContentFailure, LeaseLost
from protocols.lawstats import CapturedMarking, CapturedUntranslatable
from protocols.related import NeedsConfirmation, RelatedLimits, Resolved
from schema import agentcalls, enrich, enrichblobs
from schema.agentcalls import AgentCall, UsageKey
from schema.connection import Connection
from schema.enrich import CorpusOutcome, CostLimitReached, DirectoryBusy
from schema.enrichblobs import PartialWork
from schema.related import RelatedWish
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

PATH = "regulation/nl/wet/a/2025-01-01.yaml"
GAP = CapturedUntranslatable("2", "hardheidsclausule", "een mens weegt af", accepted=True)


async def claimed(rows: Rows, provider: str = "opencode", law_id: str = LAW, **more: Any) -> Job:
    payload = {"law_id": law_id, "yaml_path": PATH, "provider": provider, **more.pop("payload", {})}
    await rows.add(JobType.ENRICH, law_id, payload, **more)
    job = await rows.claimed(JobType.ENRICH, count_budget=False)
    await rows.queue.write(job.lease_held, enrich.begin)
    return job


async def complete(rows: Rows, job: Job, **more: Any) -> None:
    values: dict[str, Any] = {
        "payload": read_enrich_payload(job.payload),
        "provider": "opencode",
        "law_complete": True,
        "coverage": 0.5,
        **more,
    }
    outcome = CorpusOutcome(**values)
    await rows.queue.complete(
        job.lease_held, {"law_complete": outcome.law_complete}, partial(enrich.settle, outcome=outcome)
    )


async def pending(rows: Rows, law_id: str = LAW) -> list[Job]:
    return [job for job in await rows.jobs_of(law_id, JobType.ENRICH) if job.status is JobStatus.PENDING]


@pytest.mark.claim("S0-058", "S0-046", "S1-012")
async def test_a_window_that_leaves_something_makes_the_next_one_in_its_transaction(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    job = await claimed(rows, priority=37, payload={"depth": 1, "source_etag": "x", "restart": True})
    assert (await rows.law()).status is LawStatus.ENRICHING

    await complete(rows, job, law_complete=False, coverage=0.25)

    [following] = await pending(rows)
    assert following.payload == {"law_id": LAW, "yaml_path": PATH, "provider": "opencode", "depth": 1}
    assert (following.priority, following.attempts, following.max_attempts, following.scheduled_at) == (37, 0, 3, None)
    law = await rows.law()
    assert (law.status, law.coverage_score, law.enrich_job_id) == (LawStatus.ENRICHING, 0.25, following.id)
    assert await rows.database.run(_create_again, following) is None


async def _create_again(connection: Connection, job: Job) -> Job | None:
    from schema.queue.create import create_enrich_job_if_not_exists
    from schema.rows import JobRequest

    return await create_enrich_job_if_not_exists(
        connection, JobRequest(JobType.ENRICH, job.law_id, payload=job.payload)
    )


async def test_the_last_window_leaves_an_enriched_law_and_no_further_job(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVESTED)
    job = await claimed(rows)
    await rows.sql("UPDATE law_entries SET enrich_fail_count = 4")

    await complete(rows, job)

    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (LawStatus.ENRICHED, 0)
    assert await pending(rows) == []


@pytest.mark.claim("S0-059")
async def test_a_law_walks_to_its_end_through_the_queue(rows: Rows) -> None:
    job = await claimed(rows)
    for window in range(3):
        await complete(rows, job, law_complete=window == 2)
        if window < 2:
            job = await rows.claimed(JobType.ENRICH, count_budget=False)
            await rows.queue.write(job.lease_held, enrich.begin)

    assert [job.status for job in await rows.jobs_of(LAW, JobType.ENRICH)] == [JobStatus.COMPLETED] * 3
    assert (await rows.law()).status is LawStatus.ENRICHED


async def test_a_next_window_that_is_queued_already_is_accepted(rows: Rows) -> None:
    """A rival made it between the completion of this row and its own insert: the branch has the cursor for both."""
    job = await claimed(rows)
    outcome = CorpusOutcome(read_enrich_payload(job.payload), "opencode", False, 0.5)

    async def with_rival(connection: Connection, row: Job) -> None:
        assert await _create_again(connection, row) is not None
        await enrich.settle(connection, row, outcome)

    await rows.queue.complete(job.lease_held, {}, with_rival)

    assert (await rows.job(job.id)).status is JobStatus.COMPLETED
    assert len(await pending(rows)) == 1


async def test_completion_and_next_window_are_both_there_or_neither(rows: Rows) -> None:
    job = await claimed(rows)
    outcome = CorpusOutcome(read_enrich_payload(job.payload), "opencode", False, 0.5)

    async def dies(connection: Connection, row: Job) -> None:
        await enrich.settle(connection, row, outcome)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rows.queue.complete(job.lease_held, {}, dies)

    assert (await rows.job(job.id)).status is JobStatus.PROCESSING
    assert await pending(rows) == []


async def test_a_continuation_inherits_the_scope_of_a_traject(rows: Rows) -> None:
    job = await claimed(rows, traject_ref="proef-0d5b8f8e")

    await complete(rows, job, law_complete=False)

    [following] = await pending(rows)
    assert following.traject_ref == "proef-0d5b8f8e"


@pytest.mark.claim("S0-161")
async def test_gaps_of_this_provider_are_replaced_and_those_of_others_stay(rows: Rows) -> None:
    marking = CapturedMarking("3", "afronding", "operation", legal_text_excerpt="naar boven")
    first = await claimed(rows, "claude")
    await complete(rows, first, provider="claude", untranslatables=(GAP,), markings=(marking,))
    earlier = await claimed(rows)
    await complete(rows, earlier, untranslatables=(GAP, GAP), markings=(marking,))
    job = await claimed(rows)
    await complete(rows, job, untranslatables=(GAP, GAP), markings=(marking,))

    found = await rows.sql("SELECT provider, accepted, enrich_job_id FROM untranslatables ORDER BY provider")
    assert [row["provider"] for row in found] == ["claude", "opencode", "opencode"]
    assert all(row["accepted"] for row in found)
    assert {row["enrich_job_id"] for row in found} == {first.id, job.id}
    marked = await rows.sql("SELECT provider, article, kind, reason, excerpt FROM markings ORDER BY provider")
    assert [tuple(row.values()) for row in marked] == [
        ("claude", "3", "operation", "afronding", "naar boven"),
        ("opencode", "3", "operation", "afronding", "naar boven"),
    ]


async def test_a_table_of_markings_that_asks_for_more_is_left_alone(rows: Rows) -> None:
    await rows.sql("ALTER TABLE markings ADD COLUMN theirs text NOT NULL")
    job = await claimed(rows)

    await complete(rows, job, markings=(CapturedMarking("3", "x", "model"),))

    assert (await rows.job(job.id)).status is JobStatus.COMPLETED
    assert await rows.value("SELECT count(*) FROM markings") == 0


# --- what an attempt leaves for the next --------------------------------------------------------------------------------


async def test_partial_work_is_there_for_an_attempt_with_the_same_base_only(rows: Rows) -> None:
    job = await claimed(rows)
    work = PartialWork("abc", "articles: []\n", ("1", "2.10"))
    for saved in (PartialWork("old", "x", ()), work):
        await rows.queue.write(job.lease_held, partial(enrichblobs.save_partial, work=saved))

    assert await rows.database.run(enrichblobs.load_partial, job, "abc") == work
    assert await rows.database.run(enrichblobs.load_partial, job, "other") is None
    await rows.queue.hand_back(job.lease_held, why="drain")
    again = await rows.claimed(JobType.ENRICH, count_budget=False)
    assert await rows.database.run(enrichblobs.load_partial, again, "abc") == work
    await rows.queue.write(again.lease_held, enrich.begin)
    await complete(rows, again)
    assert await rows.database.run(enrichblobs.load_partial, again, "abc") is None


async def test_a_claim_that_is_lost_leaves_no_partial_work(rows: Rows) -> None:
    job = await claimed(rows)
    await rows.foreign_reap(job.id)

    with pytest.raises(LeaseLost):
        await rows.queue.write(job.lease_held, partial(enrichblobs.save_partial, work=PartialWork("a", "b", ())))
    assert await rows.value("SELECT count(*) FROM job_blobs") == 0


async def test_a_result_that_waits_for_its_completion_reads_back(rows: Rows) -> None:
    job = await claimed(rows)
    document = {"law_complete": True, "usage": {"input_tokens": 12}, "tekst": "é\u2028"}
    await rows.queue.write(job.lease_held, partial(enrichblobs.save_pending_result, document=document))

    assert await rows.database.run(enrichblobs.load_pending_result, job) == document


# --- failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S1-013")
async def test_hopeless_content_exhausts_the_law_in_one_step_and_a_rivals_success_stays(rows: Rows) -> None:
    """EN-01"""
    await rows.set_law(LawStatus.HARVESTED)
    job = await claimed(rows)
    await rows.queue.fail(job.lease_held, ContentFailure("the agent wrote no machine_readable sections"))
    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (LawStatus.ENRICH_EXHAUSTED, 0)
    assert await pending(rows) == []

    await rows.set_law(LawStatus.ENRICHED, OTHER_LAW)
    other = await claimed(rows, law_id=OTHER_LAW)
    await rows.queue.fail(other.lease_held, ContentFailure("no machine_readable sections"))
    assert (await rows.law(OTHER_LAW)).status is LawStatus.ENRICHED


async def test_base_drift_waits_for_a_person(rows: Rows) -> None:
    """D55"""
    await rows.set_law(LawStatus.HARVESTED)
    job = await claimed(rows)
    await rows.queue.fail(job.lease_held, BaseDrift("the base changed", path=PATH))

    law = await rows.law()
    assert (law.status, law.enrich_fail_count) == (LawStatus.ENRICH_FAILED, 0)
    assert (await rows.job(job.id)).result["kind"] == "base_drift"
    assert await pending(rows) == []


# --- one at a time, and what it may cost ------------------------------------------------------------------------------


async def test_two_laws_in_one_folder_are_not_enriched_by_one_provider_at_once(rows: Rows) -> None:
    """D53: the register knows the law under two ids."""
    first = await claimed(rows)
    second = await claimed(rows, law_id="wet_a")
    third = await claimed(rows, "claude", law_id="wet_a")
    reserve = partial(enrich.reserve_directory, directory="regulation/nl/wet/a")

    await rows.queue.write(first.lease_held, partial(reserve, provider="opencode"))
    with pytest.raises(DirectoryBusy):
        await rows.queue.write(second.lease_held, partial(reserve, provider="opencode"))
    await rows.queue.write(third.lease_held, partial(reserve, provider="claude"))
    await complete(rows, first)
    await rows.queue.write(second.lease_held, partial(reserve, provider="opencode"))


def call(seq: int, **more: Any) -> AgentCall:
    at = dt.datetime(2026, 3, 1, 12, 59, tzinfo=dt.UTC)
    return AgentCall(seq, "claude", "translate", at, at + dt.timedelta(minutes=seq), "ok", **more)


async def test_each_call_of_an_agent_is_booked_once(rows: Rows) -> None:
    """D54"""
    job = await claimed(rows)
    for seq in (0, 1, 1):
        booked = call(seq, model="m", input_tokens=10, output_tokens=2**40, usage_complete=True, cost_millicents=7)
        await rows.queue.write(job.lease_held, partial(agentcalls.record_call, call=booked))
    await rows.queue.write(job.lease_held, partial(agentcalls.record_call, call=call(2)))

    [line] = await rows.database.run(agentcalls.usage_by, UsageKey.LAW)
    assert (line.key, line.calls, line.input_tokens, line.output_tokens) == (LAW, 3, 20, 2**41)
    assert (line.cost_millicents, line.incomplete) == (14, 1)
    hours = await rows.database.run(agentcalls.usage_by, UsageKey.HOUR)
    assert [(line.key, line.calls) for line in hours] == [("2026-03-01T12:00Z", 1), ("2026-03-01T13:00Z", 2)]
    since = dt.datetime(2026, 3, 1, 13, 0, 30, tzinfo=dt.UTC)
    assert [line.calls for line in await rows.database.run(agentcalls.usage_by, UsageKey.PROVIDER, since)] == [1]
    assert await rows.database.run(agentcalls.cost_of_law, LAW) == 14


async def test_a_law_that_cost_its_limit_is_not_begun_again(rows: Rows) -> None:
    job = await claimed(rows)
    await rows.queue.write(job.lease_held, partial(agentcalls.record_call, call=call(0, cost_millicents=100_000)))

    await rows.database.run(enrich.check_cost, job, 0)
    await rows.database.run(enrich.check_cost, job, 100_001)
    with pytest.raises(CostLimitReached, match=r"has cost \$1\.00"):
        await rows.database.run(enrich.check_cost, job, 100_000)


# --- related laws -------------------------------------------------------------------------------------------------------


def wish(ids: list[str], *, depth: int = 0, **limits: int) -> RelatedWish:
    return RelatedWish(
        tuple(Resolved(bwb_id, "id") for bwb_id in ids), depth, RelatedLimits(**limits), {"total": len(ids)}
    )


def bwb(number: int) -> str:
    return f"BWBR{number:07}"


@pytest.mark.claim("S0-039", "S0-040")
async def test_related_laws_are_harvested_one_step_deeper_with_falling_priority(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVEST_EXHAUSTED, bwb(4))
    await rows.add(law_id=bwb(5))
    job = await claimed(rows)

    await complete(rows, job, related=wish([bwb(3), bwb(4), bwb(5), LAW, bwb(3)], depth=1))

    [made] = await rows.jobs_of(bwb(3))
    assert (made.priority, made.payload) == (38, {"bwb_id": bwb(3), "depth": 2})
    assert await rows.jobs_of(bwb(4)) == []
    assert len(await rows.jobs_of(bwb(5))) == 1
    [known] = await rows.sql("SELECT source_law_id, law_id, enrich_job_id, harvest_job_id FROM related_harvests")
    assert tuple(known.values()) == (LAW, bwb(3), job.id, made.id)


@pytest.mark.claim("S0-041")
async def test_one_job_and_one_law_bring_in_no_more_than_their_limits(rows: Rows) -> None:
    """D60"""
    first = await claimed(rows)
    await complete(rows, first, related=wish([bwb(n) for n in range(10, 20)], max_per_job=4, max_per_law=6))
    assert await rows.value("SELECT count(*) FROM jobs WHERE job_type = 'harvest'") == 4

    second = await claimed(rows)
    await complete(rows, second, related=wish([bwb(n) for n in range(20, 30)], max_per_job=4, max_per_law=6))
    assert await rows.value("SELECT count(*) FROM jobs WHERE job_type = 'harvest'") == 6


async def test_trouble_with_related_laws_costs_nothing_else(rows: Rows) -> None:
    await rows.sql("DROP TABLE related_harvests")
    job = await claimed(rows)
    unclear = NeedsConfirmation((BwbHit(bwb(7), "Wet", ""),))
    named = RelatedWish((Resolved(bwb(3), "id"), unclear), 0, RelatedLimits(), {})

    await complete(rows, job, related=named)

    assert (await rows.job(job.id)).status is JobStatus.COMPLETED
    assert (await rows.law()).status is LawStatus.ENRICHED
