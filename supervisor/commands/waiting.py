"""Waiting for a requested harvest: what people see meanwhile, and which exit code tells the end (D20, D25, D26)."""

from __future__ import annotations

import math
from datetime import datetime

import trio
from attrs import define, field

from actors.ports.database import Database
from protocols.failures import DatabaseUnavailable, OutcomeUnclear, Permanent
from schema import requests
from schema.queue import presence, views
from schema.requests import AlreadyQueued, Created, Exhausted, HarvestRequest
from schema.rows import ACTIVE_STATUSES, Job, JobStatus, JobType
from supervisor import exitcodes
from supervisor.commands.jobs import note_of
from supervisor.terminaltext import say

POLL_S = 0.5
GRACE_S = 5.0
"""How long nobody may be seen who takes such jobs before we say so: a supervisor may be starting."""
SAY_S = 10.0
"""How often a long wait says that it goes on."""
MOST_WARNINGS = 10
"""Of a law, on the terminal; all of them are in the result."""


class LawExhausted(Permanent):
    """The law failed too often; a person must reset it."""

    kind = "law_exhausted"


@define
class Waiting:
    """One request, and the wait for it. ``exit_code`` is known when a method has returned."""

    request: HarvestRequest
    quiet: bool = False
    """Nothing but the result: no line on stderr."""
    here: bool = False
    """This process is the supervisor that works on it, and ends with the wait (``--run``)."""
    timeout_s: float | None = None
    exit_code: int = field(init=False, default=exitcodes.CLEAN)
    queued: bool = field(init=False, default=False)
    """Whether there is a job that answers the request, or stands in its way."""
    running: bool = field(init=False, default=False)
    """Whether somebody was working on it when we last looked."""
    _said: str = field(init=False, default="")
    _told_failed: int = field(init=False, default=0)
    _said_at_s: float = field(init=False, default=0.0)

    async def ask(self, database: Database) -> Job:
        """Queue it; the job that answers the request, or one that stands in its way."""
        return (await self._ask(database))[0]

    async def until_ended(self, database: Database) -> Job:
        """Queue it and wait for its end; when a job for another date is in the way, for that one first (D26)."""
        job, ours = await self._ask(database)
        with trio.move_on_after(math.inf if self.timeout_s is None else self.timeout_s) as limit:
            job = await self._end_of(database, job)
            while not ours and self.exit_code != exitcodes.DATABASE_UNREACHABLE:
                job, ours = await self._ask(database)
                job = await self._end_of(database, job)
        if limit.cancelled_caught:
            then = "and stays in the queue for a supervisor to take" if self.here else "it goes on"
            self._say(f"{job.id} has not ended within {self.timeout_s:g} s{',' if self.here else ';'} {then}")
            self.exit_code = exitcodes.WAIT_TIMED_OUT
        return job

    async def _ask(self, database: Database) -> tuple[Job, bool]:
        """The job, and whether it answers the request."""
        law_id = self.request.law_id
        answer = await database.transact(requests.request_harvest, self.request)
        self.queued = not isinstance(answer, Exhausted)
        match answer:
            case Created(job):
                self._say(f"queued {job.id}: harvest of {law_id}")
                return job, True
            case AlreadyQueued(job, other_date):
                but = ", but for another date or depth" if other_date else ""
                self._say(f"{law_id} is queued or running already{but}: {job.id}")
                return job, not other_date
            case Exhausted():
                raise LawExhausted(
                    f"{law_id} failed too often: see `laws show {law_id}`, then `laws reset {law_id}` and ask again"
                )

    async def _end_of(self, database: Database, job: Job) -> Job:
        alone_since_s: float | None = None
        while True:
            job = await self._look(database, job)
            self.running = job.status is JobStatus.PROCESSING
            if job.status not in ACTIVE_STATUSES:
                return self._ended(job)
            self._say_state(job)
            if job.status is JobStatus.PROCESSING or await self._somebody(database):
                alone_since_s = None
            elif alone_since_s is None:
                alone_since_s = trio.current_time()
            elif trio.current_time() - alone_since_s > GRACE_S:
                self._say(
                    "no supervisor on this database takes harvest jobs: start one with `run --roles harvest`, or add --run"
                )
                self.exit_code = exitcodes.DATABASE_UNREACHABLE
                return job
            await trio.sleep(POLL_S)

    async def _look(self, database: Database, job: Job) -> Job:
        """The row now. An outage is waited out: the job goes on without us."""
        try:
            return await database.run(views.get_job, job.id)
        except (DatabaseUnavailable, OutcomeUnclear):
            self._say("the database does not answer; waiting for it")
            return job

    async def _somebody(self, database: Database) -> bool:
        try:
            return await database.run(presence.supervisors_seen, "harvest", JobType.HARVEST)
        except (DatabaseUnavailable, OutcomeUnclear):
            return True

    def _ended(self, job: Job) -> Job:
        failed = job.status is JobStatus.FAILED
        self.exit_code = exitcodes.JOB_FAILED if failed else exitcodes.CLEAN
        result = job.result if isinstance(job.result, dict) else {}
        where = f" ({result['file_path']})" if result.get("file_path") else ""
        self._say_warnings(result.get("warnings"))
        self._say(f"{job.status.value}: {note_of(job) or job.law_id}{where}")
        return job

    def _say_warnings(self, warnings: object) -> None:
        """Such as a text that is not the one of the day that was asked for (D35)."""
        found = warnings if isinstance(warnings, list) else []
        for warning in found[:MOST_WARNINGS]:
            self._say(f"Warning: {warning}")
        if len(found) > MOST_WARNINGS:
            self._say(f"Warning: and {len(found) - MOST_WARNINGS} more, see `jobs show`")

    def _say_state(self, job: Job) -> None:
        if job.status is JobStatus.PROCESSING:
            self._say(f"running, attempt {job.deaths} of {job.max_attempts - job.releases}{_phase_of(job)}")
        elif job.scheduled_at is not None and isinstance(job.result, dict) and job.result.get("error"):
            self._say_failed(job, job.result["error"], job.scheduled_at)
        else:
            self._say("waiting for a supervisor to take it")

    def _say_failed(self, job: Job, error: object, next_at: datetime) -> None:
        """Why it failed is told once; a long wait goes on without it."""
        if self._told_failed != job.deaths:
            self._told_failed = job.deaths
            self._say(f"attempt {job.deaths} failed: {error}; next at {next_at:%H:%M:%S} UTC")
        elif trio.current_time() - self._said_at_s > SAY_S:
            self._say(f"waiting for attempt {job.deaths + 1}, at {next_at:%H:%M:%S} UTC")

    def _say(self, text: str) -> None:
        """On stderr, when it is news or long ago."""
        now_s = trio.current_time()
        if not self.quiet and (text != self._said or now_s - self._said_at_s > SAY_S):
            say(text, err=True)
            self._said, self._said_at_s = text, now_s


def _phase_of(job: Job) -> str:
    """``: convert, step 2 of 3``. Only of a first attempt: a later one finds the report of the one before it."""
    progress = job.progress if isinstance(job.progress, dict) and job.attempts == 1 else {}
    if not progress.get("phase"):
        return ""
    return f": {progress['phase']}, step {progress.get('step')} of {progress.get('total_steps')}"
