"""What the prompt can ask of pipelines, and with Python do to them (``pipelines.md`` 10).

Looking happens in transactions that cannot write. What acts is for Python alone, one run or one tick at a time, and
goes the way that the scheduler and the HTTP interface go.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from attrs import frozen

from actors.ports.database import Units
from actors.scheduler import ScheduleTick, Tally
from protocols.failures import InvalidInput
from schema import migrate
from schema.pipelines import asking, scheduling, survey
from schema.pipelines.rows import Run
from schema.pipelines.survey import HeldLease
from schema.pipelines.wallet import Wallet
from schema.rows import JobType
from supervisor.repl.scene import table
from supervisor.taskview import duration

T = TypeVar("T")

MOST_AHEAD: Final = dt.timedelta(days=1)
"""A tick of the future moves schedules beyond it: what it fires does not fire again before."""

_LABELS: Final = (JobType.PIPELINE_RUN.value, JobType.CONNECTOR_INDEX.value)


class Rows(list[T]):
    """Values, which the prompt shows as ``lines``."""

    def __init__(self, values: Iterable[T], lines: Sequence[str]) -> None:
        super().__init__(values)
        self.lines = list(lines)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


@frozen
class PipelineDesk:
    """``tick`` has the rules of this supervisor's settings, whether it has the role ``scheduler`` or not."""

    database: Units
    schedule: ScheduleTick

    @property
    def helpers(self) -> Mapping[str, Callable[..., Any]]:
        """By the names that they have in Python."""
        return {
            "runs": self.runs,
            "leases": self.leases,
            "tick": self.tick,
            "cancel": self.cancel,
            "wallet": self.wallet,
        }

    async def runs(self, limit: int = 20, *, pipeline: int | None = None, active: bool = False) -> Rows[Run]:
        """The newest runs of all workspaces, at most 100; ``active``: only those that wait or run."""
        found = await self.database.transact(survey.newest_runs, pipeline_id=pipeline, active=active, limit=limit)
        return Rows(found, _run_lines(found))

    async def leases(self) -> Rows[HeldLease]:
        """Who works on which pipeline and connector."""
        found = await self.database.transact(survey.held_leases)
        rows = [
            (
                one.kind.value,
                str(one.resource_id),
                one.holder,
                f"{one.acquired_at:%Y-%m-%d %H:%M:%S}",
                _left(one.left_s),
            )
            for one in found
        ]
        lines = table(("KIND", "ID", "JOB:CLAIM", "SINCE (UTC)", "ENDS IN"), rows)
        return Rows(found, lines if rows else ["no pipeline or connector is leased"])

    async def tick(self, now: dt.datetime | str | None = None) -> Tally:
        """One tick of the scheduler, at once; what became of rows, by word. ``now`` stands in for the database's clock.

        InvalidInput: ``now`` has no zone, or is more than a day ahead; nobody made the job types yet.
        """
        at = None if now is None else _moment(now)
        if at is not None and at > await self.database.run(scheduling.database_now) + MOST_AHEAD:
            raise InvalidInput("a tick is at most a day ahead: what it fires does not fire again before that time")
        if await self.database.run(migrate.missing_job_types, _LABELS):
            raise InvalidInput("no supervisor with the role `scheduler` ever ran on this database: start one first")
        return await self.schedule(at)

    async def cancel(self, run_id: int) -> Rows[Run]:
        """End a run that waits at once, a running one as soon as its holder hears of it; the run as it is then.

        RunNotFound; RunState when it has ended.
        """
        run = await self.database.transact(asking.cancel_run, run_id)
        return Rows([run], _run_lines([run]))

    async def wallet(self, owner: str | UUID) -> Rows[Wallet]:
        """What an account (id, subject or e-mail address) has, in micros, and whether its numbers add up."""
        seen = await self.database.transact(survey.wallet_seen, owner)
        one, off = seen.wallet, seen.off
        sums = "yes" if off is None else f"NO: balance by {off.balance_off_micros}, holds by {off.reserved_off_micros}"
        cells = (one.owner_id, one.balance_micros, one.reserved_micros, one.spendable_micros, sums)
        return Rows([one], table(("OWNER", "BALANCE", "HELD BY RUNS", "SPENDABLE", "ADDS UP"), [cells]))


def _moment(now: dt.datetime | str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(now) if isinstance(now, str) else now
    except ValueError:
        raise InvalidInput(f"{str(now)[:60]!r} is no moment: expected 2026-03-01T14:00+01:00") from None
    if at.tzinfo is None:
        raise InvalidInput("a moment has a zone: 2026-03-01T14:00+01:00")
    return at


def _run_lines(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return ["no runs"]
    headings = ("RUN", "PIPELINE", "STATUS", "TRIGGER", "MADE (UTC)", "JOB", "OK/TRIED", "CHARGED", "ERROR")
    return table(headings, map(_cells, runs))


def _cells(run: Run) -> tuple[str, ...]:
    cancelling = run.cancel_requested_at is not None and not run.status.terminal
    tried = f"{_known(run.crawls_succeeded)}/{_known(run.crawls_attempted)}"
    return (
        str(run.id),
        str(run.pipeline_id),
        f"{run.status.value}, to be cancelled" if cancelling else run.status.value,
        run.trigger.value,
        f"{run.created_at:%Y-%m-%d %H:%M:%S}",
        "-" if run.job_id is None else str(run.job_id),
        tried,
        _known(run.charged_micros),
        "-" if run.error is None else " ".join(str(run.error.get("message", run.error)).split())[:120],
    )


def _known(value: int | None) -> str:
    return "-" if value is None else str(value)


def _left(left_s: float) -> str:
    return duration(left_s) if left_s > 0 else f"ended {duration(-left_s)} ago"
