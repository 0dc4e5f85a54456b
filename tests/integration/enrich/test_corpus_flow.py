"""A law walks through its windows to ``enrich/{provider}`` (``enrich.md`` 5, 10; D39-D43, D53, D55)."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from protocols.failures import JsonObject
from protocols.lawyaml import load_law
from schema.rows import JobStatus, JobType, LawStatus
from tests.kit.enrichbench import FOLDER, PATH, EnrichBench, Scene, law, model, obedient
from tests.kit.jobrows import LAW, Rows

BRANCH = "enrich/claude"


@pytest.mark.claim("S0-048", "S0-044")
async def test_an_enriched_law_is_pushed_with_its_cursor_and_the_law_is_enriched(bench: EnrichBench) -> None:
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    files = bench.remote.files(BRANCH)
    assert files[PATH] == "".join(
        part if not part.startswith("    url") else part + model(part.rsplit("#", 1)[1].strip())
        for part in law(3).splitlines(keepends=True)
    )
    assert "enrich_cursor: 3\n" in files[f"{FOLDER}/.enrichment.yaml"]
    assert "model: claude-opus-5-5\n" in files[f"{FOLDER}/.enrichment.yaml"]
    assert not [name for name in files if ".claude" in name or "progress" in name]
    assert bench.remote.files()[PATH] == law(3)
    assert bench.remote.subjects(BRANCH)[-1] == f"enrich(claude): {LAW} ({PATH})"
    found = await bench.rows.law()
    assert (found.status, found.coverage_score) == (LawStatus.ENRICHED, 1.0)
    assert (job.result["coverage_score"], job.result["law_complete"]) == (1.0, True)
    assert job.result["models"] == ["claude-opus-5-5"]
    assert not list((bench.folder / "work").iterdir())


@pytest.mark.claim("S0-057", "S0-047", "S0-046")
async def test_a_large_law_takes_one_commit_and_one_job_a_window(bench: EnrichBench) -> None:
    """EN-02"""
    bench.rival.push({PATH: law(7)})
    bench.more["window_limit"] = 3
    await bench.add(depth=1)
    jobs = [await bench.work_off() for _ in range(3)]

    assert [job.status for job in jobs] == [JobStatus.COMPLETED] * 3, [job.result for job in jobs]
    assert [job.result["enrich_cursor"] for job in jobs] == [3, 6, 7]
    assert [round(job.result["coverage_score"], 3) for job in jobs] == [round(3 / 7, 3), 0.75, 1.0]
    assert [scene.numbers for scene in bench.runner.scenes if scene.translates] == [
        ["1", "2", "3"],
        ["4", "5", "6"],
        ["7"],
    ]
    assert bench.remote.subjects(BRANCH).count(f"enrich(claude): {LAW} ({PATH})") == 3
    assert [job.payload.get("depth") for job in jobs] == [1, 1, 1]
    assert (await bench.rows.law()).status is LawStatus.ENRICHED
    assert len(await bench.rows.jobs_of(LAW, JobType.ENRICH)) == 3


async def test_a_finished_law_completes_without_calling_anybody(bench: EnrichBench) -> None:
    await bench.enrich()
    calls = len(bench.runner.scenes)

    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED
    assert len(bench.runner.scenes) == calls
    assert job.result["coverage_score"] == 1.0
    assert bench.works[-1].runs == 0


@pytest.mark.claim("S0-056")
async def test_what_an_agent_does_to_text_cursor_and_other_entries_is_dropped_and_counted(bench: EnrichBench) -> None:
    """D41"""
    bench.more["window_limit"] = 2

    def vandal(scene: Scene) -> None:
        if not scene.translates:
            return
        scene.write_models("1", "2", "3")
        scene.edit("bedraagt 1 euro", "bedraagt niets")
        scene.edit("bwb_id: BWBR0000001", "bwb_id: BWBR0000666")
        (scene.law.parent / ".enrichment.yaml").write_text("enrich_cursor: 99\n")

    bench.agent = vandal
    job = await bench.enrich()

    assert job.result["discarded_edits"] == 3
    assert job.result["enrich_cursor"] == 2
    pushed = load_law(bench.remote.files(BRANCH)[PATH])
    assert pushed["bwb_id"] == "BWBR0000001"
    assert pushed["articles"][0]["text"] == "De bijdrage voor lantaarn 1 bedraagt 1 euro."
    assert [("machine_readable" in entry) for entry in pushed["articles"]] == [True, True, False]


async def test_a_window_without_anything_to_show_is_tried_again_and_a_report_is_enough(bench: EnrichBench) -> None:
    """AG-06"""
    bench.more["window_limit"] = 2
    bench.agent = lambda scene: None
    first = await bench.enrich()
    assert (first.status, first.result["kind"]) == (JobStatus.PENDING, "no_output")
    assert (await bench.rows.law()).status is LawStatus.HARVESTED

    def reports(scene: Scene) -> None:
        scene.report("chunk_report:\n  articles_skipped:\n    - {number: '1', reason: begripsbepaling zonder waarde}\n")

    bench.agent = reports
    await bench.rows.make_due(first.id)
    second = await bench.work_off()
    assert second.status is JobStatus.COMPLETED, second.result
    bench.agent = lambda scene: None
    third = await bench.work_off()
    assert third.result["kind"] == "no_output"  # the report of the last window proves nothing about this one


async def test_a_whole_law_run_that_writes_nothing_exhausts_the_law(bench: EnrichBench) -> None:
    """EN-01"""
    bench.more["window_limit"] = 0
    bench.agent = lambda scene: None

    job = await bench.enrich()

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "content")
    assert (await bench.rows.law()).status is LawStatus.ENRICH_EXHAUSTED


# --- the base ----------------------------------------------------------------------------------------------------------


async def test_a_base_that_changed_stops_the_walk_and_a_restart_takes_it_over(bench: EnrichBench) -> None:
    """D55, GT-07"""
    bench.more["window_limit"] = 2
    await bench.enrich()
    changed = law(3).replace("bedraagt 1 euro", "bedraagt 9 euro")
    bench.rival.push({PATH: changed})

    drifted = await bench.work_off()
    assert (drifted.status, drifted.result["kind"]) == (JobStatus.FAILED, "base_drift")
    assert "--restart" in drifted.result["error"]
    assert drifted.result["path"] == PATH
    assert drifted.result["expected"] != drifted.result["actual"]
    assert (await bench.rows.law()).status is LawStatus.ENRICH_FAILED

    restarted = await bench.enrich(restart=True)
    assert restarted.status is JobStatus.COMPLETED, restarted.result
    assert restarted.result["restarted"] == {"kept": ["2"], "dropped": ["1"]}
    assert restarted.result["enrich_cursor"] == 2
    last = await bench.work_off()
    assert last.result["enrich_cursor"] == 3
    assert "restart" not in last.payload
    pushed = load_law(bench.remote.files(BRANCH)[PATH])
    assert "bedraagt 9 euro" in pushed["articles"][0]["text"]
    assert all("machine_readable" in entry for entry in pushed["articles"])


async def test_the_hash_of_another_version_in_the_same_folder_is_no_drift(bench: EnrichBench) -> None:
    await bench.enrich()
    newer = f"{FOLDER}/2026-01-01.yaml"
    bench.rival.push({newer: law(2)})

    job = await bench.enrich(yaml_path=newer)

    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["enrich_cursor"] == 2
    assert set(bench.remote.files(BRANCH)) >= {PATH, newer}


async def test_a_new_branch_starts_from_development_and_the_law_comes_from_where_harvests_go(
    rows: Rows, tmp_path: Path
) -> None:
    bench = EnrichBench.create(rows, tmp_path, {"readme": "development", PATH: law(1)})
    bench.rival.push({"readme": "preview", PATH: law(3)}, branch="pr574")
    corpus = bench.settings().corpus
    assert corpus is not None
    bench.more["corpus"] = attrs.evolve(corpus, branch="pr574")

    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["articles_total"] == 3
    assert bench.remote.files(BRANCH)["readme"] == "development"


# --- rivals and crashes ------------------------------------------------------------------------------------------------


async def test_a_rival_who_changed_the_law_on_the_branch_meanwhile_wins_and_the_window_is_tried_again(
    bench: EnrichBench,
) -> None:
    """D39"""
    await bench.enrich()
    bench.rival.push({f"{FOLDER}/.enrichment.yaml": None}, branch=BRANCH)  # begin anew

    def meets_rival(scene: Scene) -> None:
        obedient(scene)
        if scene.translates:
            bench.rival.push({PATH: bench.remote.files(BRANCH)[PATH] + "# by hand\n"}, branch=BRANCH)

    def reports(scene: Scene) -> None:
        meets_rival(scene)
        scene.report("chunk_report: {articles_reviewed: ['1']}\n")

    bench.agent = reports
    job = await bench.enrich()
    assert (job.status, job.result["kind"]) == (JobStatus.PENDING, "push_conflict")
    assert bench.remote.files(BRANCH)[PATH].endswith("# by hand\n")


async def test_two_laws_on_one_branch_do_not_disturb_each_other(bench: EnrichBench) -> None:
    def meets_rival(scene: Scene) -> None:
        obedient(scene)
        if scene.translates:
            bench.rival.push({"regulation/nl/wet/other/x.yaml": "a: 1\n"}, branch=BRANCH)

    bench.rival.push({"readme": "x"}, branch=BRANCH)
    bench.agent = meets_rival

    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert set(bench.remote.files(BRANCH)) >= {PATH, "regulation/nl/wet/other/x.yaml", "readme"}


async def test_a_claim_that_is_lost_before_the_push_pushes_nothing(bench: EnrichBench) -> None:
    def loses(scene: Scene) -> None:
        obedient(scene)
        bench.works[-1].lost = True

    bench.agent = loses
    await bench.add()
    job = await bench.work_off()

    assert job.status is JobStatus.PROCESSING
    assert bench.remote.tip(BRANCH) is None


# --- without git, with slices -------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-148")
async def test_without_a_repository_laws_are_enriched_in_their_folder(bench: EnrichBench) -> None:
    bench.git = False
    target = bench.folder / "files" / PATH
    target.parent.mkdir(parents=True)
    target.write_text(law(3))
    bench.more["window_limit"] = 2

    await bench.add()
    for _ in range(2):
        job = await bench.work_off()
        assert job.status is JobStatus.COMPLETED, job.result

    assert all("machine_readable" in entry for entry in load_law(target.read_text())["articles"])
    assert bench.remote.tip(BRANCH) is None


async def test_a_window_cut_into_slices_is_one_run_and_one_commit(bench: EnrichBench) -> None:
    """D40"""
    bench.rival.push({PATH: law(4)})
    bench.more["window_concurrency"] = 2
    seen: list[JsonObject] = []

    def agent(scene: Scene) -> None:
        if scene.translates:
            seen.append({"cwd": scene.cwd, "numbers": scene.numbers})
            scene.write_models()
            scene.write_models("1", "2", "3", "4")  # beyond its own slice
            scene.report(f"chunk_report: {{articles_reviewed: {scene.numbers}}}\n")

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert sorted(number for one in seen for number in one["numbers"]) == ["1", "2", "3", "4"]
    assert len({one["cwd"] for one in seen}) == 2
    assert job.result["discarded_edits"] == 4
    assert job.result["articles_with_machine_readable"] == 4
    assert sorted(call["slice"] for call in job.result["agent_calls"]) == [0, 1]
    assert bench.remote.subjects(BRANCH).count(f"enrich(claude): {LAW} ({PATH})") == 1
    reported = load_law(bench.remote.files(BRANCH)[f"{FOLDER}/.enrichment-result.yaml"])
    assert sorted(reported["chunk_report"]["articles_reviewed"]) == ["1", "2", "3", "4"]
    assert bench.works[-1].runs == 1


async def test_scenarios_that_an_agent_wrote_go_along_and_links_and_strangers_do_not(bench: EnrichBench) -> None:
    def agent(scene: Scene) -> None:
        obedient(scene)
        (scene.cwd / "features").mkdir(exist_ok=True)
        (scene.cwd / "features" / "wet_op_de_lantaarns.feature").write_text("Feature: a\n")
        (scene.cwd / "features" / "other.feature").write_text("Feature: b\n")
        (scene.cwd / "features" / "wet_op_de_lantaarns_link.feature").symlink_to("/etc/hostname")
        (scene.law.parent / "scenarios").mkdir(exist_ok=True)
        (scene.law.parent / "scenarios" / "bijdrage.feature").write_text("Feature: c\n")

    bench.agent = agent
    await bench.enrich()

    files = bench.remote.files(BRANCH)
    assert files["features/wet_op_de_lantaarns.feature"] == "Feature: a\n"
    assert files[f"{FOLDER}/scenarios/bijdrage.feature"] == "Feature: c\n"
    assert not [name for name in files if "link" in name or "other.feature" in name]
