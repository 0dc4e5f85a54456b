"""Pipelines in whole supervisors: a real site, a real database, processes that are killed at their worst moments."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from attrs import define, field

from schema.pipelines.asking import cancel_run
from supervisor import exitcodes
from tests.kit.postgres import run_on
from tests.kit.processes import until
from tests.kit.supervisors import Fleet, SupervisorProcess
from tests.kit.website import Website, article, page, website

pytest.importorskip("trafilatura", reason="the extra `pipelines` is not installed")

PRICE = 1000
CREDIT = 50 * PRICE
PAGES = 4


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    async with website() as made:
        for number in range(PAGES):
            words = f"Tekst van pagina {number} over de toeslag."
            made.serve(f"/{number}", page(article(f"Pagina {number}", words)))
        yield made


@define
class Estate:
    """One workspace on the pod's database, made as an operator would, and its supervisors."""

    pod: Fleet
    site: Website
    workspace: int = field(init=False)

    async def sql(self, query: str, *args: Any) -> list[dict[str, Any]]:
        return await self.pod.sql(query, *args)

    def start(self, *, roles: str = "pipelines", **environ: str) -> SupervisorProcess:
        settings = {
            "CRAWL_ALLOW_CIDRS": "127.0.0.0/8",
            "CRAWL_ALLOWED_PORTS": str(self.site.port),
            "CRAWL_HOST_DELAY_MS": "0",
            "WEB_CRAWL_CREDIT_BILLING_ENABLED": "1",
            "BLOB_LOCAL_ROOT": str(self.pod.folder / "blobs"),
            "SUPERVISOR_REPL": "0",
            "WORKER_ORPHAN_TIMEOUT_SECS": "10",  # a busy machine must not look like a dead one
        }
        return self.pod.start({**settings, **environ}, roles=roles)

    async def found(self) -> None:
        """Owner, workspace, credit; the job types are there once a supervisor with such a role was."""
        [owner] = await self.sql(
            "INSERT INTO accounts (person_sub, email, name) VALUES ('o', 'o@example.org', 'O') RETURNING id"
        )
        [made] = await self.sql("INSERT INTO workspaces (name, owner_id) VALUES ('W', $1) RETURNING id", owner["id"])
        self.workspace = made["id"]
        await self.sql("INSERT INTO credit_wallets (owner_id, balance_micros) VALUES ($1, $2)", owner["id"], CREDIT)
        await self.sql("INSERT INTO credit_entries (owner_id, amount_micros) VALUES ($1, $2)", owner["id"], CREDIT)
        await self.sql(
            """
            INSERT INTO connectors (workspace_id, owner_id, name, connector_type, config)
            VALUES ($1, $2, 'site', 'WEBCRAWLER_CONNECTOR', $3::text::jsonb)
            """,
            self.workspace,
            owner["id"],
            json.dumps({"INITIAL_URLS": [f"{self.site.url}/{number}" for number in range(PAGES)]}),
        )

    async def pipeline(self, *, save: bool, cron: str | None = None) -> int:
        rows = await self.sql(
            """
            INSERT INTO pipelines (workspace_id, connector_id, name, save_to_kb, schedule_cron)
            SELECT $1, id, 'P', $2, $3 FROM connectors RETURNING id
            """,
            self.workspace,
            save,
            cron,
        )
        return int(rows[0]["id"])

    async def ask(self, pipeline: int) -> int:
        [row] = await self.sql(
            "INSERT INTO pipeline_runs (pipeline_id, trigger) VALUES ($1, 'manual') RETURNING id", pipeline
        )
        payload = {"run_id": row["id"], "pipeline_id": pipeline, "workspace_id": self.workspace, "trigger": "manual"}
        await self.sql(
            """
            WITH job AS (
                INSERT INTO jobs (job_type, law_id, priority, payload, max_attempts)
                VALUES ('pipeline_run', 'pipeline:' || $1::text, 60, $2::text::jsonb, 2) RETURNING id)
            UPDATE pipeline_runs SET job_id = (SELECT id FROM job) WHERE id = $3
            """,
            str(pipeline),
            json.dumps(payload),
            row["id"],
        )
        return int(row["id"])

    async def run(self, run_id: int) -> dict[str, Any]:
        [row] = await self.sql(
            "SELECT *, status::text AS status, error::text AS error FROM pipeline_runs WHERE id = $1", run_id
        )
        return row

    async def ended(self, run_id: int, *, limit_s: float = 90) -> dict[str, Any]:
        with trio.fail_after(limit_s):
            while (found := await self.run(run_id))["status"] in ("pending", "running"):  # noqa: ASYNC110 - others work on it
                await trio.sleep(0.05)
        return found

    async def settled(self, *, charged: int) -> None:
        """The books are in order and nothing is held any more."""
        assert await self.sql("SELECT balance_micros, reserved_micros FROM credit_wallets") == [
            {"balance_micros": CREDIT - charged, "reserved_micros": 0}
        ]
        assert await self.sql("SELECT COALESCE(sum(cost_micros), 0)::bigint AS n FROM token_usage") == [{"n": charged}]
        assert await self.sql("SELECT * FROM leases") == []
        assert await self.sql("SELECT id FROM pipeline_runs WHERE status IN ('pending', 'running')") == []


