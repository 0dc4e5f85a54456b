"""Play one plan from the first start to the last process gone, and gather what is known afterwards."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import trio
from attrs import frozen

from tests.faults.arena import END_S, Arena, arena, processes_in
from tests.faults.checker import ON_THE_WAY, Verdict, claim_of, judge, row_kind
from tests.faults.evidence import Change, Evidence, Landing, Pause, Row
from tests.faults.ground import Ground
from tests.faults.injuries import inflict
from tests.faults.plan import Plan
from tests.kit.gitrepos import git
from tests.kit.supervisors import Fleet, fleet

SETTLE_LIMIT_S = 120.0
GRACE_S = 4.0
"""After a pause a supervisor learns within a beat that its jobs are gone, and a deaf child takes 2 s to die."""

_CRASHES = ("actor crashed", "job runner crashed", "actor failed while it was cancelled", "held lease without a runner")


@frozen
class Outcome:
    """``inflicted``: how often each kind; ``skipped``: why a kind was not."""

    plan: Plan
    verdict: Verdict
    inflicted: Counter[str]
    skipped: dict[str, str]
    points: Counter[str]
    """Failpoints that were passed and did their work."""
    seconds: float


def play(ground: Ground, plan: Plan, folder: Path) -> Outcome:
    """From the main thread, outside any loop."""
    began = time.monotonic()
    folder.mkdir()
    with ground.fresh() as url, fleet(url, folder) as pods:
        return trio.run(_play, ground, plan, pods, began)


async def _play(ground: Ground, plan: Plan, pods: Fleet, began: float) -> Outcome:
    async with arena(ground, pods, seats=plan.seats, seed=plan.seed) as playing:
        async with supervised(playing):
            async with trio.open_nursery() as feeding:
                feeding.start_soon(playing.feed)
                await _inflict_all(playing, plan)
                feeding.cancel_scope.cancel()
            verdict = await conclude(playing)
        return Outcome(plan, verdict, playing.inflicted, playing.skipped, _points(playing), time.monotonic() - began)


@asynccontextmanager
async def supervised(playing: Arena) -> AsyncIterator[trio.Nursery]:
    """A supervisor on every seat, ready at the begin of the block, and waiting times that pass quickly."""
    async with trio.open_nursery() as hands:
        for seat in playing.seats:
            hands.start_soon(seat.keep)
        for seat in playing.seats:
            await seat.ready()
        hands.start_soon(playing.let_time_pass)
        yield hands
        hands.cancel_scope.cancel()


async def conclude(playing: Arena, limit_s: float = SETTLE_LIMIT_S) -> Verdict:
    """Let all jobs end, then all supervisors, and judge."""
    await playing.settled(limit_s)
    idle = await _idle_in_transaction(playing)
    complaints = await _close(playing)
    return judge(await _gather(playing, idle, complaints), grace_s=GRACE_S)


async def _inflict_all(playing: Arena, plan: Plan) -> None:
    start = trio.current_time()

    async def at_its_time(fault: Any) -> None:
        await trio.sleep_until(start + fault.at_s)
        await inflict(playing, fault)

    async with trio.open_nursery() as nursery:
        for fault in plan.faults:
            nursery.start_soon(at_its_time, fault)


async def _idle_in_transaction(playing: Arena) -> int:
    (row,) = await playing.sql(
        "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() "
        "AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 second'"
    )
    return int(row["n"])


async def _close(playing: Arena) -> list[str]:
    """SIGTERM to all at once; what was wrong with their ends."""
    complaints: list[str] = []

    async def one(seat: Any) -> None:
        complaint = await seat.close(END_S)
        if complaint is not None:
            complaints.append(complaint)

    async with trio.open_nursery() as nursery:
        for seat in playing.seats:
            nursery.start_soon(one, seat)
    return complaints


async def _gather(playing: Arena, idle: int, complaints: list[str]) -> Evidence:
    rows = [
        Row(
            row["id"],
            row["job_type"],
            row["law_id"],
            row["status"],
            row_kind(json.loads(row["result"] or "null")),
            row["attempts"],
            json.loads(row["payload"] or "{}"),
            row["tries"],
            row["id"] in playing.cancelled,
        )
        for row in await playing.sql(
            "SELECT id, job_type::text, law_id, status::text, result::text, attempts, payload::text, "
            "max_attempts - releases AS tries FROM jobs"
        )
    ]
    changes = [
        Change(
            row["job_id"], row["old"], row["new"], row["attempts"], row["old_lease"], row["new_lease"], row["signed"]
        )
        for row in await playing.sql("SELECT * FROM history ORDER BY n")
    ]
    settled = Counter(row["job_id"] for row in await playing.sql("SELECT job_id FROM probe_effects"))
    laws = {row["law_id"]: row["s"] for row in await playing.sql("SELECT law_id, status::text AS s FROM law_entries")}
    entries = playing.fleet.entries()
    gone = (playing.wanted - {row.id for row in rows}) | (playing.asked - {row.law_id for row in rows})
    lives = [life for seat in playing.seats for life in seat.lives]
    return Evidence(
        rows=rows,
        changes=changes,
        entries=entries,
        lives=lives,
        pauses=[*(pause for seat in playing.seats for pause in seat.pauses), *_holds(rows, entries)],
        landings=_landings(playing),
        settled=settled,
        laws=laws,
        commits=_commits(playing, rows),
        running=processes_in(playing.folder),
        idle_in_transaction=idle,
        complaints=[*complaints, *(f"the row of {name} is gone" for name in gone), *_crashes(playing)],
    )


def _holds(rows: list[Row], entries: list[Any]) -> list[Pause]:
    """When a job held the loop of its supervisor."""
    blocking = {row.id for row in rows if row.payload.get("block")}
    began = {claim_of(entry): entry.at for entry in entries if entry.event == "start" and entry.job_id in blocking}
    return [
        Pause(entry.pid, began[claim_of(entry)], entry.at)
        for entry in entries
        if claim_of(entry) in began and entry.event not in ON_THE_WAY
    ]


def _landings(playing: Arena) -> list[Landing]:
    if not playing.landings.exists():
        return []
    found = []
    for line in playing.landings.read_text().splitlines():
        ref, at = line.split()
        if ref.startswith("refs/heads/probe/"):
            job_id, claim = ref.removeprefix("refs/heads/probe/").split("/")
            lease = claim.partition("-")[2]
            found.append(Landing(UUID(job_id), UUID(lease), float(at) + playing.clock_offset_s))
    return found


def _commits(playing: Arena, rows: list[Row]) -> dict[str, int]:
    harvested = [row.law_id for row in rows if row.job_type == "harvest" and row.status == "completed"]
    if not harvested:
        return {}
    names = git(playing.remote.path, "log", "--format=", "--name-only", "main").splitlines()
    by_number = Counter(name.split("/")[-2].rpartition("_")[2] for name in names if name.endswith("-01.yaml"))
    return {law_id: by_number[str(int(law_id.removeprefix("BWBR")))] for law_id in harvested}


def _points(playing: Arena) -> Counter[str]:
    return Counter(
        f"{line['unit']} {line['moment']}"
        for process in playing.fleet.processes
        for line in process.lines()
        if line.get("event") == "failpoint"
    )


def _crashes(playing: Arena) -> list[str]:
    return [
        f"supervisor {process.pid}: {json.dumps(line)[:400]}"
        for process in playing.fleet.processes
        for line in process.lines()
        if line.get("event") in _CRASHES or "Traceback" in str(line.get("event"))
    ]
