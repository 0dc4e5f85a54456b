"""What a completed harvest means: law, versions, enrich jobs, follow-ups, all in its own transaction (D14, D15)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from protocols.failures import JobCancelled, LawUnknown, Permanent, Transient
from protocols.payloads import Change, HarvestPayload, HarvestResult, read_harvest_payload, to_document
from schema import harvest, laws, queue, requests
from schema.connection import Connection
from schema.harvest import HarvestRules, HarvestVersion
from schema.requests import Created, HarvestRequest
from schema.rows import Job, JobStatus, JobType, LawStatus
from tests.kit.jobrows import LAW, OTHER_LAW, Rows

ENRICHES = HarvestRules(auto_enrich=True)
PATH = "regulation/nl/wet/zorgtoeslag/2025-01-01.yaml"


def result(**more: Any) -> HarvestResult:
    values = {
        "law_name": "Wet op de zorgtoeslag",
        "slug": "wet_op_de_zorgtoeslag",
        "layer": "WET",
        "file_path": PATH,
        "harvest_date": "2025-01-01",
        "source_sha256": "s1",
        "content_sha256": "c1",
    }
    return HarvestResult(**{**values, **more})


async def run(
    rows: Rows,
    found: HarvestResult,
    rules: HarvestRules = HarvestRules(),  # noqa: B008
    *,
    law_id: str = LAW,
    payload: dict[str, Any] | None = None,
    moved_from: str | None = None,
) -> Job:
    await rows.add(law_id=law_id, payload=payload)
    job = next(job for job in (await rows.claim(slots=100)).jobs if job.law_id == law_id)
    await rows.queue.write(job.lease_held, harvest.begin)
    settle = partial(
        harvest.settle,
        payload=read_harvest_payload(job.payload, law_id),
        result=found,
        rules=rules,
        moved_from=moved_from,
    )
    await rows.queue.complete(job.lease_held, to_document(found), settle)
    return await rows.job(job.id)


@pytest.mark.claim("S1-010", "S1-021", "S1-005")
async def test_a_harvest_with_new_text_settles_everything_at_once(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVEST_FAILED)
    await rows.database.run(laws.increment_fail_count, LAW, laws.FailKind.HARVEST)
    job = await run(rows, result())
    assert (job.status, job.result["change"], job.result["changed"]) == (JobStatus.COMPLETED, "text", True)
    law = await rows.law()
    assert (law.status, law.law_name, law.slug) == (
        LawStatus.HARVESTED,
        "Wet op de zorgtoeslag",
        "wet_op_de_zorgtoeslag",
    )
    assert (law.harvest_fail_count, law.harvest_job_id) == (0, job.id)
    assert await rows.database.run(harvest.known_versions, LAW) == {PATH: HarvestVersion("s1", "c1")}


async def test_a_second_harvest_replaces_the_version_of_its_file(rows: Rows) -> None:
    await run(rows, result())
    job = await run(rows, result(source_sha256="s2", content_sha256="c2"))
    assert await rows.database.run(harvest.known_versions, LAW) == {PATH: HarvestVersion("s2", "c2")}
    assert await rows.value("SELECT job_id FROM harvest_versions") == job.id
    await rows.sql("DELETE FROM jobs")
    assert PATH in await rows.database.run(harvest.known_versions, LAW)


async def test_the_files_of_a_law_are_told_newest_first(rows: Rows) -> None:
    for path in ("b.yaml", "a.yaml", "c.yaml"):
        await run(rows, result(file_path=path))
    await run(rows, result(file_path="a.yaml", content_sha256="c2"))
    assert list(await rows.database.run(harvest.known_versions, LAW)) == ["a.yaml", "c.yaml", "b.yaml"]
    assert await rows.database.run(harvest.known_versions, "BWBR0000404") == {}


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (LawStatus.ENRICHED, Change.TEXT, LawStatus.HARVESTED),
        (LawStatus.ENRICHED, Change.NONE, LawStatus.ENRICHED),
        (LawStatus.ENRICHED, Change.CONVERTER, LawStatus.ENRICHED),
        (LawStatus.ENRICH_FAILED, Change.NONE, LawStatus.ENRICH_FAILED),
        (LawStatus.ENRICH_EXHAUSTED, Change.NONE, LawStatus.ENRICH_EXHAUSTED),
        (LawStatus.ENRICH_EXHAUSTED, Change.TEXT, LawStatus.HARVESTED),
        (LawStatus.HARVESTED, Change.NONE, LawStatus.HARVESTED),
        (LawStatus.HARVEST_FAILED, Change.NONE, LawStatus.HARVESTED),
        (LawStatus.NOT_HARVESTABLE, Change.NONE, LawStatus.HARVESTED),
        (LawStatus.UNKNOWN, Change.NONE, LawStatus.HARVESTED),
    ],
)
async def test_a_re_harvest_takes_an_enrichment_back_only_when_the_text_changed(  # queue.md Q3
    rows: Rows, before: LawStatus, change: Change, after: LawStatus
) -> None:
    await rows.set_law(before)
    await run(rows, result(change=change, changed=change is not Change.NONE))
    law = await rows.law()
    assert law.status is after
    assert (law.enrich_exhausted_at is not None) is (before is LawStatus.ENRICH_EXHAUSTED)


async def harvests_fail_for_good(rows: Rows) -> None:
    """A harvest that nobody asks for a second time: the law is left as harvest_failed."""
    await rows.add()
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.queue.fail(job.lease_held, Permanent("another law stands there"))
    assert (await rows.law()).status is LawStatus.HARVEST_FAILED


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (LawStatus.ENRICHED, Change.NONE, LawStatus.ENRICHED),
        (LawStatus.ENRICHED, Change.CONVERTER, LawStatus.ENRICHED),
        (LawStatus.ENRICH_FAILED, Change.NONE, LawStatus.ENRICH_FAILED),
        (LawStatus.ENRICH_EXHAUSTED, Change.NONE, LawStatus.ENRICH_EXHAUSTED),
        (LawStatus.ENRICHED, Change.TEXT, LawStatus.HARVESTED),
        (LawStatus.HARVESTED, Change.NONE, LawStatus.HARVESTED),
    ],
)
async def test_a_law_whose_harvest_failed_in_between_is_as_enriched_as_before_when_its_text_is_the_same(
    rows: Rows, before: LawStatus, change: Change, after: LawStatus
) -> None:  # D14
    await rows.set_law(before)
    await harvests_fail_for_good(rows)
    await harvests_fail_for_good(rows)
    await run(rows, result(change=change, changed=change is not Change.NONE))
    assert (await rows.law()).status is after


async def test_an_enrichment_of_an_older_text_does_not_come_back(rows: Rows) -> None:  # D14
    await rows.set_law(LawStatus.ENRICHED)
    await run(rows, result())
    await harvests_fail_for_good(rows)
    await run(rows, result(change=Change.NONE, changed=False))
    assert (await rows.law()).status is LawStatus.HARVESTED


async def test_what_is_cancelled_after_a_failed_harvest_leaves_the_failure_to_be_seen(rows: Rows) -> None:  # D14
    await rows.set_law(LawStatus.ENRICHED)
    await harvests_fail_for_good(rows)
    await rows.add()
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)
    await rows.queue.fail(job.lease_held, JobCancelled("cancelled by a person"))
    assert (await rows.law()).status is LawStatus.HARVEST_FAILED


async def test_two_laws_of_one_title_are_both_harvested_and_the_first_keeps_the_slug(rows: Rows) -> None:
    await run(rows, result())
    job = await run(rows, result(file_path="x.yaml"), law_id=OTHER_LAW)
    assert job.status is JobStatus.COMPLETED
    law = await rows.law(OTHER_LAW)
    assert (law.status, law.law_name, law.slug) == (LawStatus.HARVESTED, "Wet op de zorgtoeslag", None)


# --- Auto-enrich ------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-032", "S0-033", "S1-053")
async def test_enrich_jobs_are_made_one_per_provider_and_only_when_switched_on(rows: Rows) -> None:
    await run(rows, result())
    assert await rows.jobs_of(LAW, JobType.ENRICH) == []
    await run(rows, result(), ENRICHES)
    jobs = await rows.jobs_of(LAW, JobType.ENRICH)
    assert {job.payload["provider"]: job.payload for job in jobs} == {
        provider: {"law_id": LAW, "yaml_path": PATH, "provider": provider} for provider in ("opencode", "claude")
    }
    linked = (await rows.law()).enrich_job_id
    assert linked == next(job.id for job in jobs if job.payload["provider"] == "claude")  # the last one made
    await run(rows, result(), ENRICHES)
    assert len(await rows.jobs_of(LAW, JobType.ENRICH)) == 2


@pytest.mark.claim("S1-050", "S1-051")
@pytest.mark.parametrize(("depth", "priority"), [(None, 50), (0, 50), (1, 10), (7, 10)])
async def test_the_enrich_jobs_of_found_laws_wait_behind_those_of_asked_ones(
    rows: Rows, depth: int | None, priority: int
) -> None:
    payload = {"bwb_id": LAW, **({} if depth is None else {"depth": depth})}
    await run(rows, result(), ENRICHES, payload=payload)
    jobs = await rows.jobs_of(LAW, JobType.ENRICH)
    assert {job.priority for job in jobs} == {priority}
    assert {job.payload.get("depth") for job in jobs} == {depth}


@pytest.mark.claim("S1-054")
@pytest.mark.parametrize("change", [Change.NONE, Change.CONVERTER])
async def test_what_did_not_change_in_text_is_not_enriched_again(rows: Rows, change: Change) -> None:
    await run(rows, result(change=change), ENRICHES)
    assert await rows.jobs_of(LAW, JobType.ENRICH) == []


@pytest.mark.claim("S0-034", "S1-055")
async def test_an_exhausted_law_is_not_enriched_by_itself_even_after_a_change(rows: Rows) -> None:
    await rows.set_law(LawStatus.ENRICH_EXHAUSTED)
    await run(rows, result(), ENRICHES)
    assert await rows.jobs_of(LAW, JobType.ENRICH) == []
    await rows.database.run(laws.reset_exhausted, LAW, laws.FailKind.ENRICH)
    await run(rows, result(), ENRICHES)
    assert len(await rows.jobs_of(LAW, JobType.ENRICH)) == 2


# --- Follow-ups -------------------------------------------------------------------------------------------------------


def cites(*numbers: int) -> tuple[str, ...]:
    return tuple(f"BWBR{number:07}" for number in numbers)


@pytest.mark.claim("S0-035", "S0-036", "S1-047")
async def test_the_laws_that_a_text_cites_are_queued_one_step_deeper(rows: Rows) -> None:
    asked = {"bwb_id": LAW, "date": "2024-06-01", "max_size_mb": 200, "depth": 4}
    await run(rows, result(referenced_bwb_ids=(*cites(90, 91), LAW, "BWBV0001506", "x\x00")), payload=asked)
    for law_id in cites(90, 91):
        [job] = await rows.jobs_of(law_id)
        assert (job.status, job.priority, job.max_attempts) == (JobStatus.PENDING, 30, 3)
        assert job.payload == {"bwb_id": law_id, "date": "2024-06-01", "max_size_mb": 200, "depth": 5}
    assert await rows.value("SELECT count(*) FROM jobs WHERE status = 'pending'") == 2
    assert await rows.value("SELECT count(*) FROM law_entries") == 1  # a merely cited law has no entry yet


@pytest.mark.claim("S0-037")
@pytest.mark.parametrize(
    ("payload", "follows"),
    [
        ({}, True),
        ({"depth": 999}, True),
        ({"depth": 1000}, False),
        ({"no_follow": True}, False),
        ({"max_depth": 0}, False),
        ({"max_depth": 2, "depth": 1}, True),
        ({"max_depth": 2, "depth": 2}, False),
        ({"max_depth": 5000, "depth": 1000}, False),
    ],
)
async def test_a_chain_ends_at_its_limit(rows: Rows, payload: dict[str, Any], follows: bool) -> None:  # D26
    await run(rows, result(referenced_bwb_ids=cites(90)), payload={"bwb_id": LAW, **payload})
    jobs = await rows.jobs_of("BWBR0000090")
    assert len(jobs) == int(follows)
    if follows:
        assert jobs[0].payload.get("max_depth") == payload.get("max_depth")


@pytest.mark.parametrize(("change", "follows"), [(Change.TEXT, 1), (Change.CONVERTER, 1), (Change.NONE, 0)])
async def test_an_unchanged_law_has_nothing_new_to_follow(rows: Rows, change: Change, follows: int) -> None:
    await run(rows, result(change=change, referenced_bwb_ids=cites(90)))
    assert len(await rows.jobs_of("BWBR0000090")) == follows


@pytest.mark.claim("S1-007")
async def test_harvested_queued_running_and_exhausted_laws_are_not_followed(rows: Rows) -> None:
    await rows.set_law(LawStatus.HARVEST_EXHAUSTED, "BWBR0000090")
    await rows.set_law(LawStatus.ENRICHED, "BWBR0000091")  # by its entry: its job rows were pruned
    for law_id, status in (("BWBR0000092", "completed"), ("BWBR0000093", "pending"), ("BWBR0000094", "processing")):
        await rows.sql(
            "INSERT INTO jobs (job_type, law_id, status) VALUES ('harvest', $1, $2::text::job_status)", law_id, status
        )
    await rows.set_law(LawStatus.HARVEST_FAILED, "BWBR0000095")
    await rows.sql("INSERT INTO jobs (job_type, law_id, status) VALUES ('harvest', 'BWBR0000095', 'failed')")
    before = {row["id"] for row in await rows.sql("SELECT id FROM jobs")}
    job = await run(rows, result(referenced_bwb_ids=cites(90, 91, 92, 93, 94, 95)))
    made = await rows.sql("SELECT law_id FROM jobs WHERE id <> ALL ($1::uuid[])", [*before, job.id])
    assert [row["law_id"] for row in made] == ["BWBR0000095"]


async def test_a_law_that_the_repository_does_not_know_is_asked_for_once_a_day_however_many_texts_cite_it(
    rows: Rows,
) -> None:  # D15, D35
    await run(rows, result(referenced_bwb_ids=cites(90)))
    job = await rows.claimed()
    await rows.queue.fail(job.lease_held, LawUnknown("BWBR0000090 is not in the repository"))
    await run(rows, result(slug="b", file_path="b.yaml", referenced_bwb_ids=cites(90)), law_id=OTHER_LAW)
    assert [job.status for job in await rows.jobs_of("BWBR0000090")] == [JobStatus.FAILED]
    asked = await rows.database.transact(requests.request_harvest, HarvestRequest("BWBR0000090"))
    assert isinstance(asked, Created)  # a person is not refused
    await rows.sql("DELETE FROM jobs WHERE id = $1", asked.job.id)
    await rows.sql("UPDATE jobs SET completed_at = now() - interval '25 hours' WHERE status = 'failed'")
    await run(rows, result(slug="c", file_path="c.yaml", referenced_bwb_ids=cites(90)), law_id="BWBR0000003")
    assert [job.status for job in await rows.jobs_of("BWBR0000090")] == [JobStatus.FAILED, JobStatus.PENDING]


@pytest.mark.claim("S0-038")
async def test_two_laws_that_cite_each_other_come_to_rest(rows: Rows) -> None:
    texts = {LAW: result(referenced_bwb_ids=(OTHER_LAW,)), OTHER_LAW: result(slug="b", referenced_bwb_ids=(LAW,))}
    await rows.add()
    runs = 0
    while jobs := (await rows.claim(slots=5)).jobs:
        for job in jobs:
            runs += 1
            settle = partial(
                harvest.settle,
                payload=read_harvest_payload(job.payload, job.law_id),
                result=texts[job.law_id],
                rules=HarvestRules(),
            )
            await rows.queue.complete(job.lease_held, {}, settle)
    assert runs == 2


@pytest.mark.time_limit(60)
async def test_harvests_that_cite_the_same_laws_at_once_do_not_deadlock_and_queue_each_law_once(
    rows: Rows,
) -> None:  # D8
    shared = cites(*range(100, 160))
    jobs = []
    for number in range(6):
        await rows.add(law_id=f"BWBR000000{number}")
    jobs = list((await rows.claim(slots=6)).jobs)

    async def end(job: Job, ids: tuple[str, ...]) -> None:
        found = result(slug=f"wet_{job.law_id}", file_path=f"{job.law_id}.yaml", referenced_bwb_ids=ids)
        settle = partial(harvest.settle, payload=HarvestPayload(bwb_id=job.law_id), result=found, rules=ENRICHES)
        await rows.queue.complete(job.lease_held, {}, settle)

    async with trio.open_nursery() as nursery:
        for number, job in enumerate(jobs):
            nursery.start_soon(end, job, shared if number % 2 else tuple(reversed(shared)))
    counts = await rows.sql(
        "SELECT count(*) AS n FROM jobs WHERE law_id = ANY ($1::text[]) GROUP BY law_id", list(shared)
    )
    assert [row["n"] for row in counts] == [1] * 60
    assert rows.database.statistics.repeated == 0


async def test_laws_that_cite_each_other_and_end_at_the_same_moment_do_not_deadlock(rows: Rows) -> None:  # D8
    laws_of_a_ring = cites(*range(1, 7))
    for law_id in laws_of_a_ring:
        await rows.add(law_id=law_id)
    jobs = (await rows.claim(slots=6)).jobs

    async def end(job: Job) -> None:
        found = result(slug=job.law_id, file_path=f"{job.law_id}.yaml", referenced_bwb_ids=laws_of_a_ring)
        settle = partial(harvest.settle, payload=HarvestPayload(bwb_id=job.law_id), result=found, rules=HarvestRules())

        async def slowly(connection: Connection, job: Job) -> None:
            await connection.execute("SELECT pg_sleep(0.2)")
            await settle(connection, job)

        await rows.queue.complete(job.lease_held, {}, slowly)

    async with trio.open_nursery() as nursery:
        for job in jobs:
            nursery.start_soon(end, job)
    assert rows.database.statistics.repeated == 0
    assert await rows.value("SELECT count(*) FROM jobs") == 6


async def test_nothing_of_a_harvest_is_kept_when_its_completion_fails(rows: Rows) -> None:
    await rows.add()
    job = await rows.claimed()
    await rows.queue.write(job.lease_held, harvest.begin)

    async def breaks(connection: Connection, job: Job) -> None:
        found = result(referenced_bwb_ids=cites(90))
        await harvest.settle(connection, job, payload=HarvestPayload(bwb_id=LAW), result=found, rules=ENRICHES)
        raise Transient("the connection is lost")

    with pytest.raises(Transient):
        await rows.queue.complete(job.lease_held, {}, breaks)
    assert (await rows.law()).status is LawStatus.HARVESTING
    assert await rows.value("SELECT count(*) FROM jobs") == 1
    assert await rows.sql("SELECT * FROM harvest_versions") == []


async def test_a_law_that_moved_in_the_corpus_takes_its_waiting_enrich_jobs_along(rows: Rows) -> None:  # D33
    await run(rows, result(), ENRICHES)
    [opencode, claude] = sorted(await rows.jobs_of(LAW, JobType.ENRICH), key=lambda job: -len(job.payload["provider"]))
    await rows.sql("UPDATE jobs SET status = 'processing' WHERE id = $1", claude.id)
    await run(rows, result(file_path="new/place.yaml", change=Change.CONVERTER), ENRICHES, moved_from=PATH)
    assert (await rows.job(opencode.id)).payload["yaml_path"] == "new/place.yaml"
    assert (await rows.job(claude.id)).payload["yaml_path"] == PATH
    assert list(await rows.database.run(harvest.known_versions, LAW)) == ["new/place.yaml"]


@pytest.mark.claim("S1-044")
async def test_what_a_person_asks_for_is_claimed_before_what_was_found_on_the_way(rows: Rows) -> None:
    await run(rows, result(referenced_bwb_ids=cites(2, 3, 4)), ENRICHES, payload={"bwb_id": LAW, "depth": 1})
    asked = await rows.database.transact(requests.request_harvest, HarvestRequest("BWBR0999999"))
    assert isinstance(asked, Created)
    best = await rows.database.transact(queue.claim_job)
    assert best is not None
    assert (best.id, best.priority) == (asked.job.id, 50)
    left = await rows.sql("SELECT priority, job_type::text FROM jobs WHERE status = 'pending' ORDER BY 1 DESC, 2")
    assert [tuple(row.values()) for row in left] == [(30, "harvest")] * 3 + [(10, "enrich")] * 2
