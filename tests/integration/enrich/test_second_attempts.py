"""What an attempt that failed leaves for the next one: a finished window (D53), finished entries (D43)."""

from __future__ import annotations

import pytest
import trio

from schema.rows import Job, JobStatus, JobType
from tests.kit import agentlines
from tests.kit.enrichbench import FOLDER, PATH, EnrichBench, Scene, law, obedient
from tests.kit.jobrows import LAW

BRANCH = "enrich/claude"


async def test_a_crash_between_push_and_completion_costs_no_second_call(bench: EnrichBench) -> None:
    """D53"""

    class PulledPlug(BaseException):
        pass

    def dies() -> None:
        raise PulledPlug

    bench.more["window_limit"] = 2
    job = await bench.add()
    with pytest.raises(PulledPlug):
        await bench.work_off(before_complete=dies)
    assert bench.remote.tip(BRANCH) is not None
    calls = len(bench.runner.scenes)
    await bench.rows.foreign_reap(job.id)

    again = await bench.work_off()

    assert (again.status, again.attempts) == (JobStatus.COMPLETED, 2)
    assert len(bench.runner.scenes) == calls
    assert again.result["enrich_cursor"] == 2
    assert again.result["usage"]["input_tokens"] > 0
    assert bench.remote.subjects(BRANCH).count(f"enrich(claude): {LAW} ({PATH})") == 1
    last = await bench.work_off()
    assert last.result["enrich_cursor"] == 3
    assert await bench.rows.value("SELECT count(*) FROM job_blobs") == 0


async def test_a_push_that_fails_is_made_again_without_a_second_call(bench: EnrichBench) -> None:
    """D53: no work is thrown away."""
    bench.remote.hook("pre-receive", "exit 1")
    first = await bench.enrich()
    assert (first.status, first.result["kind"]) == (JobStatus.PENDING, "push_rejected"), first.result
    calls = len(bench.runner.scenes)
    bench.remote.unhook("pre-receive")
    await bench.rows.make_due(first.id)

    second = await bench.work_off()

    assert second.status is JobStatus.COMPLETED, second.result
    assert len(bench.runner.scenes) == calls
    assert second.result["coverage_score"] == 1.0
    assert "enrich_cursor: 3\n" in bench.remote.files(BRANCH)[f"{FOLDER}/.enrichment.yaml"]


async def test_a_push_that_failed_to_the_last_attempt_is_made_by_the_next_job_of_the_law(bench: EnrichBench) -> None:
    """D53: the law has a ladder of its own, and what was paid for is not paid for again."""
    bench.remote.hook("pre-receive", "exit 1")
    follower = await _to_the_next_job(bench)
    calls = len(bench.runner.scenes)
    bench.remote.unhook("pre-receive")

    done = await bench.work_off()

    assert (done.id, done.status) == (follower.id, JobStatus.COMPLETED), done.result
    assert len(bench.runner.scenes) == calls == 1
    assert "enrich_cursor: 3\n" in bench.remote.files(BRANCH)[f"{FOLDER}/.enrichment.yaml"]
    assert await bench.rows.value("SELECT count(*) FROM job_blobs") == 0


async def test_a_push_of_the_last_job_that_landed_after_all_is_found_by_the_next_one(bench: EnrichBench) -> None:
    """D53: the refusal came too late, or the answer was lost."""
    bench.remote.hook("pre-receive", "exit 1")
    follower = await _to_the_next_job(bench)
    failed = next(row for row in await bench.rows.jobs_of(LAW, JobType.ENRICH) if row.id != follower.id)
    bench.remote.unhook("pre-receive")
    landed = bench.rival.push(
        {"readme": "of the push that landed"}, f"enrich\n\nJob-Id: {failed.id}\nWindow: 0-3", branch=BRANCH
    )

    done = await bench.work_off()

    assert (done.id, done.status) == (follower.id, JobStatus.COMPLETED), done.result
    assert len(bench.runner.scenes) == 1
    assert bench.remote.tip(BRANCH) == landed


