"""Gates, feedback rounds, sessions and the closing pass of a job (``enrich.md`` 6; D42, D44)."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocols.gates.feedback import Rounds
from protocols.lawyaml import load_law
from protocols.sessions import SessionReuse
from schema.rows import JobStatus
from tests.kit import agentlines
from tests.kit.enrichbench import FOLDER, PATH, EnrichBench, Scene, law, obedient

BRANCH = "enrich/claude"
BROKEN = "    machine_readable: {nonsense: 1}\n"
UNTYPED = "    machine_readable:\n      definitions: {BIJDRAGE: 100}\n"


def after_url(scene: Scene, number: str, block: str) -> None:
    line = f"    url: https://example.org/BWBR0000001#{number}\n"
    scene.edit(line, line + block)


def gate_of(scene: Scene) -> str:
    for gate, words in (
        ("schema", "does not follow the law schema."),
        ("schema-final", "does not follow the law schema any more"),
        ("checks", "do not fit the text"),
        ("marking", "Some gaps are missing"),
        ("reconcile", "connected to each other"),
        ("binding", "lead nowhere"),
    ):
        if words in scene.prompt:
            return gate
    return "translate"


def session_of(scene: Scene) -> tuple[str, str]:
    for option in ("--session-id", "--resume"):
        if option in scene.argv:
            return option, scene.argv[scene.argv.index(option) + 1]
    return "", ""


async def test_findings_of_the_schema_go_back_verbatim_and_a_repair_ends_the_gate(bench: EnrichBench) -> None:
    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1", "3")
            after_url(scene, "2", BROKEN)
        elif gate_of(scene) == "schema":
            assert "articles/1/machine_readable" in scene.prompt
            scene.edit(BROKEN, "")
            scene.write_models("2")

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    schema = job.result["feedback"][0]
    assert (schema["gate"], schema["findings_initial"], schema["findings_final"]) == ("schema", 1, 0)
    assert [round_["stopped"] for round_ in schema["rounds"]] == ["cleared"]


async def test_schema_errors_that_are_left_fail_the_run_and_keep_what_is_well(bench: EnrichBench) -> None:
    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1")
            after_url(scene, "2", BROKEN)

    bench.agent = agent
    job = await bench.enrich()

    assert (job.status, job.result["kind"]) == (JobStatus.PENDING, "schema_errors")
    assert "1 schema error left after 1 feedback round" in job.result["error"]
    assert bench.remote.tip(BRANCH) is None
    bench.agent = obedient
    await bench.rows.make_due(job.id)
    again = await bench.work_off()
    assert again.status is JobStatus.COMPLETED
    assert "are in the file: 1." in next(scene.prompt for scene in bench.runner.scenes[2:] if scene.translates)


async def test_yaml_that_cannot_be_read_stays_for_a_repair_and_is_dropped_without_one(bench: EnrichBench) -> None:
    """D41"""

    def breaks(scene: Scene) -> None:
        if scene.translates:
            scene.write_models()
            scene.law.write_text(scene.law.read_text() + "  broken: [\n")

    def breaks_and_repairs(scene: Scene) -> None:
        breaks(scene)
        if gate_of(scene) == "schema":
            scene.edit("  broken: [\n", "")

    bench.agent = breaks_and_repairs
    job = await bench.enrich()
    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["articles_with_machine_readable"] == 3

    bench.rival.push({PATH: law(3) + "# new\n"})
    bench.agent = breaks
    lost = await bench.enrich(restart=True)
    assert (lost.status, lost.result["kind"]) == (JobStatus.PENDING, "schema_errors")


@pytest.mark.claim("S0-101", "S0-102")
async def test_a_soft_gate_asks_once_and_never_fails_the_run(bench: EnrichBench) -> None:
    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1", "2")
            after_url(scene, "3", UNTYPED)

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    asked = next(scene for scene in bench.runner.scenes if gate_of(scene) == "checks")
    assert "[definition-type] art. 3:" in asked.prompt
    checks = next(gate for gate in job.result["feedback"] if gate["gate"] == "checks")
    assert checks["rounds"][0]["stopped"] == "unchanged"
    assert checks["findings_final"] >= 1


async def test_a_feedback_call_that_fails_costs_only_its_own_changes(bench: EnrichBench) -> None:
    """D42"""

    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1", "2")
            after_url(scene, "3", UNTYPED)
        elif gate_of(scene) == "checks":
            scene.edit("BIJDRAGE: 100", "BIJDRAGE: 666")
            scene.lines = [agentlines.tool()]
            scene.code = 1

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    checks = next(gate for gate in job.result["feedback"] if gate["gate"] == "checks")
    assert (checks["rounds"][0]["stopped"], checks["rounds"][0]["file_changed"]) == ("failed", False)
    assert "claude" in checks["rounds"][0]["error"]
    assert b"666" not in bench.remote.files(BRANCH)[PATH].encode()
    calls = {call["step"]: call["verdict"] for call in job.result["agent_calls"]}
    assert calls["translate"] == "ok"
    assert calls["checks"] != "ok"


async def test_no_rounds_mean_no_calls(bench: EnrichBench) -> None:
    bench.more["rounds"] = Rounds(0, 0, 0, 0)

    def agent(scene: Scene) -> None:
        scene.write_models("1", "2")
        after_url(scene, "3", UNTYPED)

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert len(bench.runner.scenes) == 1
    assert all(gate["rounds"] == [] for gate in job.result["feedback"])


async def test_with_too_little_time_left_rounds_are_skipped_and_a_translation_is_not_begun(bench: EnrichBench) -> None:
    """D44"""
    bench.more["job_timeout_s"] = 31.0

    job = await bench.enrich()

    assert (job.status, job.result["kind"]) == (JobStatus.PENDING, "timeout")
    assert bench.runner.scenes == []
    assert bench.works[-1].runs == 0


# --- sessions ----------------------------------------------------------------------------------------------------------


def repairs_everything(scene: Scene) -> None:
    """Needs a round of the schema gate and one of the checks."""
    if scene.translates:
        scene.write_models("1")
        after_url(scene, "2", BROKEN)
        after_url(scene, "3", UNTYPED)
    elif gate_of(scene) == "schema":
        scene.edit(BROKEN, "")
        scene.write_models("2")


@pytest.mark.claim("S0-070", "S0-071", "S0-072")
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        (SessionReuse.WINDOW, ["--session-id", "--resume", "--resume"]),
        (SessionReuse.REPAIR, ["--session-id", "--resume", ""]),
        (SessionReuse.OFF, ["", "", ""]),
    ],
)
async def test_the_calls_of_a_window_share_a_session_as_the_mode_says(
    bench: EnrichBench, mode: SessionReuse, options: list[str]
) -> None:
    bench.more["session_reuse"] = mode
    bench.agent = repairs_everything
    job = await bench.enrich()

    scenes = bench.runner.scenes[:3]
    assert [gate_of(scene) for scene in scenes] == ["translate", "schema", "checks"]
    found = [session_of(scene) for scene in scenes]
    assert [option for option, _ in found] == options
    assert len({id_ for _, id_ in found if id_}) <= 1
    assert job.result["session_reuse"] == mode.value
    for scene, (option, id_) in zip(scenes, found, strict=True):
        assert ("read the entries concerned again" in scene.prompt) is (option == "--resume")
        if id_:
            UUID(id_)
    assert [call["resumed"] for call in job.result["agent_calls"][:3]] == [option == "--resume" for option in options]


async def test_another_window_has_another_session(bench: EnrichBench) -> None:
    bench.more["window_limit"] = 2
    await bench.add()
    await bench.work_off()
    await bench.work_off()

    opened = [session_of(scene) for scene in bench.runner.scenes if scene.translates]
    assert [option for option, _ in opened] == ["--session-id", "--session-id"]
    assert opened[0][1] != opened[1][1]


async def test_slices_have_sessions_of_their_own_and_the_rounds_open_a_new_one(bench: EnrichBench) -> None:
    """D40"""
    bench.more["window_concurrency"] = 3

    def agent(scene: Scene) -> None:
        if scene.translates:
            for number in scene.numbers:
                if number == "3":
                    after_url(scene, "3", UNTYPED)
                else:
                    scene.write_models(number)

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    translated = [session_of(scene) for scene in bench.runner.scenes if scene.translates]
    [fed_back] = [session_of(scene) for scene in bench.runner.scenes if gate_of(scene) == "checks"]
    assert len({id_ for _, id_ in [*translated, fed_back]}) == 4
    assert fed_back[0] == "--session-id"


# --- closing -----------------------------------------------------------------------------------------------------------

PRODUCER = """\
    machine_readable:
      definitions:
        BEDRAG: {value: 100, type: amount, type_spec: {unit: eurocent}}
      execution:
        output:
          - {name: bedrag, type: amount, type_spec: {unit: eurocent}}
        actions:
          - {output: bedrag, value: $BEDRAG}
