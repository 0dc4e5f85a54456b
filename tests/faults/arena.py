"""One round: a database, seats with supervisors, jobs, and the hands that hurt them."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import trio
from attrs import define, field

from schema.requests import HarvestRequest, request_harvest
from tests.faults.ground import Ground
from tests.faults.seats import Disk, Seat
from tests.faults.workload import PATIENT, Order, laws, workload
from tests.kit import probe
from tests.kit.bwb_works import lay_out
from tests.kit.gitrepos import Remote, git
from tests.kit.postgres import run_on
from tests.kit.supervisors import Fleet

BEAT_S = 0.5
ORPHAN_S = 8.0
"""Then the fence is at 4 s, which leaves room for a deaf child to die (2 s) on a busy machine."""
DRAIN_S = 2.0
END_S = DRAIN_S + 10
JOB_LIMIT_S = 15.0
HARVESTS = 5
"""In each batch of jobs."""
LOW_WATER = 12
BATCHES = 40

AWAY = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
)
"""What a client meets while the server is hurt."""

_HISTORY = """
CREATE TABLE history (n bigserial, job_id uuid, old text, new text, attempts int, old_lease uuid, new_lease uuid, signed uuid);
CREATE TABLE probe_effects (job_id uuid NOT NULL);
CREATE FUNCTION note_history() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history (job_id, old, new, attempts, old_lease, new_lease, signed)
    VALUES (NEW.id, OLD.status, NEW.status, NEW.attempts, OLD.lease, NEW.lease,
            CASE WHEN NEW.last_lease IS DISTINCT FROM OLD.last_lease THEN NEW.last_lease END);
    RETURN NULL;
END $$;
CREATE TRIGGER zz_history AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status <> NEW.status OR OLD.lease IS DISTINCT FROM NEW.lease OR OLD.attempts <> NEW.attempts)
    EXECUTE FUNCTION note_history();
