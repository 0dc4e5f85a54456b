"""What the debug prompt can ask of pipelines and do to them, over its socket and on a real database."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import evolve, frozen

from actors.ports.database import Database
from actors.scheduler import ScheduleTick
from protocols.failures import InvalidInput
from protocols.runs import RunStatus, Trigger
from schema.pipelines import leases, manage, survey
from schema.pipelines.leases import Resource
from supervisor.repl.pipelines import PipelineDesk
from supervisor.repl.session import SessionRule
from supervisor.terminaltext import harmless
from tests.integration.test_repl import Caller, staged
from tests.kit.pipelines import Shop

RULE = SessionRule(command_s=5, python=True)
TEN = dt.datetime(2026, 6, 1, 10, 0, tzinfo=dt.UTC)


@frozen
class Prompt:
    shop: Shop
    caller: Caller

    async def told(self, line: str) -> str:
        """The answer to what can be done."""
        text, mark = await self.caller.ask(line)
        assert mark == ">", text
        return text

    async def refused(self, line: str) -> str:
        text, mark = await self.caller.ask(line)
        assert mark == "!", text
        assert "Traceback" not in text
        return text


@asynccontextmanager
async def prompt(shop: Shop, rule: SessionRule = RULE) -> AsyncIterator[Prompt]:
    folder = Path(tempfile.mkdtemp(prefix="rr-"))
    desk = PipelineDesk(shop.database, ScheduleTick(shop.database))
    try:
        async with staged(folder / "own/s", rule, pipelines=desk) as stage, stage.caller() as caller:
            yield Prompt(shop, caller)
    finally:
        shutil.rmtree(folder)


async def test_runs_of_all_workspaces_are_listed_the_newest_first_and_are_values_too(shop: Shop) -> None:
    other = await shop.another()
    done = await shop.perform(await shop.pipeline())
    waiting = await other.run_of(await other.pipeline())
    async with prompt(shop) as at:
        for line in ("runs()", "await runs()", "runs"):
            head, first, second = (await at.told(line)).splitlines()
            assert head.split()[:4] == ["RUN", "PIPELINE", "STATUS", "TRIGGER"]
            assert first.split()[:4] == [str(waiting.id), str(waiting.pipeline_id), "pending", "manual"]
            assert second.split()[:4] == [str(done.id), str(done.pipeline_id), "succeeded", "manual"]
            assert "1/1" in second
        assert await at.told("[run.id for run in await runs(1)]") == f"[{waiting.id}]\n"
        assert await at.told(f"[run.id for run in await runs(pipeline={done.pipeline_id})]") == f"[{done.id}]\n"
        for line in ("runs(active=True)", "runs active"):
            assert len((await at.told(line)).splitlines()) == 2
        assert await at.told("runs(pipeline=999)") == "no runs\n"
        assert await at.told("len(await runs(-5))") == "1\n"


async def test_what_a_run_met_stands_on_its_line_and_commands_no_terminal(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline())
    await shop.rows.sql(
        """
        UPDATE pipeline_runs SET status = 'failed', finished_at = now(), error = jsonb_build_object('message', $2::text)
        WHERE id = $1
        """,
        run.id,
        "no \x1b]0;owned\x07\nway",
    )
    async with prompt(shop) as at:
        lines = (await at.told("runs()")).splitlines()
    assert lines[1].endswith("no \ufffd]0;owned\ufffd way")
    assert harmless(lines[1]) == lines[1]


async def test_leases_tell_who_works_on_what_and_for_how_long(shop: Shop) -> None:
    async with prompt(shop) as at:
        assert await at.told("leases()") == "no pipeline or connector is leased\n"
        await shop.database.run(leases.acquire, Resource.PIPELINE, 7, "a:1", ttl_s=90)
        await shop.database.run(leases.acquire, Resource.CONNECTOR, 3, "b:2", ttl_s=-30)
        for line in ("leases()", "leases pipelines"):
            _, connector, pipeline = (await at.told(line)).splitlines()
            assert connector.split()[:3] == ["connector", "3", "b:2"]
            assert "ended 3" in connector
            assert pipeline.split()[:3] == ["pipeline", "7", "a:1"]
            assert "1m" in pipeline
        assert await at.told("[one.holder for one in await leases()]") == "['b:2', 'a:1']\n"
        assert await at.told("leases") == "no lease is held here\n"  # those of jobs


async def test_a_tick_fires_what_is_due_at_the_moment_that_it_is_given(shop: Shop) -> None:
    pipeline = await shop.pipeline(schedule_cron="0 * * * *")
    await shop.rows.sql("UPDATE pipelines SET next_scheduled_at = $2 WHERE id = $1", pipeline.id, TEN)
    async with prompt(shop) as at:
        assert await at.told("tick('2026-06-01T09:59+00:00')") == "Counter()\n"
        assert await at.told("tick('2026-06-01T12:00:30+02:00')") == "Counter({'fired': 1})\n"
        [run] = await shop.history(pipeline)
        assert (run.status, run.trigger, run.scheduled_for) == (RunStatus.PENDING, Trigger.SCHEDULED, TEN)
        assert (await shop.database.run(manage.get_pipeline, pipeline.id)).next_scheduled_at == TEN + dt.timedelta(
            hours=1
        )
        await shop.rows.sql("UPDATE pipelines SET next_scheduled_at = now() - interval '1 hour'")
        assert await at.told("(await tick())['suppressed']") == "1\n"


async def test_a_tick_of_no_moment_or_far_ahead_moves_nothing(shop: Shop) -> None:
    pipeline = await shop.pipeline(schedule_cron="0 * * * *")
    before = await shop.database.run(manage.get_pipeline, pipeline.id)
    async with prompt(shop) as at:
        assert "has a zone" in await at.refused("tick('2026-06-01T10:00')")
        assert "is no moment" in await at.refused("tick('soon')")
        assert "at most a day ahead" in await at.refused("tick('2999-01-01T00:00+00:00')")
    assert await shop.database.run(manage.get_pipeline, pipeline.id) == before


async def test_on_a_database_without_the_job_types_a_tick_moves_no_schedule_on(database: Database) -> None:
    desk = PipelineDesk(database, ScheduleTick(database))
    with pytest.raises(InvalidInput, match="no supervisor with the role"):
        await desk.tick()


async def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_is_asked_to_end(shop: Shop) -> None:
    waiting = await shop.run_of(await shop.pipeline())
    async with prompt(shop) as at:
        assert " cancelled " in (await at.told(f"cancel({waiting.id})")).splitlines()[1]
        assert (await shop.run(waiting.id)).status is RunStatus.CANCELLED
        assert "is cancelled already" in await at.refused(f"cancel({waiting.id})")
        assert "there is no run 999" in await at.refused("cancel(999)")
        running = await shop.run_of(await shop.pipeline())
        work = await shop.claimed()
        assert "to be cancelled" in (await at.told(f"cancel({running.id})")).splitlines()[1]
        assert (await shop.rows.job(work.job.id)).cancel_requested_at is not None


async def test_a_wallet_is_shown_by_address_or_id_with_whether_it_adds_up(shop: Shop) -> None:
    await shop.credit(5000)
    async with prompt(shop) as at:
        _, line = (await at.told(f"wallet('{shop.owner}')")).splitlines()
        assert line.split() == [str(shop.owner), "5000", "0", "5000", "yes"]
        await shop.rows.sql("UPDATE credit_wallets SET balance_micros = balance_micros + 7")
        email = await shop.rows.value("SELECT email FROM accounts WHERE id = $1", shop.owner)
        assert "NO: balance by 7, holds by 0" in await at.told(f"wallet('{email}')")
        assert await at.told(f"(await wallet('{email}'))[0].spendable_micros") == "5007\n"
        assert "no account" in await at.refused("wallet('niemand')")


async def test_what_waits_for_a_locked_row_is_stopped_and_writes_nothing(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline())

    async def hold(connection: object) -> None:
        await connection.execute("SELECT FROM jobs FOR UPDATE")  # type: ignore[attr-defined]
        await connection.execute("SELECT pg_sleep(3)")  # type: ignore[attr-defined]

    async with trio.open_nursery() as nursery, prompt(shop, evolve(RULE, command_s=0.5)) as at:
        nursery.start_soon(shop.database.transact, hold)
        while not await shop.rows.value(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)' AND pid <> pg_backend_pid()"
        ):
            await trio.lowlevel.checkpoint()
        assert await at.refused(f"cancel({run.id})") == "stopped after 0.5 s\n"
        nursery.cancel_scope.cancel()
    assert (await shop.run(run.id)).status is RunStatus.PENDING


async def test_without_python_the_prompt_looks_at_pipelines_and_does_nothing_to_them(shop: Shop) -> None:
    run = await shop.run_of(await shop.pipeline())
    async with prompt(shop, evolve(RULE, python=False)) as at:
        assert str(run.id) in await at.told("runs active")
        assert await at.told("leases pipelines") == "no pipeline or connector is leased\n"
        for line in (f"cancel({run.id})", "tick", "wallet", "runs()"):
            assert "there is no command" in await at.refused(line)


async def test_looking_happens_in_transactions_that_cannot_write(shop: Shop) -> None:
    async def look_and_write(connection: object) -> None:
        await survey.held_leases(connection)  # type: ignore[arg-type]
        await connection.execute("DELETE FROM leases")  # type: ignore[attr-defined]

    with pytest.raises(Exception, match="read-only transaction"):
        await shop.database.transact(look_and_write)
