"""What an enrich job tells, books and does about its agents (``enrich.md`` 7, 11; D48, D52, D54, D60)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from actors.ports.agentprocess import ProcessRunner
from actors.ports.guardian import Guardian
from protocols.credentials import choose, credentials_of
from protocols.lawyaml import load_law
from protocols.stall import StallLimits
from schema import pauses
from schema.agentcalls import UsageKey, usage_by
from schema.rows import JobStatus, JobType, LawStatus
from tests.kit import agentlines
from tests.kit.enrichbench import FOLDER, PATH, EnrichBench, Scene, fake_claude, obedient
from tests.kit.jobrows import LAW

BRANCH = "enrich/claude"


@pytest.mark.claim("S0-073", "S0-141")
async def test_every_call_is_booked_whatever_its_end(bench: EnrichBench) -> None:
    """D54"""

    def dies(scene: Scene) -> None:
        scene.lines = [agentlines.tool()]
        scene.code = 1

    bench.agent = dies
    first = await bench.enrich()
    bench.agent = obedient
    await bench.rows.make_due(first.id)
    job = await bench.work_off()

    rows = await bench.rows.sql(
        "SELECT attempt, seq, step, verdict, model, input_tokens, usage_complete, cost_millicents FROM agent_calls "
        "ORDER BY attempt, seq"
    )
    assert [tuple(row.values()) for row in rows] == [
        (1, 0, "translate", "no_result", "claude-opus-5-5", None, False, None),
        (2, 0, "translate", "ok", "claude-opus-5-5", 10, True, 50_000),
    ]
    [line] = await bench.rows.database.run(usage_by, UsageKey.LAW)
    assert (line.key, line.calls, line.incomplete, line.cost_millicents) == (LAW, 2, 1, 50_000)
    assert job.result["usage"]["cost_millicents"] == 50_000
    [call] = job.result["agent_calls"]
    assert (call["step"], call["model"], call["turns"]) == ("translate", "claude-opus-5-5", 0)


@pytest.mark.claim("S0-079", "S0-082", "S0-083", "S0-084", "S0-087", "S0-143")
async def test_progress_shows_note_and_worker_and_its_last_state_stays(bench: EnrichBench) -> None:
    def agent(scene: Scene) -> None:
        obedient(scene)
        (scene.law.parent / ".enrichment-progress.json").write_text(
            json.dumps({"phase": "generating", "step": 1, "total_steps": 2, "worker": "me"})
        )
        scene.lines = [agentlines.tool(path=str(scene.law)), agentlines.tool(name="Write", path="/etc/x", message="m2")]
        scene.code = 1

    bench.agent = agent
    job = await bench.enrich()

    last = bench.works[-1].reports[-1]
    assert (last["phase"], last["step"]) == ("generating", 1)
    worker = last["worker"]
    assert (worker["call"], worker["tool_calls"], worker["turns"]) == ("translate", 2, 2)
    assert worker["recent_tools"][0].endswith("2025-01-01.yaml")
    assert (worker["articles_with_machine_readable"], worker["articles_total"]) == (3, 3)
    assert worker["window"] == {"from": 0, "to": 3}
    assert worker["model"] == "claude-opus-5-5"
    assert job.result["error"].split("; ")[-1].startswith("last: Write")
    assert "bedraagt" not in json.dumps(last)


@pytest.mark.claim("S0-090")
@pytest.mark.parametrize(
    ("limits", "kind"),
    [({"stall": StallLimits(idle_s=0.2)}, "stalled"), ({"stall": StallLimits(0), "llm_timeout_s": 1.0}, "timeout")],
    ids=["stalled", "timed out"],
)
async def test_a_stalled_call_is_tried_again_like_one_that_took_too_long(
    bench: EnrichBench, limits: dict[str, Any], kind: str
) -> None:
    def hangs(scene: Scene) -> None:
        scene.hang = True

    bench.agent = hangs
    bench.more = limits
    job = await bench.enrich()

    assert (job.status, job.attempts, job.result["kind"]) == (JobStatus.PENDING, 1, kind), job.result
    assert job.scheduled_at is not None
    assert (await bench.rows.law()).status is LawStatus.HARVESTED
    assert [row["kind"] for row in await bench.rows.sql("SELECT verdict AS kind FROM agent_calls")] != ["ok"]


@pytest.mark.parametrize("several", [False, True])
async def test_a_provider_in_trouble_hands_the_job_back_and_is_benched(bench: EnrichBench, several: bool) -> None:
    """D52"""
    tokens = "sk-ant-oat-one,sk-ant-oat-two" if several else "sk-ant-oat-one"
    bench.more["environ"] = {"CLAUDE_CODE_OAUTH_TOKEN": tokens}

    def refused(scene: Scene) -> None:
        scene.lines = [
            agentlines.api_error("authentication_failed", 401, "Invalid API key"),
            agentlines.result(is_error=True, text="Invalid API key"),
        ]
        scene.code = 1

    bench.agent = refused
    job = await bench.enrich()

    assert (job.status, job.releases, job.deaths) == (JobStatus.PENDING, 1, 0)
    assert (await bench.rows.law()).status is not LawStatus.ENRICH_FAILED
    [pause] = await bench.rows.database.run(pauses.list_provider_pauses)
    assert pause.provider == "claude"
    held = credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": tokens})
    assert pause.credential_hash in {credential.hash for credential in held}
    assert "sk-ant" not in pause.reason
    all_held = tuple(("claude", credential.hash) for credential in held)
    claimed = (await bench.rows.claim(JobType.ENRICH, count_budget=False, credentials=all_held)).jobs
    assert len(claimed) == (1 if several else 0)
    assert len({row["h"] for row in await bench.rows.sql("SELECT credential_hash AS h FROM provider_pauses")}) == 1


@pytest.mark.parametrize("hard", [False, True])
async def test_a_provider_that_fails_in_a_round_is_benched_and_not_asked_again(bench: EnrichBench, hard: bool) -> None:
    """D42, D52: a soft gate goes on without it; what a hard gate keeps is no failure of the law."""
    broken = "    machine_readable: {nonsense: 1}\n" if hard else "    machine_readable:\n      definitions: {X: 1}\n"
    url = "    url: https://example.org/BWBR0000001#3\n"

    def refused_in_a_round(scene: Scene) -> None:
        if scene.translates:
            scene.write_models("1", "2")
            scene.edit(url, url + broken)
            return
        scene.lines = [
            agentlines.api_error("authentication_failed", 401, "Invalid API key"),
            agentlines.result(is_error=True, text="Invalid API key"),
        ]
        scene.code = 1

    bench.agent = refused_in_a_round
    job = await bench.enrich()

    assert len(bench.runner.scenes) == 2  # the translation and one round, though more gates had something to ask
    assert [pause.provider for pause in await bench.rows.database.run(pauses.list_provider_pauses)] == ["claude"]
    if hard:
        assert (job.status, job.releases, job.deaths) == (JobStatus.PENDING, 1, 0)
        kept = await bench.rows.sql("SELECT kind FROM job_blobs")
        assert [row["kind"] for row in kept] == ["partial"]
    else:
        assert job.status is JobStatus.COMPLETED, job.result
        stops = [round_["stopped"] for gate in job.result["feedback"] for round_ in gate["rounds"]]
        assert stops
        assert set(stops) == {"failed"}


def test_tokens_take_turns_and_those_in_trouble_are_passed_over() -> None:
    held = credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": " a, ,b,c, "})

    assert [credential.secret for credential in held] == ["a", "b", "c"]
    assert [choose(held, t).secret for t in (0, 99, 100, 250, 300, 1_000_000_000)] == ["a", "a", "b", "c", "a", "b"]  # type: ignore[union-attr]
    assert choose(held, 0, {held[0].hash}).secret == "b"  # type: ignore[union-attr]
    assert choose(held, 0, {one.hash for one in held}).secret == "a"  # type: ignore[union-attr]
    assert choose((), 0) is None
    assert credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": " , "}) == ()
    assert "secret" not in repr(held)
    assert [c.kind for c in credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat1,sk-ant-api1,x"})] == [
        "oauth",
        "api-key",
        "unknown",
    ]


@pytest.mark.claim("S0-144", "S0-147")
async def test_opencode_runs_cold_and_the_model_it_was_told_is_recorded(bench: EnrichBench) -> None:
    bench.more["environ"] = {"OPENCODE_MODEL": "vlam/kimi-k3-prepaid"}
    bench.runner.opencode = True

    job = await bench.enrich("opencode")

    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["session_reuse"] == "off"
    assert job.result["models"] == ["vlam/kimi-k3-prepaid"]
    [scene] = bench.runner.scenes
    assert scene.argv[scene.argv.index("-f") + 1] == str(scene.law)
    files = bench.remote.files("enrich/opencode")
    assert "model: vlam/kimi-k3-prepaid\n" in files[f"{FOLDER}/.enrichment.yaml"]
    assert bench.remote.tip(BRANCH) is None


async def test_without_a_model_for_opencode_the_job_says_which_setting_is_missing(bench: EnrichBench) -> None:
    job = await bench.enrich("opencode")

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "not_configured")
    assert "OPENCODE_MODEL" in job.result["error"]


@pytest.mark.claim("S0-125")
async def test_a_run_cut_off_by_the_output_limit_says_so(bench: EnrichBench) -> None:
    bench.more["environ"] = {"OPENCODE_MODEL": "vlam/kimi-k3-prepaid"}
    bench.runner.opencode = True

    def cut_off(scene: Scene) -> None:
        scene.lines = [agentlines.step("length", "thoughts")]

    bench.agent = cut_off
    job = await bench.enrich("opencode")

    assert (job.status, job.result["kind"]) == (JobStatus.PENDING, "no_output")
    assert "1 steps were cut off by the output limit" in job.result["error"]


async def test_a_law_that_cost_too_much_is_not_begun(bench: EnrichBench) -> None:
    bench.more |= {"max_cost_millicents": 50_000, "window_limit": 2}
    await bench.add()
    await bench.work_off()

    job = await bench.work_off()

    assert (job.status, job.result["kind"]) == (JobStatus.FAILED, "cost_limit")
    assert "ENRICH_MAX_COST_PER_LAW" in job.result["error"]
    assert (await bench.rows.law()).status is LawStatus.ENRICH_FAILED


@pytest.mark.claim("S0-039", "S0-042")
async def test_related_laws_that_the_report_names_are_harvested(bench: EnrichBench) -> None:
    await bench.rows.sql("INSERT INTO law_entries (law_id, slug) VALUES ('BWBR0000077', 'wet_b')")

    def agent(scene: Scene) -> None:
        obedient(scene)
        scene.report(
            "related_legislation:\n"
            "  - {name: Regeling A, bwb_id: BWBR0000088, relation: delegated_regeling}\n"
            "  - {name: Wet B, slug: wet_b}\n"
            "  - {name: Onbekend}\n"
        )

    bench.agent = agent
    job = await bench.enrich()

    harvests = await bench.rows.sql("SELECT law_id, priority FROM jobs WHERE job_type = 'harvest' ORDER BY law_id")
    assert [tuple(row.values()) for row in harvests] == [("BWBR0000077", 39), ("BWBR0000088", 39)]
    assert len(job.result["related_legislation"]) == 3


async def test_gaps_are_stored_and_acceptance_stays_a_persons(bench: EnrichBench) -> None:
    gap = (
        "      untranslatables:\n        - construct: open norm\n"
        "          reason: Of het redelijk is weegt de minister in elk geval afzonderlijk af.\n"
        "          legal_text_excerpt: De bijdrage voor lantaarn\n          accepted: true\n"
    )

    def agent(scene: Scene) -> None:
        if scene.translates:
            scene.write_models(extra=gap)

    bench.agent = agent
    job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    rows = await bench.rows.sql("SELECT article, construct, accepted FROM untranslatables ORDER BY article")
    assert [tuple(row.values()) for row in rows] == [(n, "open norm", False) for n in ("1", "2", "3")]
    assert job.result["discarded_edits"] == 3
    assert len(job.result["untranslatables"]) == 3


# --- a real process ------------------------------------------------------------------------------------------------------


async def test_a_real_process_below_the_launcher_enriches_a_law(bench: EnrichBench, tmp_path: Path) -> None:
    cli = fake_claude(tmp_path / "bin")
    bench.more["environ"] = {**os.environ, "CLAUDE_PATH": str(cli)}
    with Guardian() as guardian:
        bench.real_runner = lambda: ProcessRunner(guardian, grace_s=1.0)
        job = await bench.enrich()

    assert job.status is JobStatus.COMPLETED, job.result
    assert job.result["usage"]["output_tokens"] == 2
    assert all("machine_readable" in entry for entry in load_law(bench.remote.files(BRANCH)[PATH])["articles"])
    assert not list((bench.folder / "work").iterdir())