async def _to_the_next_job(bench: EnrichBench) -> Job:
    """Let a job use up its attempts; the one that follows it, made due."""
    job = await bench.enrich()
    while job.status is JobStatus.PENDING:
        await bench.rows.make_due(job.id)
        job = await bench.work_off()
    assert job.status is JobStatus.FAILED
    [follower] = [row for row in await bench.rows.jobs_of(LAW, JobType.ENRICH) if row.status is JobStatus.PENDING]
    await bench.rows.make_due(follower.id)
    return follower


async def test_a_finished_window_is_not_pushed_over_a_base_that_moved_on(bench: EnrichBench) -> None:
    bench.remote.hook("pre-receive", "exit 1")
    first = await bench.enrich()
    bench.remote.unhook("pre-receive")
    bench.rival.push({PATH: law(3, "Nieuw {n} is {n} euro.")})
    await bench.rows.make_due(first.id)

    second = await bench.work_off()

    assert second.status is JobStatus.COMPLETED, second.result
    assert "Nieuw 1" in bench.remote.files(BRANCH)[PATH]


# --- partial work ------------------------------------------------------------------------------------------------------


async def test_a_translation_that_breaks_off_leaves_its_finished_entries_to_the_next_attempt(
    bench: EnrichBench,
) -> None:
    """D43"""

    def breaks_off(scene: Scene) -> None:
        scene.write_models("1")
        scene.edit(
            "    url: https://example.org/BWBR0000001#2\n",
            "    url: https://example.org/BWBR0000001#2\n    machine_readable: {nonsense: 1}\n",
        )
        scene.lines = [agentlines.tool()]
        scene.code = 1

    bench.agent = breaks_off
    first = await bench.enrich()
    assert (first.status, first.result["kind"]) == (JobStatus.PENDING, "agent_failed"), first.result
    assert bench.remote.tip(BRANCH) is None

    bench.agent = obedient
    await bench.rows.make_due(first.id)
    second = await bench.work_off()

    assert second.status is JobStatus.COMPLETED, second.result
    [translate] = [scene for scene in bench.runner.scenes[1:] if scene.translates]
    assert "An earlier attempt finished these of them, and their sections are in the file: 1." in translate.prompt
    assert second.result["coverage_score"] == 1.0


async def test_finished_entries_survive_the_last_attempt_of_a_job_in_the_next_job_of_the_law(
    bench: EnrichBench,
) -> None:
    """D43: the law has a ladder of its own, and what was paid for is not paid for again."""

    def breaks_off(scene: Scene) -> None:
        scene.write_models("1")
        scene.lines = [agentlines.tool()]
        scene.code = 1

    bench.agent = breaks_off
    follower = await _to_the_next_job(bench)
    bench.agent = obedient
    calls = len(bench.runner.scenes)
    done = await bench.work_off()

    assert (done.id, done.status) == (follower.id, JobStatus.COMPLETED), done.result
    assert "An earlier attempt finished these of them" in bench.runner.scenes[calls].prompt


async def test_a_drain_in_the_middle_keeps_what_is_finished(bench: EnrichBench) -> None:
    drain = trio.Event()

    def slow(scene: Scene) -> None:
        scene.write_models("1", "2")
        scene.hang = True
        drain.set()

    bench.agent = slow
    await bench.add()
    handed = await bench.work_off(drain=drain)
    assert (handed.status, handed.releases) == (JobStatus.PENDING, 1)

    bench.agent = obedient
    again = await bench.work_off()
    assert again.status is JobStatus.COMPLETED
    assert "in the file: 1, 2." in bench.runner.scenes[1].prompt


async def test_partial_work_on_another_base_is_not_used(bench: EnrichBench) -> None:
    def breaks_off(scene: Scene) -> None:
        scene.write_models("1")
        scene.code = 1

    bench.agent = breaks_off
    first = await bench.enrich()
    bench.rival.push({PATH: law(3, "De nieuwe bijdrage {n} bedraagt {n} euro.")})
    bench.agent = obedient
    await bench.rows.make_due(first.id)
    second = await bench.work_off()

    assert second.status is JobStatus.COMPLETED, second.result
    assert "earlier attempt" not in bench.runner.scenes[1].prompt
    assert "De nieuwe bijdrage" in bench.remote.files(BRANCH)[PATH]