@pytest.fixture
async def estate(pod: Fleet, site: Website) -> Estate:
    made = Estate(pod, site)
    await made.found()
    return made


async def prepared(estate: Estate) -> None:
    """A supervisor with the role ran once, so the job types are there (D23)."""
    assert await estate.sql("SELECT 1 FROM pg_enum WHERE enumlabel = 'pipeline_run'") == []
    first = estate.start(roles="pipelines,connectors")
    await first.ready()
    first.signal(signal.SIGTERM)
    assert await first.exit_code() == exitcodes.CLEAN
    assert len(await estate.sql("SELECT 1 FROM pg_enum WHERE enumlabel IN ('pipeline_run', 'connector_index')")) == 2


@pytest.mark.slow
@pytest.mark.time_limit(180)
@pytest.mark.claim("S3-060")
@pytest.mark.parametrize("save", [True, False])
@pytest.mark.parametrize(
    "failpoint",
    [
        "outcomes.write.before:1",  # not even marked running
        "outcomes.write.after:1",  # marked running
        "outcomes.write.after:2",  # leased
        "outcomes.write.after:3",  # list frozen, credit held
        "outcomes.write.before:4",  # documents opened, or blob announced
        "outcomes.write.after:5",  # in the middle of the crawl
        "outcomes.complete.before:1",  # all done, the one terminal commit not made
        "outcomes.complete.after:1",  # made, and nobody told
    ],
)
async def test_a_kill_at_any_moment_ends_in_one_charge_at_most_and_a_run_that_is_over(
    estate: Estate, save: bool, failpoint: str
) -> None:
    await prepared(estate)
    if failpoint == "outcomes.write.after:5" and not save:
        failpoint = "outcomes.write.after:4"
    run_id = await estate.ask(await estate.pipeline(save=save))
    mortal = estate.start(FAILPOINT=failpoint)
    assert await mortal.exit_code(40) == -signal.SIGKILL
    estate.start()
    done = await estate.ended(run_id)
    assert done["status"] == "succeeded", done["error"]
    assert (done["crawls_attempted"], done["crawls_succeeded"]) == (PAGES, PAGES)
    assert done["charged_micros"] == PAGES * PRICE
    await estate.settled(charged=PAGES * PRICE)
    if save:
        assert await estate.sql("SELECT count(*) AS n FROM documents WHERE state = 'ready'") == [{"n": PAGES}]
    else:
        result = json.loads((estate.pod.folder / "blobs" / done["result_blob_key"]).read_bytes())
        assert [entry["status"] for entry in result["runs"]] == ["success"] * PAGES


@pytest.mark.slow
@pytest.mark.time_limit(180)
async def test_a_run_that_loses_its_worker_twice_is_failed_and_the_next_one_works(estate: Estate) -> None:
    await prepared(estate)
    pipeline = await estate.pipeline(save=True)
    run_id = await estate.ask(pipeline)
    for _ in range(2):
        mortal = estate.start(FAILPOINT="outcomes.write.after:3")
        assert await mortal.exit_code(40) == -signal.SIGKILL
    estate.start()
    done = await estate.ended(run_id)
    assert done["status"] == "failed"
    assert json.loads(done["error"])["code"] == "worker_lost"
    await estate.settled(charged=0)
    assert (await estate.ended(await estate.ask(pipeline)))["status"] == "succeeded"
    await estate.settled(charged=PAGES * PRICE)


