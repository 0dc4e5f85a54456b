"""Laws that cannot be enriched as they are, and what becomes of them (D41, D55, EN-01)."""

from __future__ import annotations

from protocols.lawyaml import load_law
from schema.rows import JobStatus, LawStatus
from tests.kit.enrichbench import PATH, EnrichBench, Scene, law, model, obedient
from tests.kit.jobrows import LAW

BRANCH = "enrich/claude"


async def test_a_law_that_cannot_be_read_is_given_up_without_a_call(bench: EnrichBench) -> None:
    bench.rival.push({PATH: "articles: [\n"})

    job = await bench.enrich()

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "content")
    assert bench.runner.scenes == []
    assert (await bench.rows.law()).status is LawStatus.ENRICH_EXHAUSTED


async def test_a_law_with_faults_that_no_agent_may_mend_is_refused_without_a_call(bench: EnrichBench) -> None:
    """D41, EN-01: its header and its texts are put back after every call, so every run would end the same."""
    bench.rival.push({PATH: law(3).replace("regulatory_layer: WET", "regulatory_layer: DECREE")})

    job = await bench.enrich()

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "law_unfit"), job.result
    assert 'regulatory_layer: "DECREE" is not one of' in job.result["error"]
    assert f"harvest {LAW} again" in job.result["error"]
    assert bench.runner.scenes == []
    assert (await bench.rows.law()).status is LawStatus.ENRICH_FAILED


OLD_FAULT = "    machine_readable: {no_such_key: 1}\n"


def with_old_fault(number: int, count: int = 3) -> str:
    """A law with a section, not of our making, that breaks the schema."""
    line = f"    url: https://example.org/BWBR0000001#{number}\n"
    return law(count).replace(line, line + OLD_FAULT)


async def test_an_old_section_that_breaks_the_schema_outside_the_window_waits_for_its_own(bench: EnrichBench) -> None:
    """D41, EN-01: no agent of this window may mend it, so every run of the window would end the same."""
    bench.more["window_limit"] = 1
    bench.rival.push({PATH: with_old_fault(2)})

    def mends(scene: Scene) -> None:
        if scene.translates and scene.numbers == ["2"]:
            scene.edit(OLD_FAULT, "")
            scene.report("chunk_report: {articles_reviewed: ['2']}\n")
        obedient(scene)

    bench.agent = mends
    first = await bench.enrich()

    assert first.status is JobStatus.COMPLETED, first.result
    assert len(bench.runner.scenes) == 1
    [told] = first.result["feedback"][0]["outside_window"]
    assert told.startswith("articles/1/machine_readable: no such key here")
    second = await bench.work_off()
    assert second.status is JobStatus.COMPLETED, second.result
    assert "outside_window" not in second.result["feedback"][0]
    assert "no_such_key" not in bench.remote.files(BRANCH)[PATH]


async def test_an_old_fault_before_the_window_is_put_to_the_agent_that_closes_the_law(bench: EnrichBench) -> None:
    """D41: in the closing pass the whole law is the agent's."""
    bench.more["window_limit"] = 2
    bench.rival.push({PATH: with_old_fault(1)})
    bench.agent = lambda scene: scene.report("chunk_report: {articles_reviewed: ['1', '2']}\n")
    first = await bench.enrich()
    assert first.status is JobStatus.COMPLETED, first.result  # nothing was changed, so nothing was checked
    bench.agent = obedient

    left = await bench.work_off()

    assert (left.status, left.result["kind"]) == (JobStatus.PENDING, "schema_errors")
    closing = bench.runner.scenes[-1].prompt
    assert "does not follow the law schema any more" in closing
    assert "articles/0/machine_readable: no such key here" in closing
    assert f"let `enrich {LAW} --provider claude --restart` begin anew without them" in left.result["error"]

    def mends(scene: Scene) -> None:
        assert not scene.translates  # what was translated was kept
        if "does not follow the law schema any more" in scene.prompt:
            scene.edit(OLD_FAULT, "")

    bench.agent = mends
    await bench.rows.make_due(left.id)
    done = await bench.work_off()
    assert done.status is JobStatus.COMPLETED, done.result
    assert done.result["law_complete"] is True
    assert "no_such_key" not in bench.remote.files(BRANCH)[PATH]


async def test_a_restart_begins_without_the_sections_that_break_the_schema(bench: EnrichBench) -> None:
    """D55: the way out of an old fault that no agent mends."""
    bench.more["window_limit"] = 2
    broken = with_old_fault(2)
    url = "    url: https://example.org/BWBR0000001#3\n"
    bench.rival.push({PATH: broken.replace(url, url + model("3"))})

    job = await bench.enrich(restart=True)

    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["restarted"]["dropped"] == ["2"]
    entries = load_law(bench.remote.files(BRANCH)[PATH])["articles"]
    assert ["machine_readable" in entry for entry in entries] == [True, True, True]
    assert "no_such_key" not in bench.remote.files(BRANCH)[PATH]


async def test_a_law_of_an_early_release_of_the_schema_is_enriched_with_its_header_as_it_is(bench: EnrichBench) -> None:
    bench.rival.push({PATH: law(3).replace("v0.5.6", "v0.5.0")})

    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert "/v0.5.0/" in bench.remote.files(BRANCH)[PATH]


async def test_a_law_that_is_not_in_the_corpus_says_so(bench: EnrichBench) -> None:
    job = await bench.enrich(yaml_path="regulation/nl/wet/other/2025-01-01.yaml")

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "law_missing")
    assert "harvest" in job.result["error"]
