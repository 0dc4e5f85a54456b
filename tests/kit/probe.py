"""A job type with a known duration and a ledger, for supervisors under test (D27).

``registered(folder)`` makes a folder that offers it through the entry-point group; put it on ``PYTHONPATH``. Its enum
label is added to test databases by ``add_label``.

Payload: ``seconds`` (default 0) to work; ``fail`` a kind (``transient``, ``permanent``, ``crash``) to end with;
``deaf`` to work in a thread that no cancellation reaches; ``block`` to hold the loop instead; ``effect`` to do the work as
an outside effect; ``child`` to run a child process for that long, ``"deaf"`` one that ignores SIGTERM, ``"leaves"`` one that
ends at once and leaves a grandchild with the pipe open; ``push`` to push a ref of this claim afterwards, as an effect;
``settle`` to leave a row in ``probe_effects`` with the completion; ``until_attempt`` a number: later attempts sleep for ``later`` seconds (default 0) instead, and ``push``.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import trio
from attrs import define, frozen

from actors.jobs import ENTRY_POINTS, Means
from actors.jobs.base import Completion, Work
from actors.ports.child import Exit, run_child
from protocols.failures import Permanent, Transient
from schema.connection import Connection
from schema.rows import JobType, Lease

LEDGER = "PROBE_LEDGER"
REMOTE = "PROBE_REMOTE"
"""A bare git repository with a branch ``seed``, for ``push``."""
SLOTS = "PROBE_SLOTS"
ROOT = Path(__file__).parents[2]
PUSH_LIMIT_S = 20.0

_SCRIPTS: Mapping[object, str] = {
    True: 'exec sleep "$1"',
    "deaf": 'trap "" TERM; sleep "$1"',
    "leaves": "sleep 300 & echo left",
}


def ref_of(lease: Lease) -> str:
    """What a push of this claim pushes: the seed, under a name of its own."""
    return f"seed:refs/heads/probe/{lease.job_id}/{lease.attempts}-{lease.token}"


@frozen
class Entry:
    """One line of the ledger: an execution began or ended. ``at`` is the machine's monotonic clock."""

    event: str
    job_id: UUID
    lease: UUID
    attempt: int
    pid: int
    at: float

    @classmethod
    def parse(cls, line: str) -> Entry:
        raw = json.loads(line)
        return cls(raw["event"], UUID(raw["job"]), UUID(raw["lease"]), raw["attempt"], raw["pid"], raw["at"])


def read_ledger(path: Path) -> list[Entry]:
    """All entries in the order they were written; a torn last line of a killed writer is left out."""
    if not path.exists():
        return []
    return [Entry.parse(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@define
class Probe:
    """The handler. Appends are one small write each, so lines of several processes never mix."""

    means: Means
    ledger: Path | None
    clone: Path | None = None
    job_type: JobType = JobType.PROBE

    async def run(self, work: Work) -> Completion:
        payload: Mapping[str, Any] = work.job.payload or {}
        work.started()
        self._note("start", work)
        end = "cancelled"
        try:
            work.report({"phase": "working"})
            if work.lease.attempts <= payload.get("until_attempt", math.inf):
                if payload.get("effect"):
                    async with work.effect("probe effect", limit_s=60):
                        await self._work(payload)
                else:
                    await self._work(payload)
            else:
                await trio.sleep(float(payload.get("later", 0)))
            if payload.get("push"):
                await self._push(work)
            end = str(payload.get("fail") or "done")
        finally:
            self._note(end, work)
        _raise(payload.get("fail"))
        return Completion({"probe": "done", "pid": os.getpid()}, _settle if payload.get("settle") else None)

    async def _work(self, payload: Mapping[str, Any]) -> None:
        seconds = float(payload.get("seconds", 0))
        if payload.get("block"):
            time.sleep(seconds)  # noqa: ASYNC251, TID251 - what this probe is for
        elif payload.get("deaf"):
            await trio.to_thread.run_sync(time.sleep, seconds)  # noqa: TID251 - what this probe is for
        elif payload.get("child"):
            ended = await self._child("sh", "-c", _SCRIPTS[payload["child"]], "probe", str(seconds))
            if not ended.ok:
                raise Transient(f"the child of the probe ended with {ended.code or ended.signal}")
        else:
            await trio.sleep(seconds)

    async def _child(self, *argv: str) -> Exit:
        folder = ROOT if self.ledger is None else self.ledger.parent
        return await run_child(argv, env={"PATH": os.environ["PATH"]}, cwd=folder, guardian=self.means.guardian)

    async def _push(self, work: Work) -> None:
        assert self.clone is not None, f"{REMOTE} is not set"
        end = "unpushed"
        async with work.effect("probe push", limit_s=PUSH_LIMIT_S):
            self._note("pushing", work)
            try:
                git = await self._child("git", "--git-dir", str(self.clone), "push", "-q", "origin", ref_of(work.lease))
                end = "pushed" if git.ok else end
            finally:
                self._note(end, work)
        if end == "unpushed":
            raise Transient("the probe could not push")

    def _note(self, event: str, work: Work) -> None:
        if self.ledger is None:
            return
        entry = {
            "event": event,
            "job": str(work.job.id),
            "lease": str(work.lease.token),
            "attempt": work.lease.attempts,
            "pid": os.getpid(),
            "at": time.monotonic(),
        }
        with self.ledger.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def _raise(kind: str | None) -> None:
    match kind:
        case None:
            return
        case "transient":
            raise Transient("the probe was told to fail")
        case "permanent":
            raise Permanent("the probe was told to fail for good")
        case _:
            raise ZeroDivisionError("the probe was told to crash")


async def _settle(connection: Connection, job: Any) -> None:
    """A side effect inside the completing transaction, in a table that the test made for it."""
    await connection.execute("INSERT INTO probe_effects (job_id) VALUES ($1)", job.id)


@asynccontextmanager
async def open_handler(means: Means) -> AsyncIterator[Probe]:
    path, remote = os.environ.get(LEDGER), os.environ.get(REMOTE)
    clone = Path(os.environ["HOME"]) / f"probe-clone-{os.getpid()}" if remote else None
    if remote:
        argv = ["git", "clone", "--quiet", "--bare", "--branch", "seed", remote, str(clone)]
        await run_child(argv, env={"PATH": os.environ["PATH"]}, cwd=ROOT, guardian=means.guardian)
    yield Probe(means, Path(path) if path else None, clone)


open_handler.slots = int(os.environ.get(SLOTS, "4"))  # type: ignore[attr-defined]


@contextmanager
def registered(folder: Path) -> Iterator[Path]:
    """A folder for ``PYTHONPATH`` in which a distribution offers ``probe``."""
    info = folder / f"probe_kit_{uuid4().hex[:8]}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe-kit\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nprobe = tests.kit.probe:open_handler\n")
    yield folder


async def add_label(connection: Connection) -> None:
    """The enum label, in a test database only."""
    await connection.execute("ALTER TYPE job_type ADD VALUE IF NOT EXISTS 'probe'")
