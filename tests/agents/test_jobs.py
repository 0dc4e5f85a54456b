"""Whole enrich jobs: real queue, real git, real CLI, whole supervisors."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve

from actors.ports.agentconfig import load_opencode
from actors.ports.agentprocess import ProcessRunner
from actors.ports.database import Database
from protocols.lawyaml import load_law
from schema.rows import JobStatus
from supervisor import exitcodes
from tests.kit.agentworkshop import SECRETS, environ_of, image_file
from tests.kit.enrichbench import PATH, EnrichBench, law
from tests.kit.gitrepos import Remote, Rival
from tests.kit.jobrows import LAW, Rows
from tests.kit.models.anthropic import Anthropic
from tests.kit.models.lawmodel import LawModel, Task
from tests.kit.models.openai import OpenAi
from tests.kit.models.script import Answer, Silence, Step
from tests.kit.postgres import temporary_folder
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, SupervisorProcess, fleet

pytestmark = [pytest.mark.agents, pytest.mark.time_limit(150)]
"""Half a minute at most where nobody else works: progress is told and written every ten seconds."""

CANARIES = {
    "SOME_PASSWORD": "canary-password",
    "ANTHROPIC_API_KEY": "canary-api-key",
    "VLAM_API_KEY": "canary-vlam",
    "CORPUS_GIT_TOKEN": "canary-git-token",
}
OWN = SECRETS["claude"]
"""The one secret that the CLI itself must have."""


@define
class Pod:
    """Supervisors that enrich, a corpus, and a model for them."""

    fleet: Fleet
    remote: Remote
    server: Anthropic
    model: LawModel

    @property
    def folder(self) -> Path:
        return self.fleet.folder

    async def start(self, **environ: str) -> SupervisorProcess:
        variables = {
            **environ_of("claude", self.server),
            **CANARIES,
            "CORPUS_REPO_URL": str(self.remote.path),
            "CORPUS_REPO_PATH": str(self.folder / f"checkout-{len(self.fleet.processes)}"),
            "ENRICH_WORK_PATH": str(self.folder / "work"),
            "WORKER_JOB_TIMEOUT_SECS": "3900",
            "ENRICH_HOURLY_LIMIT": "100",
        }
        process = self.fleet.start({**variables, **environ}, roles="enrich")
        await process.ready()
        return process

    async def add(self) -> None:
        await self.fleet.sql(
            "INSERT INTO jobs (job_type, law_id, payload) VALUES ('enrich', $1, "
            "jsonb_build_object('law_id', $1::text, 'yaml_path', $2::text, 'provider', 'claude'))",
            LAW,
            PATH,
        )

    async def worker(self) -> dict[str, Any]:
        """What the progress of the running job tells of its agents; empty while there is none."""
        rows = await self.fleet.sql("SELECT progress->'worker' AS worker FROM jobs WHERE status = 'processing'")
        found: dict[str, Any] = json.loads(rows[0]["worker"]) if rows and rows[0]["worker"] else {}
        return found

    def clis(self) -> set[int]:
        """The CLIs that work below this pod's work folder."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"{self.folder}/work/".encode() in path.read_bytes():
                    found.add(int(path.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def supervisors(database_url: str) -> Iterator[Fleet]:
    with temporary_folder() as folder, fleet(database_url, folder) as made:
        yield made


@asynccontextmanager
async def pod(supervisors: Fleet, articles: int) -> AsyncIterator[Pod]:
    """With a law of so many articles in its corpus."""
    model = LawModel("claude")
    async with Anthropic.running(model) as server:
        remote = Remote.create(supervisors.folder / "remote.git")
        Rival.of(remote, supervisors.folder / "rival").push({PATH: law(articles)}, "harvest")
        yield Pod(supervisors, remote, server, model)


def hold(model: LawModel, turn: int) -> trio.Event:
    """Hold the model's answer of this turn in its first translation until the event is set."""
    go_on = trio.Event()

    def change(task: Task, at: int, step: Step) -> Step:
        first = len(model.tasks) == 1
        return evolve(step, after=go_on) if first and at == turn and isinstance(step, Answer) else step

    model.change = change
    return go_on


@pytest.mark.claim("S0-044", "S0-048", "S0-073")
async def test_a_law_of_forty_articles_goes_through_three_windows(supervisors: Fleet) -> None:
    async with pod(supervisors, 40) as made:
        go_on = hold(made.model, 3)
        await made.add()
        process = await made.start()
        with trio.fail_after(60):
            while (await made.worker()).get("articles_with_machine_readable") != 10:  # noqa: ASYNC110 - a database
                await trio.sleep(0.1)
        seen = await made.worker()
        clis = made.clis()
        environs = b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in clis)
        lines = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        go_on.set()
        await made.fleet.wait_until({"completed": 3}, limit_s=90)
        process.signal(signal.SIGTERM)
        assert await process.exit_code() == exitcodes.CLEAN

        # seen while it ran
        assert (seen["call"], seen["model"], seen["provider"]) == ("translate", "claude-opus-5-5", "claude")
        assert (seen["window"], seen["articles_total"]) == ({"from": 0, "to": 15}, 40)
        assert seen["tool_calls"] == 12
        assert seen["recent_tools"][-1] == f"Edit {PATH}"
        # what came of it
        [entry] = await made.fleet.sql("SELECT status::text AS status, coverage_score FROM law_entries")
        assert (entry["status"], entry["coverage_score"]) == ("enriched", 1.0)
        enriched = load_law(made.remote.files("enrich/claude")[PATH])
        assert len([one for one in enriched["articles"] if "machine_readable" in one]) == 40
        assert [len(task.numbers) for task in made.model.tasks.values()] == [15, 15, 10]
        assert sum("enrich(claude)" in subject for subject in made.remote.subjects("enrich/claude")) == 3
        # what it cost
        [booked] = await made.fleet.sql(
            "SELECT sum(input_tokens)::int AS i, sum(output_tokens)::int AS o, sum(cache_read_tokens)::int AS r, "
            "sum(cache_write_tokens)::int AS w, bool_and(usage_complete) AS whole FROM agent_calls"
        )
        total = made.server.tokens
        assert booked == {
            "i": total.input,
            "o": total.output,
            "r": total.cache_read,
            "w": total.cache_write,
            "whole": True,
        }
        # secrets
        rows = await made.fleet.sql(
            "SELECT jobs::text FROM jobs UNION ALL SELECT agent_calls::text FROM agent_calls "
            "UNION ALL SELECT law_entries::text FROM law_entries"
        )
        heard = json.dumps([asked.body for asked in made.server.asked])
        told = process.log.read_text() + repr(rows) + heard + repr(made.remote.files("enrich/claude"))
        for secret in (*CANARIES.values(), OWN):
            assert secret not in told
            assert secret.encode() not in lines
        assert OWN.encode() in environs
        assert not any(secret.encode() in environs for secret in CANARIES.values())
        assert supervisors.database_url.encode() not in environs
        assert not list((made.folder / "work").iterdir())


async def test_a_supervisor_that_dies_between_push_and_completion_costs_no_second_call(supervisors: Fleet) -> None:
    # D53
    async with pod(supervisors, 3) as made:
        await made.add()
        victim = await made.start()
        made.remote.hook("post-receive", f"kill -9 {victim.pid}")
        await victim.exit_code(limit_s=90)
        assert made.remote.tip("enrich/claude") is not None
        assert await made.fleet.statuses() == {"processing": 1}
        made.remote.unhook("post-receive")
        pushed, asked = made.remote.tip("enrich/claude"), len(made.server.asked)
        assert asked > 0
        await made.start()
        await made.fleet.wait_until({"completed": 1}, limit_s=90)
        assert len(made.server.asked) == asked
        assert made.remote.tip("enrich/claude") == pushed
        [job] = await made.fleet.sql("SELECT attempts, result->>'coverage_score' AS coverage FROM jobs")
        assert (job["attempts"], float(job["coverage"])) == (2, 1.0)
        assert not made.clis()


async def test_a_drain_in_the_middle_keeps_what_is_done_and_the_next_supervisor_goes_on(supervisors: Fleet) -> None:
    # D43, SD-01
    async with pod(supervisors, 12) as made:
        go_on = hold(made.model, 2)
        await made.add()
        first = await made.start(SUPERVISOR_DRAIN_SECS="0")
        with trio.fail_after(60):
            await made.server.until_asked(3)
        assert made.clis()
        first.signal(signal.SIGTERM)
        assert await first.exit_code() == exitcodes.CLEAN
        assert not made.clis()
        [job] = await made.fleet.sql("SELECT status::text AS status, attempts - releases AS spent FROM jobs")
        assert job == {"status": "pending", "spent": 0}
        assert made.remote.tip("enrich/claude") is None
        go_on.set()
        await made.start()
        await made.fleet.wait_until({"completed": 1}, limit_s=90)
        before, after = made.model.tasks.values()
        assert before.numbers == tuple(str(number) for number in range(1, 13))
        assert after.numbers == tuple(str(number) for number in range(6, 13))
        enriched = load_law(made.remote.files("enrich/claude")[PATH])
        assert all("machine_readable" in entry for entry in enriched["articles"])
        calls = await made.fleet.sql("SELECT attempt, usage_complete FROM agent_calls ORDER BY started_at")
        assert [call["usage_complete"] for call in calls] == [False, True]


async def test_a_model_that_falls_silent_costs_an_attempt_and_the_retry_is_scheduled(supervisors: Fleet) -> None:
    # AG-01
    async with pod(supervisors, 12) as made:
        made.model.change = lambda task, turn, step: Silence() if turn == 2 else step
        await made.add()
        process = await made.start(ENRICH_AGENT_IDLE_SECS="3")
        await until(lambda: process.said("job ended"), limit_s=90)
        assert not made.clis()
        [job] = await made.fleet.sql(
            "SELECT status::text AS status, attempts, scheduled_at > now() AS later, result->>'error' AS error FROM jobs"
        )
        assert (job["status"], job["attempts"], job["later"]) == ("pending", 1, True)
        assert f"stalled: nothing written for 3 s; last: Edit {PATH}, 2 turns, 7 tool calls" in job["error"]
        [call] = await made.fleet.sql("SELECT verdict, usage_complete FROM agent_calls")
        assert call == {"verdict": "stalled", "usage_complete": False}


async def test_a_supervisor_that_is_killed_takes_its_agents_along(supervisors: Fleet) -> None:
    async with pod(supervisors, 3) as made:
        hold(made.model, 1)
        await made.add()
        victim = await made.start()
        with trio.fail_after(60):
            await made.server.until_asked(2)
        assert made.clis()
        victim.process.kill()
        await until(lambda: not made.clis(), limit_s=15)


async def test_a_window_cut_into_two_slices_is_one_run_with_two_agents_at_once(supervisors: Fleet) -> None:
    # D40
    async with pod(supervisors, 12) as made:
        made.model.change = lambda task, turn, step: (
            evolve(step, pause_s=0.05) if isinstance(step, Answer) and turn < 2 else step
        )
        await made.add()
        await made.start(ENRICH_WINDOW_CONCURRENCY="2")
        await made.fleet.wait_until({"completed": 1}, limit_s=90)
        assert sorted(len(task.numbers) for task in made.model.tasks.values()) == [6, 6]
        assert made.server.most_answering == 2
        calls = await made.fleet.sql("SELECT slice, verdict FROM agent_calls WHERE step = 'translate' ORDER BY slice")
        assert [tuple(call.values()) for call in calls] == [(0, "ok"), (1, "ok")]
        assert len(made.remote.subjects("enrich/claude")) == 2
        enriched = load_law(made.remote.files("enrich/claude")[PATH])
        assert all("machine_readable" in entry for entry in enriched["articles"])


# --- opencode -----------------------------------------------------------------------------------------------------------


async def test_a_law_goes_through_opencode_to_its_branch(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = partial(load_opencode, baked=image_file(tmp_path))
    monkeypatch.setattr("actors.jobs.enrich.lane.load_opencode", found)
    async with OpenAi.running(LawModel("opencode")) as server:
        bench = EnrichBench.create(Rows(database), tmp_path, {PATH: law(3)})
        bench.more["environ"] = environ_of("opencode", server)
        bench.real_runner = lambda: ProcessRunner(None)
        job = await bench.enrich("opencode")
        assert job.status is JobStatus.COMPLETED, job.result
        assert (job.result["coverage_score"], job.result["models"]) == (1.0, ["vlam/kimi-k3-prepaid"])
        assert job.result["session_reuse"] == "off"
        total = server.tokens
        usage = job.result["usage"]
        assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_tokens"]) == (
            total.input,
            total.output,
            total.cache_read,
        )
        enriched = load_law(bench.remote.files("enrich/opencode")[PATH])
        assert all("machine_readable" in entry for entry in enriched["articles"])
        assert not list((tmp_path / "work").iterdir())
