"""A whole supervisor enriches a law: queue, claim, git, child process, completion (``enrich.md``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.lawyaml import load_law
from tests.kit.enrichbench import PATH, fake_claude, law
from tests.kit.gitrepos import Remote, Rival
from tests.kit.jobrows import LAW
from tests.kit.postgres import temporary_folder
from tests.kit.supervisors import Fleet, fleet

pytest_plugins = ["tests.kit.postgres"]


@pytest.fixture
def supervisors(database_url: str) -> Iterator[Fleet]:
    with temporary_folder() as folder, fleet(database_url, folder) as made:
        yield made


@pytest.mark.claim("S0-048", "S0-057", "S0-058", "S0-004")
@pytest.mark.time_limit(120)
async def test_a_law_of_forty_articles_goes_through_three_windows(supervisors: Fleet) -> None:
    folder = supervisors.folder
    remote = Remote.create(folder / "remote.git")
    Rival.of(remote, folder / "rival").push({PATH: law(40)}, "harvest")
    await supervisors.sql(
        "INSERT INTO jobs (job_type, law_id, payload) VALUES ('enrich', $1, "
        "jsonb_build_object('law_id', $1::text, 'yaml_path', $2::text, 'provider', 'claude'))",
        LAW,
        PATH,
    )
    process = supervisors.start(
        roles="enrich",
        CORPUS_REPO_URL=str(remote.path),
        CORPUS_REPO_PATH=str(folder / "checkout"),
        ENRICH_WORK_PATH=str(folder / "work"),
        CLAUDE_PATH=str(fake_claude(folder / "bin")),
        WORKER_JOB_TIMEOUT_SECS="3900",
        ENRICH_HOURLY_LIMIT="100",
    )
    await process.ready()
    await supervisors.wait_until({"completed": 3}, limit_s=90)

    [found] = await supervisors.sql("SELECT status::text AS status, coverage_score FROM law_entries")
    assert (found["status"], found["coverage_score"]) == ("enriched", 1.0)
    assert all("machine_readable" in entry for entry in load_law(remote.files("enrich/claude")[PATH])["articles"])
    assert len([subject for subject in remote.subjects("enrich/claude") if subject.startswith("enrich(claude)")]) == 3
    [usage] = await supervisors.sql("SELECT count(*) AS calls, sum(output_tokens) AS tokens FROM agent_calls")
    assert (usage["calls"], usage["tokens"]) == (3, 6)
    seen = await supervisors.sql("SELECT progress->'worker'->>'articles_total' AS total FROM jobs")
    assert {row["total"] for row in seen} == {"40"}
    assert not list((folder / "work").iterdir())
    assert not Path("/tmp/regelrecht-enrich", LAW).exists()
