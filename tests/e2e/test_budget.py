"""Several supervisors and one hourly budget; a provider in trouble. Real processes, a real database, no agents."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor import exitcodes
from tests.kit import fakeenrich
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, SupervisorProcess, fleet

USED_UP = "claude budget of this hour is used up: its jobs wait"
GOOD, WRONG = "sk-ant-oat-good-canary", "sk-ant-oat-wrong-canary"


@pytest.fixture
def pod(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "bad").write_text("")
    with fleet(database_url, tmp_path) as made:
        yield made


def start(pod: Fleet, **settings: str) -> SupervisorProcess:
    """One that serves enrich jobs without agents."""
    paths = {fakeenrich.LEDGER: str(pod.folder / "runs"), fakeenrich.BAD: str(pod.folder / "bad")}
    return pod.start({"ENRICH_CONCURRENCY": "3", **paths, **settings}, roles="enrich", module="tests.kit.fakeenrich")


async def add(pod: Fleet, provider: str, count: int, priority: int = 50) -> None:
    await pod.sql(
        "INSERT INTO jobs (job_type, law_id, payload, priority) "
        "SELECT 'enrich', $1 || n, jsonb_build_object('provider', $1::text), $3 FROM generate_series(1, $2::int) AS n",
        provider,
        count,
        priority,
    )


async def counts(pod: Fleet) -> dict[tuple[str, str], int]:
    rows = await pod.sql(
        "SELECT payload->>'provider' AS p, status::text AS s, count(*)::int AS n FROM jobs GROUP BY 1, 2"
    )
    return {(row["p"], row["s"]): row["n"] for row in rows}


async def runs_by_hour(pod: Fleet) -> list[int]:
    """Claude runs of each clock hour so far; more than one when the test met the end of an hour."""
    rows = await pod.sql(
        "SELECT count(*)::int AS n FROM jobs, unnest(run_starts) AS run(at) WHERE run_provider = 'claude' "
        "GROUP BY date_trunc('hour', at, 'Europe/Amsterdam') ORDER BY date_trunc('hour', at, 'Europe/Amsterdam')"
    )
    return [row["n"] for row in rows]


async def wait_for(pod: Fleet, what: Any, limit_s: float = 60) -> None:
    """Until the async ``what`` says yes."""
    with trio.move_on_after(limit_s):
        while not await what():  # noqa: ASYNC110 - a database that others work on
            await trio.sleep(0.1)
        return
    pytest.fail(f"not within {limit_s} s: {await counts(pod)}\n{pod.processes[0].log.read_text()[-3000:]}")


@pytest.mark.claim("S0-043", "S0-051", "S0-052", "S0-053")
@pytest.mark.slow
@pytest.mark.time_limit(150)
async def test_four_supervisors_make_exactly_ten_of_a_hundred_claude_runs_while_all_opencode_jobs_get_done(
    pod: Fleet,
) -> None:
    limit = {"ENRICH_HOURLY_LIMIT": "10"}
    await add(pod, "claude", 100, priority=90)
    await add(pod, "opencode", 40, priority=10)
    four = [start(pod, **limit) for _ in range(4)]

    async def done() -> bool:
        now = await counts(pod)
        return now.get(("opencode", "completed")) == 40 and (await runs_by_hour(pod))[-1:] == [10]

    await wait_for(pod, done)
    # all of them have met the end of the hour's budget, and said so once
    await until(lambda: all(one.said(USED_UP) for one in four), limit_s=30)
    # one goes, and its successor finds the hour as used up as it was
    four[0].signal(signal.SIGTERM)
    assert await four[0].exit_code() == exitcodes.CLEAN
    heir = start(pod, **limit)
    await until(lambda: heir.said(USED_UP), limit_s=30)
    await wait_for(pod, done)
    hours = await runs_by_hour(pod)
    assert set(hours) == {10}, hours
    assert all(sum(line.get("event") == USED_UP for line in one.lines()) <= len(hours) for one in [*four, heir])
    ledger = fakeenrich.runs(pod.folder / "runs")
    assert sum(count for (provider, _), count in ledger.items() if provider == "claude") == sum(hours)
    assert (await counts(pod))[("claude", "pending")] == 100 - sum(hours)
    for one in [*four[1:], heir]:
        one.signal(signal.SIGTERM)
        assert await one.exit_code() == exitcodes.CLEAN


@pytest.mark.claim("S0-054")
@pytest.mark.time_limit(90)
async def test_without_a_limit_no_claude_job_runs_and_the_supervisor_says_why(pod: Fleet) -> None:
    await add(pod, "claude", 5, priority=90)
    await add(pod, "opencode", 5)
    one = start(pod, ENRICH_HOURLY_LIMIT="abc")

    async def done() -> bool:
        return (await counts(pod)).get(("opencode", "completed")) == 5

    await wait_for(pod, done)
    assert (await counts(pod))[("claude", "pending")] == 5
    assert await runs_by_hour(pod) == []
    assert any("ENRICH_HOURLY_LIMIT" in str(line.get("event")) for line in one.lines())


@pytest.mark.time_limit(120)
async def test_tokens_that_are_refused_rest_one_by_one_and_one_that_works_again_is_found_by_a_probe(pod: Fleet) -> None:
    # D52
    bad = pod.folder / "bad"
    bad.write_text(f"{WRONG}\n{GOOD}\n")
    await add(pod, "claude", 12, priority=90)
    await add(pod, "opencode", 3)
    tokens = {"CLAUDE_CODE_OAUTH_TOKEN": f"{WRONG}, {GOOD},"}
    one = start(pod, **tokens, ENRICH_CONCURRENCY="1", ENRICH_HOURLY_LIMIT="1000", HEALTH_PORT="0")

    async def others_done() -> bool:
        return (await counts(pod)).get(("opencode", "completed")) == 3

    async def claude_done() -> bool:
        return (await counts(pod)).get(("claude", "completed")) == 12

    await wait_for(pod, others_done)
    assert len(await pod.sql("SELECT 1 FROM provider_pauses WHERE until IS NULL")) == 2
    rows = await pod.sql(
        "SELECT status::text AS s, attempts - releases AS deaths FROM jobs WHERE run_provider = 'claude'"
    )
    assert [(row["s"], row["deaths"]) for row in rows] == [("pending", 0)]  # the first of them, twice
    await until(lambda: "provider:claude (one credential)" in _readyz(one)["paused"], limit_s=30)
    assert _readyz(one)["status"] == "ready"
    assert _readyz(one)["claude"]["cap"] == 1000
    figures = _get(one, "metrics").decode()
    assert 'regelrecht_supervisor_provider_paused{provider="claude"} 1.0' in figures
    assert 'regelrecht_supervisor_provider_paused{provider="opencode"} 0.0' in figures
    assert "regelrecht_supervisor_claude_runs_cap 1000.0" in figures
    assert "regelrecht_supervisor_claude_blocked 0.0" in figures

    bad.write_text(f"{WRONG}\n")
    await pod.sql("UPDATE provider_pauses SET probe_at = now()")
    await wait_for(pod, claude_done)
    runs = fakeenrich.runs(pod.folder / "runs")
    assert (runs["claude", "1 of 2"], runs["claude", "2 of 2"]) == (2, 13)
    [bench] = await pod.sql("SELECT provider, credential_hash, reason, probe_at > now() AS rests FROM provider_pauses")
    assert bench["rests"]
    everything = await pod.sql("SELECT jobs::text AS row FROM jobs UNION ALL SELECT p::text FROM provider_pauses AS p")
    for place in [one.log.read_text(), str(everything)]:
        assert "canary" not in place


def _readyz(one: SupervisorProcess) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_get(one, "readyz"))
    return document


def _get(one: SupervisorProcess, path: str) -> bytes:
    """What its health endpoint answers; the address is in its log."""
    [url] = next(line["urls"] for line in one.lines() if line.get("event") == "health endpoint")
    port = url.rsplit(":", 1)[1].strip("/")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        body: bytes = answer.read()
    return body