@pytest.mark.slow
@pytest.mark.time_limit(180)
async def test_a_drain_in_the_middle_hands_the_run_to_the_next_supervisor_with_what_is_done(
    estate: Estate, site: Website
) -> None:
    await prepared(estate)
    run_id = await estate.ask(await estate.pipeline(save=True))
    one = estate.start(CRAWL_HOST_DELAY_MS="1500", SUPERVISOR_DRAIN_SECS="0.2")
    await until(lambda: len(site.pages) >= 2, limit_s=30)
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN
    assert (await estate.run(run_id))["status"] == "pending"
    job = await estate.sql("SELECT attempts, max_attempts, releases, status::text AS status FROM jobs")
    assert job == [{"attempts": 1, "max_attempts": 3, "releases": 1, "status": "pending"}]
    assert await estate.sql("SELECT reserved_micros FROM credit_wallets") == [{"reserved_micros": 0}]
    assert await estate.sql("SELECT * FROM leases") == []
    estate.start()
    done = await estate.ended(run_id)
    assert (done["status"], done["crawls_succeeded"], done["claim_seq"]) == ("succeeded", PAGES, 2)
    await estate.settled(charged=PAGES * PRICE)


@pytest.mark.slow
@pytest.mark.time_limit(60)
async def test_a_running_run_is_cancelled_from_outside_and_costs_nothing(estate: Estate, site: Website) -> None:
    await prepared(estate)
    run_id = await estate.ask(await estate.pipeline(save=True))
    estate.start(CRAWL_HOST_DELAY_MS="3000")
    await until(lambda: len(site.pages) >= 1, limit_s=30)

    async def cancel(connection: Any) -> None:
        async with connection.transaction():
            await cancel_run(connection, run_id)

    await trio.to_thread.run_sync(run_on, estate.pod.database_url, cancel)
    assert (await estate.ended(run_id))["status"] == "cancelled"
    await estate.settled(charged=0)


@pytest.mark.slow
@pytest.mark.time_limit(60)
@pytest.mark.parametrize("role", ["pipelines", "connectors", "scheduler"])
async def test_each_role_starts_and_ends_alone(estate: Estate, role: str) -> None:
    one = estate.start(roles=role)
    await one.ready()
    one.signal(signal.SIGTERM)
    assert await one.exit_code() == exitcodes.CLEAN


@pytest.mark.slow
@pytest.mark.time_limit(60)
async def test_ticks_and_cleared_results_are_among_the_metrics(estate: Estate) -> None:
    one = estate.start(roles="scheduler,pipelines,api", HEALTH_PORT="0", API_PORT="0")
    await one.ready()
    await until(lambda: one.said("health endpoint"))
    [line] = [line for line in one.lines() if line["event"] == "health endpoint"]
    address = str(line["urls"][0]).replace("0.0.0.0", "127.0.0.1")
    async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
        text = (await client.get("/metrics")).text
    for name in ("schedule_last_tick_timestamp_seconds 0.0", 'results_cleared{what="removed"} 0.0'):
        assert f"regelrecht_supervisor_{name}" in text
    assert not any("BLOB_BACKEND=local" in str(line.get("hint")) for line in one.lines())


async def test_an_unknown_role_is_a_usage_error_that_names_the_known_ones(estate: Estate) -> None:
    one = estate.start(roles="pipelines,cook")
    assert await one.exit_code() == exitcodes.USAGE
    assert "known roles are api, connectors" in one.log.read_text() or "connectors, enrich" in one.log.read_text()


async def test_on_a_database_of_the_platform_the_job_types_need_a_word_of_the_operator(estate: Estate) -> None:
    # D23
    await estate.sql("CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL)")
    one = estate.start(roles="scheduler")
    assert await one.exit_code() == exitcodes.USAGE
    assert "PIPELINES_ON_SHARED_DATABASE=1" in one.log.read_text()
    assert await estate.sql("SELECT 1 FROM pg_enum WHERE enumlabel = 'pipeline_run'") == []
    allowed = estate.start(roles="scheduler", PIPELINES_ON_SHARED_DATABASE="1")
    await allowed.ready()
    assert len(await estate.sql("SELECT 1 FROM pg_enum WHERE enumlabel = 'pipeline_run'")) == 1


async def test_a_supervisor_without_such_a_role_adds_no_job_type(estate: Estate) -> None:
    one = estate.start(roles="harvest")
    await one.ready()
    assert await estate.sql("SELECT 1 FROM pg_enum WHERE enumlabel IN ('pipeline_run', 'connector_index')") == []