"""
CONSUMER = """\
    machine_readable:
      execution:
        input:
          - name: bedrag
            type: amount
            type_spec: {unit: eurocent}
            source: {}
        output:
          - {name: totaal, type: amount, type_spec: {unit: eurocent}}
        actions:
          - {output: totaal, value: $bedrag}
"""


@pytest.mark.claim("S0-064")
async def test_the_last_window_binds_what_earlier_windows_could_not_see(bench: EnrichBench) -> None:
    bench.rival.push({PATH: law(2)})
    bench.more["window_limit"] = 1

    def agent(scene: Scene) -> None:
        if scene.translates:
            after_url(scene, scene.numbers[0], CONSUMER if scene.numbers == ["1"] else PRODUCER)

    bench.agent = agent
    await bench.add()
    first = await bench.work_off()
    assert first.status is JobStatus.COMPLETED, first.result
    assert [gate["gate"] for gate in first.result["feedback"]] == ["schema", "checks", "marking"]
    last = await bench.work_off()

    assert last.status is JobStatus.COMPLETED, last.result
    gates = [gate["gate"] for gate in last.result["feedback"]]
    assert gates == ["schema", "checks", "marking", "reconcile", "binding", "schema-final"]
    entry = load_law(bench.remote.files(BRANCH)[PATH])["articles"][0]
    assert entry["machine_readable"]["execution"]["input"][0]["source"] == {"output": "bedrag"}


async def test_a_closing_edit_that_makes_the_law_worse_is_taken_back(bench: EnrichBench) -> None:
    bench.rival.push({PATH: law(3)})

    def agent(scene: Scene) -> None:
        if scene.translates:
            after_url(scene, "1", CONSUMER)
            after_url(scene, "2", PRODUCER)
            after_url(scene, "3", PRODUCER)
        elif gate_of(scene) == "reconcile":
            scene.edit("source: {}", "source: {nonsense: 1}")

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    reconcile = next(gate for gate in job.result["feedback"] if gate["gate"] == "reconcile")
    assert reconcile["rounds"][0]["file_changed"] is False
    assert "nonsense" not in bench.remote.files(BRANCH)[PATH]


async def test_another_law_is_looked_up_on_the_branch_and_its_base(bench: EnrichBench) -> None:
    """D56"""
    other = law(1).replace("wet_op_de_lantaarns", "andere_wet")
    binding = CONSUMER.replace("source: {}", "source: {regulation: andere_wet, output: bestaat_niet}")
    bench.rival.push({"regulation/nl/wet/andere_wet/2024-01-01.yaml": other + PRODUCER})

    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1", "2")
            after_url(scene, "3", binding)

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    asked = next(scene for scene in bench.runner.scenes if gate_of(scene) == "checks")
    assert "andere_wet" in asked.prompt
    assert "bestaat_niet" in asked.prompt

    bench.rival.push({f"{FOLDER}/2026-01-01.yaml": law(3)})
    missing = binding.replace("andere_wet", "onbekende_wet")
    bench.agent = lambda scene: after_url(scene, "3", missing) if scene.translates else None
    unknown = await bench.enrich(yaml_path=f"{FOLDER}/2026-01-01.yaml")
    checks = next(gate for gate in unknown.result["feedback"] if gate["gate"] == "checks")
    assert any("onbekende_wet" in finding for finding in checks["outside_corpus"])
