"""Probes and metrics as the platform reads them (D19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from attrs import evolve

from schema.rows import JobType
from supervisor.health import Condition, health_app
from supervisor.metrics import Metrics

FINE = Condition("running", 0.001, database_answers=True, beat_age_s=3.0, claim_age_s=1.0, jobs=2)


@pytest.fixture
def now() -> list[Condition]:
    """The condition that the probes see; a test puts another one in its place."""
    return [FINE]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def client(now: list[Condition], metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(health_app(lambda: now[0], metrics.registry))
    async with httpx.AsyncClient(transport=transport, base_url="http://pod") as opened:
        yield opened


async def test_a_supervisor_that_claims_is_ready(client: httpx.AsyncClient) -> None:
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["jobs"]) == (200, "ready", 2)


async def test_pauses_are_a_detail_and_no_reason_to_be_unready(client: httpx.AsyncClient, now: list[Condition]) -> None:
    now[0] = evolve(FINE, paused=("harvest", "provider:claude"))
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["paused"]) == (200, ["harvest", "provider:claude"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phase": "draining"}, "phase is draining"),
        ({"phase": "starting"}, "phase is starting"),
        ({"database_answers": False}, "the database does not answer"),
        ({"database_answers": None}, "the database was not asked yet"),
    ],
)
async def test_one_that_does_not_claim_says_why_and_stays_alive(
    client: httpx.AsyncClient, now: list[Condition], change: dict[str, Any], reason: str
) -> None:
    now[0] = evolve(FINE, **change)
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, [reason])
    assert (await client.get("/healthz")).status_code == 200


async def test_health_tells_loop_database_and_beat(client: httpx.AsyncClient) -> None:
    body = (await client.get("/healthz")).json()
    assert (body["status"], body["loop_lag_s"], body["database_answers"], body["beat_age_s"]) == (
        "ok",
        0.001,
        True,
        3.0,
    )


async def test_counts_are_exported_in_the_text_format(client: httpx.AsyncClient, metrics: Metrics) -> None:
    metrics.claimed(JobType.HARVEST)
    metrics.finished(JobType.HARVEST, "completed", 2.5)
    metrics.finished(JobType.HARVEST, "transient", 0.5)
    metrics.beaten(3, at=trio.current_time())
    metrics.beat_failed()
    metrics.lease_lost()
    metrics.fenced()
    metrics.reaped(JobType.ENRICH)
    metrics.restarted("reaper")
    metrics.gauge("loop_lag_seconds", "test", lambda: 0.25)
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = set(answer.text.splitlines())
    for expected in (
        'jobs_claimed_total{job_type="harvest"} 1.0',
        'jobs_finished_total{job_type="harvest",outcome="completed"} 1.0',
        'jobs_finished_total{job_type="harvest",outcome="transient"} 1.0',
        'job_seconds_count{job_type="harvest"} 2.0',
        'beats_total{answered="yes"} 1.0',
        'beats_total{answered="no"} 1.0',
        "leases_lost_total 1.0",
        "jobs_fenced_total 1.0",
        'jobs_reaped_total{job_type="enrich"} 1.0',
        'actor_restarts_total{actor="reaper"} 1.0',
        "loop_lag_seconds 0.25",
    ):
        assert f"regelrecht_supervisor_{expected}" in lines


async def test_other_paths_and_large_bodies_are_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).status_code == 404
    assert (await client.post("/healthz", content=b"x" * 10_000)).status_code in {405, 413}


def test_a_failed_beat_is_a_database_that_does_not_answer(metrics: Metrics) -> None:
    metrics.beat_failed()
    assert metrics.database_answers is False
