"""What people see of budget, providers and costs: ``jobs list`` and ``usage``, run as a user runs them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from schema import pauses
from schema.agentcalls import AgentCall, record_call
from schema.queue import create_job, get_job
from schema.rows import Job, JobRequest, JobType
from supervisor import exitcodes
from supervisor.budgettext import UNKNOWN
from tests.kit import cli
from tests.kit.postgres import run_on

NOW = dt.datetime.now(dt.UTC)


def add(url: str, law_id: str, provider: str | None, *, ran: bool = False) -> Job:
    """A pending enrich job; ``ran``: it has been claimed within this hour already."""

    async def work(connection: Any) -> Job:
        payload = {"law_id": law_id, **({} if provider is None else {"provider": provider})}
        job = await create_job(connection, JobRequest(JobType.ENRICH, law_id, payload=payload))
        if ran:
            await connection.execute(
                "UPDATE jobs SET status = 'completed', run_provider = $2, started_at = now(), run_starts = ARRAY[now()] WHERE id = $1",
                job.id,
                provider,
            )
        return await get_job(connection, job.id)

    made: Job = run_on(url, work)
    return made


def notes(url: str, **settings: str) -> dict[str, str | None]:
    """By law: what its job waits for."""
    done = cli.run("jobs", "list", "--status", "pending", "--json", DATABASE_URL=url, **settings)
    assert done.code == 0, done.err
    return {row["law_id"]: row.get("waits_for") for row in done.json}


@pytest.mark.claim("S0-052")
def test_a_list_of_jobs_says_which_wait_for_the_next_hour_of_claude(database_url: str) -> None:
    add(database_url, "ran", "claude", ran=True)
    add(database_url, "claude", "claude")
    add(database_url, "opencode", "opencode")
    add(database_url, "unnamed", None)
    limit = {"ENRICH_HOURLY_LIMIT": "1", "LLM_PROVIDER": "claude"}
    seen = notes(database_url, **limit)
    assert seen["opencode"] is None
    assert seen["claude"] == seen["unnamed"]
    assert str(seen["claude"]).startswith("waiting for next hour (")
    assert str(seen["claude"]).endswith("1 of 1 claude runs used")
    table = cli.run("jobs", "list", DATABASE_URL=database_url, **limit)
    assert table.out.count("waiting for next hour") == 2
    assert "ENRICH_HOURLY_LIMIT" in str(notes(database_url)["claude"])
    assert set(notes(database_url, ENRICH_HOURLY_LIMIT="9").values()) == {None}


def test_a_limit_that_is_not_set_here_is_told_the_same_everywhere_and_is_no_zero(database_url: str) -> None:
    add(database_url, "claude", "claude")
    for settings, words in (
        ({}, UNKNOWN),
        ({"ENRICH_HOURLY_LIMIT": "0"}, "no claude run is allowed (ENRICH_HOURLY_LIMIT is 0 here)"),
    ):
        assert notes(database_url, **settings)["claude"] == words
        status = " ".join(cli.run("status", DATABASE_URL=database_url, **settings).out.split())
        assert re.search(rf"claude runs since [0-9]{{2}}:00 Amsterdam: 0; {re.escape(words)}, 1 job waiting", status), (
            status
        )


def test_a_job_whose_time_has_come_waits_for_what_holds_it_up_and_tells_why_it_failed_before(database_url: str) -> None:
    job = add(database_url, "claude", "claude")

    async def failed_before(connection: Any) -> None:
        await connection.execute(
            "UPDATE jobs SET scheduled_at = now() - interval '1 minute', attempts = 1, result = '{\"error\": \"stalled\"}' "
            "WHERE id = $1",
            job.id,
        )

    run_on(database_url, failed_before)
    shown = cli.run("jobs", "list", DATABASE_URL=database_url, ENRICH_HOURLY_LIMIT="0").out
    assert "no claude run is allowed (ENRICH_HOURLY_LIMIT is 0 here); attempt 1 failed: stalled" in shown


def test_a_list_of_jobs_says_what_is_paused_and_who_is_in_trouble(database_url: str) -> None:
    add(database_url, "claude", "claude")
    add(database_url, "opencode", "opencode")

    async def trouble(connection: Any) -> None:
        await pauses.bench_provider(connection, "claude", reason="invalid bearer token")
        await pauses.bench_provider(connection, "opencode", credential_hash="aa", reason="one of several")

    run_on(database_url, trouble)
    seen = notes(database_url, ENRICH_HOURLY_LIMIT="9")
    assert seen == {"claude": "claude is in trouble: invalid bearer token", "opencode": None}

    async def pause(connection: Any) -> None:
        await pauses.pause(connection, pauses.PauseScope.JOB_TYPE, "enrich", reason="moving house", for_s=60.0)

    run_on(database_url, pause)
    assert all("moving house" in str(note) for note in notes(database_url).values())


def book(url: str) -> None:
    """Three calls: two on one law, one of them cut short, one on another law a week ago."""
    old = NOW - dt.timedelta(days=7)
    calls = {
        "zorgtoeslag": [
            AgentCall(0, "claude", "translate", NOW, NOW, "ok", input_tokens=1000, output_tokens=200,
                      cache_read_tokens=50, cache_write_tokens=7, usage_complete=True, cost_millicents=150_000),
            AgentCall(1, "claude", "schema", NOW, NOW, "stalled", input_tokens=10),
        ],
        "huurtoeslag": [
            AgentCall(0, "opencode", "translate", old, old, "ok", input_tokens=1, output_tokens=2, cache_read_tokens=0,
                      cache_write_tokens=0, usage_complete=True, cost_millicents=0),
        ],
    }  # fmt: skip
    for law_id, made in calls.items():
        job = add(url, law_id, "claude")

        async def work(connection: Any, job: Job = job, made: list[AgentCall] = made) -> None:
            for call in made:
                await record_call(connection, job, call)

        run_on(url, work)


def test_usage_adds_up_by_law_by_provider_and_by_hour(database_url: str) -> None:
    book(database_url)
    done = cli.run("usage", "--json", DATABASE_URL=database_url)
    assert done.code == 0, done.err
    assert (done.json["by"], done.json["since"]) == ("law", None)
    [dear, cheap] = done.json["lines"]
    assert dear == {
        "law": "zorgtoeslag", "calls": 2, "input_tokens": 1010, "output_tokens": 200, "cache_read_tokens": 50,
        "cache_write_tokens": 7, "cost_millicents": 150_000, "incomplete": 1,
    }  # fmt: skip
    assert cheap["law"] == "huurtoeslag"
    assert (done.json["total"]["calls"], done.json["total"]["output_tokens"]) == (3, 202)
    by_provider = cli.run("usage", "--by", "provider", "--json", DATABASE_URL=database_url).json["lines"]
    assert [line["provider"] for line in by_provider] == ["claude", "opencode"]
    hours = cli.run("usage", "--by", "hour", "--json", DATABASE_URL=database_url).json["lines"]
    assert [line["hour"] for line in hours] == [
        f"{moment:%Y-%m-%dT%H}:00Z" for moment in (NOW - dt.timedelta(days=7), NOW)
    ]


def test_usage_since_a_moment_leaves_the_older_calls_out(database_url: str) -> None:
    book(database_url)
    for since in (
        "24h",
        "2d",
        f"{NOW - dt.timedelta(days=3):%Y-%m-%d}",
        f"{NOW - dt.timedelta(hours=1):%Y-%m-%dT%H:%M}",
    ):
        done = cli.run("usage", "--since", since, "--json", DATABASE_URL=database_url)
        assert [line["law"] for line in done.json["lines"]] == ["zorgtoeslag"], since
    assert len(cli.run("usage", "--since", "8d", "--json", DATABASE_URL=database_url).json["lines"]) == 2


def test_usage_for_people_shows_dollars_and_says_where_they_are_the_least(database_url: str) -> None:
    empty = cli.run("usage", "--since", "1h", DATABASE_URL=database_url)
    assert (empty.code, empty.out) == (0, "")
    assert "no calls of agents since" in empty.err
    book(database_url)
    lines = cli.run("usage", DATABASE_URL=database_url).out.splitlines()
    assert lines[1].split("  ")[0].strip() == "zorgtoeslag"
    assert lines[1].rstrip().endswith("at least $1.50")
    assert lines[2].rstrip().endswith("$0.00")
    assert lines[3].startswith("total")


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "5", "999999d"])
def test_a_moment_that_cannot_be_read_is_answered_with_examples(since: str) -> None:
    done = cli.run("usage", "--since", since)
    assert done.code == exitcodes.USAGE
    assert "24h" in done.err
    assert "Traceback" not in done.err
