"""Pauses that people set: for a time or until resumed, for every supervisor of the database at its next claim."""

from __future__ import annotations

import datetime as dt

from schema import pauses
from schema.pauses import PauseScope
from schema.rows import JobType
from tests.kit.jobrows import Rows


async def test_a_pause_with_an_end_ends_by_itself_and_claimers_know_when_to_look_again(rows: Rows) -> None:
    job = await rows.add()
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", for_s=40.0)
    answer = await rows.claim()
    assert answer.jobs == ()
    assert answer.next_due_s is not None
    assert 30 < answer.next_due_s <= 40
    await rows.sql("UPDATE pauses SET until = now() - interval '1 second'")
    assert [one.id for one in (await rows.claim()).jobs] == [job.id]
    assert await rows.database.run(pauses.list_pauses) == []
    assert await rows.database.run(pauses.paused_names) == ()


async def test_resuming_what_has_ended_says_that_it_was_not_paused(rows: Rows) -> None:
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", for_s=40.0)
    await rows.sql("UPDATE pauses SET until = now() - interval '1 second'")
    assert not await rows.database.transact(pauses.resume, PauseScope.JOB_TYPE, "harvest")


async def test_a_pause_again_takes_the_newer_end(rows: Rows) -> None:
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", for_s=40.0, reason="short")
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest", reason="long")
    [pause] = await rows.database.run(pauses.list_pauses)
    assert (pause.until, pause.reason) == (None, "long")


async def test_the_end_of_a_bench_is_a_reason_to_look_again(rows: Rows) -> None:
    await rows.enrich("claude")
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=50)
    await rows.database.run(pauses.bench_provider, "claude", until=soon, reason="quota")
    answer = await rows.claim(JobType.ENRICH)
    assert answer.jobs == ()
    assert answer.next_due_s is not None
    assert answer.next_due_s <= 50


async def test_everything_that_is_paused_is_named_once(rows: Rows) -> None:
    await rows.database.run(pauses.pause, PauseScope.JOB_TYPE, "harvest")
    await rows.database.run(pauses.pause, PauseScope.PROVIDER, "claude")
    await rows.database.run(pauses.bench_provider, "claude", reason="billing")
    await rows.database.run(pauses.bench_provider, "opencode", credential_hash="aa", reason="quota")
    names = await rows.database.run(pauses.paused_names)
    assert names == ("harvest", "provider:claude", "provider:opencode (one credential)")


async def test_freeing_a_provider_from_its_troubles_leaves_the_pause_of_a_person(rows: Rows) -> None:  # D52
    await rows.database.run(pauses.pause, PauseScope.PROVIDER, "claude")
    await rows.database.run(pauses.bench_provider, "claude", reason="billing")
    assert await rows.database.transact(pauses.resume_provider, "claude") == 1
    assert await rows.database.run(pauses.paused_names) == ("provider:claude",)
