"""Whole supervisors as processes, on a test database, serving ``probe`` jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from actors.ports import proctable
from tests.kit import probe
from tests.kit.postgres import run_on
from tests.kit.processes import until

QUICK: Mapping[str, str] = {
    "WORKER_POLL_INTERVAL_SECS": "1",
    "WORKER_HEARTBEAT_INTERVAL_SECS": "0.5",
    "WORKER_ORPHAN_TIMEOUT_SECS": "3",
    "WORKER_REAP_INTERVAL_SECS": "0.5",
    "SUPERVISOR_DRAIN_SECS": "1",
    "LOG_FORMAT": "json",
}
"""Limits a hundred times shorter than in a pod."""


@define
class SupervisorProcess:
    """One ``run`` of the command line. ``log`` is its stderr, one JSON object a line."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[dict[str, Any]]:
        """What it logged so far; lines that are no JSON come as ``{"event": line}``."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"event": line})
        return found

    def said(self, event: str) -> bool:
        return any(line.get("event") == event for line in self.lines())

    async def ready(self, limit_s: float = 20) -> None:
        """Until it claims. AssertionError with its log when it ended instead."""
        await until(lambda: self.said("ready to claim") or self.process.poll() is not None, limit_s=limit_s)
        assert self.process.poll() is None, self.log.read_text()

    def children(self) -> set[int]:
        """Child processes of jobs that run; the guardian is none."""
        mark = f"{proctable.MARK_VARIABLE}=".encode()
        rows = [row for row in proctable.rows() if row.parent == self.pid and row.alive]
        return {row.pid for row in rows if proctable.bears(row.pid, mark)}

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def exit_code(self, limit_s: float = 20) -> int:
        """Wait for its end."""
        await until(lambda: self.process.poll() is not None, limit_s=limit_s)
        return self.process.returncode


@define
class Fleet:
    """Supervisors on one database. ``ledger`` is what their probes write."""

    database_url: str
    folder: Path
    ledger: Path = field(init=False)
    processes: list[SupervisorProcess] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.ledger = self.folder / "ledger"
        run_on(self.database_url, probe.add_label)

    def start(
        self,
        variables: Mapping[str, str] | None = None,
        *,
        roles: str = "probe",
        slots: int = 4,
        module: str = "supervisor",
        log_to: int | None = None,
        **environ: str,
    ) -> SupervisorProcess:
        """Start one more; it is ended by the fleet at the latest. ``module`` stands in for the command line.

        ``log_to`` is a descriptor for its stderr instead of the file ``log``.
        """
        log = self.folder / f"supervisor-{len(self.processes)}.log"
        with log.open("wb") as file:
            stderr = file if log_to is None else log_to
            process = subprocess.Popen(
                [sys.executable, "-m", module, "run", "--roles", roles],
                env={**self.environ(slots=slots, **environ), **(variables or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        self.processes.append(SupervisorProcess(process, log))
        return self.processes[-1]

    def environ(self, *, slots: int = 4, **environ: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": f"{probe.ROOT}:{self.folder / 'plugin'}",
            "PYTHONFAULTHANDLER": "1",
            "DATABASE_URL": self.database_url,
            probe.LEDGER: str(self.ledger),
            probe.SLOTS: str(slots),
            **QUICK,
            **environ,
        }

    def entries(self) -> list[probe.Entry]:
        return probe.read_ledger(self.ledger)

    async def sql(self, query: str, *args: Any) -> list[dict[str, Any]]:
        """Rows of a statement on a connection of its own, from a thread."""

        async def fetch(connection: Any) -> list[dict[str, Any]]:
            return [dict(row) for row in await connection.fetch(query, *args)]

        rows: list[dict[str, Any]] = await trio.to_thread.run_sync(run_on, self.database_url, fetch)
        return rows

    async def add(self, payloads: Iterable[Mapping[str, Any]], *, max_attempts: int = 3) -> None:
        """One probe job for each payload, to be taken in this order."""
        await self.sql(
            "INSERT INTO jobs (job_type, law_id, payload, max_attempts, created_at) "
            "SELECT 'probe', 'probe ' || n, p::jsonb, $2, now() + n * interval '1 microsecond' "
            "FROM unnest($1::text[]) WITH ORDINALITY AS t(p, n)",
            [json.dumps(payload) for payload in payloads],
            max_attempts,
        )

    async def statuses(self) -> dict[str, int]:
        return {
            row["s"]: row["n"]
            for row in await self.sql("SELECT status::text AS s, count(*)::int AS n FROM jobs GROUP BY 1")
        }

    async def wait_until(self, expected: Mapping[str, int], *, limit_s: float = 30) -> None:
        """Until the jobs are spread like this."""
        with trio.move_on_after(limit_s):
            while await self.statuses() != expected:  # noqa: ASYNC110 - a database that others work on
                await trio.sleep(0.05)
        assert await self.statuses() == expected, [process.log.read_text()[-3000:] for process in self.processes]

    def close(self) -> None:
        """End what still runs."""
        for one in self.processes:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGCONT)
                one.process.kill()
            one.process.wait()


@contextmanager
def fleet(database_url: str, folder: Path) -> Iterator[Fleet]:
    """A fleet whose processes are gone at the end of the block."""
    with probe.registered(folder / "plugin"):
        made = Fleet(database_url, folder)
        try:
            yield made
        finally:
            made.close()