"""

_HANG = 'while [ -n "$(ls "{hung}")" ]; do sleep 0.1; done'
_NOTE = 'while read old new ref; do echo "$ref $(cut -d" " -f1 /proc/uptime)" >> "{landings}"; done'


@define
class Arena:
    """``fleet.folder`` holds everything that a process of the round may touch."""

    ground: Ground
    fleet: Fleet
    remote: Remote
    seats: list[Seat]
    harvests: tuple[str, ...]
    seed: int
    random_: random.Random
    server_busy: trio.Lock = field(init=False, factory=trio.Lock)
    """Whoever stops the server holds it until it runs again."""
    inflicted: Counter[str] = field(init=False, factory=Counter)
    skipped: dict[str, str] = field(init=False, factory=dict)
    cancelled: set[UUID] = field(init=False, factory=set)
    wanted: set[UUID] = field(init=False, factory=set)
    """Probes that were surely added."""
    asked: set[str] = field(init=False, factory=set)
    """Laws whose harvest was surely asked for."""
    clock_offset_s: float = field(init=False, default=0)
    """From the clock of the hooks to the one of the ledger."""

    @property
    def folder(self) -> Path:
        return self.fleet.folder

    @property
    def hung(self) -> Path:
        """While a file is in here, the remote answers no push."""
        return self.folder / "hung"

    @property
    def landings(self) -> Path:
        return self.folder / "landings"

    # --- the database, directly ----------------------------------------------------------------------------------------

    async def sql(self, query: str, *args: Any) -> list[dict[str, Any]]:
        """Rows, sooner or later."""

        async def fetch(connection: Any) -> list[dict[str, Any]]:
            return [dict(row) for row in await connection.fetch(query, *args)]

        rows: list[dict[str, Any]] = await self.patiently(fetch)
        return rows

    async def patiently(self, unit: Callable[[Any], Awaitable[Any]]) -> Any:
        """On a connection round all lines, again and again while the server is hurt. An insert may so happen twice."""
        while True:
            try:
                return await trio.to_thread.run_sync(run_on, self.fleet.database_url, unit)
            except AWAY:
                await trio.sleep(0.1)

    async def add(self, orders: Iterable[Order], priority: int = 50) -> None:
        """Ids are made here, so that an insert whose answer got lost is no second job when it is repeated."""
        wanted = {uuid4(): order for order in orders}
        await self.sql(
            "INSERT INTO jobs (id, job_type, law_id, payload, max_attempts, priority, created_at) "
            "SELECT i, 'probe', l, p::jsonb, m, $5, now() + n * interval '1 microsecond' FROM "
            "unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) WITH ORDINALITY AS o(i, l, p, m, n) "
            "ON CONFLICT (id) DO NOTHING",
            list(wanted),
            [order.law_id for order in wanted.values()],
            [json.dumps(order.payload) for order in wanted.values()],
            [order.max_attempts for order in wanted.values()],
            priority,
        )
        self.wanted.update(wanted)

    async def extra(self, payload: Mapping[str, Any]) -> None:
        """One probe more, in front of all others."""
        await self.add([Order(f"extra {len(self.wanted)}", payload)], priority=90)

    async def feed(self) -> None:
        """For ever: as soon as little is left to do, another batch of probes and harvests."""
        for batch in itertools.count():
            await self.add(workload(self.random_, batch))
            await self.request_harvests(self.harvests[batch * HARVESTS : (batch + 1) * HARVESTS])
            while (await self.sql("SELECT count(*)::int AS n FROM jobs WHERE status = 'pending'"))[0]["n"] > LOW_WATER:  # noqa: ASYNC110
                await trio.sleep(0.3)

    async def request_harvests(self, law_ids: Sequence[str]) -> None:
        async def ask(connection: Any) -> None:
            async with connection.transaction():
                for law_id in law_ids:
                    await request_harvest(connection, HarvestRequest(law_id))
                await connection.execute(
                    "UPDATE jobs SET max_attempts = $2 WHERE law_id = ANY ($1)", list(law_ids), PATIENT
                )

        await self.patiently(ask)
        self.asked.update(law_ids)

    async def let_time_pass(self) -> None:
        """For ever: whoever waits for another try has waited enough. Real pauses are 30 s and more."""
        while True:
            await self.sql("UPDATE jobs SET scheduled_at = now() WHERE status = 'pending' AND scheduled_at > now()")
            await trio.sleep(0.5)

    async def settled(self, limit_s: float) -> bool:
        """Wait until every job has ended."""
        with trio.move_on_after(limit_s):
            while await self.sql("SELECT 1 FROM jobs WHERE status IN ('pending', 'processing') LIMIT 1"):  # noqa: ASYNC110
                await trio.sleep(0.1)
            return True
        return False


@asynccontextmanager
async def arena(
    ground: Ground, fleet: Fleet, *, seats: int, seed: int, harvests: int = HARVESTS * BATCHES
) -> AsyncIterator[Arena]:
    """Everything made, nobody started."""
    remote = _remote(fleet.folder)
    works = laws(harvests)
    lay_out(fleet.folder / "mirror", works)
    await trio.to_thread.run_sync(run_on, fleet.database_url, _prepare)
    made: list[Seat] = []
    try:
        made += [_seat(ground, fleet, remote, number) for number in range(seats)]
        playing = Arena(ground, fleet, remote, made, tuple(work.bwb_id for work in works), seed, random.Random(seed))
        playing.clock_offset_s = time.monotonic() - float(Path("/proc/uptime").read_text().split()[0])
        yield playing
    finally:
        for one in made:
            one.disk.close()


async def _prepare(connection: Any) -> None:
    await connection.execute(_HISTORY)


def _remote(folder: Path) -> Remote:
    """A bare repository with a seed; its hooks hang while they are told to, and note when refs of claims arrive."""
    (folder / "hung").mkdir()
    remote = Remote.create(folder / "remote.git", "main")
    tree = git(remote.path, "hash-object", "-w", "-t", "tree", "/dev/null").strip()
    commit = git(remote.path, "commit-tree", tree, "-m", "seed").strip()
    for branch in ("seed", "main"):
        git(remote.path, "update-ref", f"refs/heads/{branch}", commit)
    remote.hook("pre-receive", _HANG.format(hung=folder / "hung"))
    remote.hook("post-receive", _NOTE.format(landings=folder / "landings"))
    return remote


def _seat(ground: Ground, fleet: Fleet, remote: Remote, number: int) -> Seat:
    folder = fleet.folder / f"seat-{number}"
    line = ground.lines.add(folder / "line")
    environ = {
        "DATABASE_URL": line.url(fleet.database_url),
        "WORKER_HEARTBEAT_INTERVAL_SECS": str(BEAT_S),
        "WORKER_ORPHAN_TIMEOUT_SECS": str(ORPHAN_S),
        "WORKER_REAP_INTERVAL_SECS": "0.5",
        "WORKER_POLL_INTERVAL_SECS": "0.5",
        "WORKER_JOB_TIMEOUT_SECS": str(JOB_LIMIT_S),
        "SUPERVISOR_STATEMENT_TIMEOUT_SECS": "2",
        "SUPERVISOR_DRAIN_SECS": str(DRAIN_S),
        "HARVEST_CONCURRENCY": "2",
        "BWB_REPOSITORY_URL": str(fleet.folder / "mirror"),
        "CORPUS_REPO_URL": str(remote.path),
        "CORPUS_REPO_PATH": str(folder / "disk" / "checkout"),
        "CORPUS_BRANCH": "main",
        probe.REMOTE: str(remote.path),
    }
    return Seat(number, fleet, line, Disk(folder / "disk"), environ, roles="probe,harvest")


def processes_in(folder: Path) -> list[str]:
    """Everything alive that works in ``folder`` or was started with it in its environment."""
    found, needle = [], os.fsencode(folder)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            where = os.readlink(entry / "cwd")
            words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if where.startswith(str(folder)) or needle in words:
            found.append(
                f"{entry.name} {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')[:120]}"
            )
    return found
