"""Why a due job waits: a pause, a provider in trouble, the claude budget of this hour. For lists of jobs."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

from attrs import frozen

from protocols.budget import effective_provider
from schema.queue.claim import RUN_TYPES
from schema.queue.terms import BudgetRule, is_counted
from schema.rows import Job, JobStatus
from supervisor.budgettext import Budget, configured, refusal

if TYPE_CHECKING:
    from actors.ports.database import Database
    from schema.connection import Connection
    from schema.pauses import Pause, ProviderPause
    from schema.queue.views import BudgetNow


@frozen
class HoldUps:
    """What holds jobs up just now. ``rule`` and ``limit`` are the budget as configured where the question is asked."""

    rule: BudgetRule
    limit: Budget
    budget: BudgetNow
    pauses: tuple[Pause, ...] = ()
    benches: tuple[ProviderPause, ...] = ()

    def why(self, job: Job) -> str:
        """In a few words; empty for a job that waits for nothing but a free slot."""
        if job.status is not JobStatus.PENDING or (job.scheduled_at is not None and job.scheduled_at > self.budget.at):
            return ""
        provider = self._provider(job)
        for pause in self.pauses:
            if pause.name in {job.job_type.value, provider}:
                return f"paused{_until(pause.until)}{_because(pause.reason)}"
        for bench in self.benches:
            if bench.provider == provider and not bench.credential_hash:
                return f"{provider} is in trouble{_until(bench.until)}{_because(bench.reason)}"
        if is_counted(job.job_type, provider, self.rule) and self.budget.blocked:
            return refusal(self.limit.cap(self.budget.local_hour), self.budget.used, self.budget.next_local_hour)
        return ""

    def _provider(self, job: Job) -> str | None:
        if job.job_type not in RUN_TYPES:
            return None
        named = job.payload.get("provider") if isinstance(job.payload, dict) else None
        return effective_provider(named, self.rule.default_provider)


async def hold_ups(database: Database) -> HoldUps:
    """As it is now, with the limits of this environment. SettingsFault when those cannot be read."""
    from supervisor.settings import areas, load_area

    enrich = load_area(areas.Enrich, os.environ)
    rule = BudgetRule(
        enrich.hourly_limit, enrich.night_multiplier, enrich.budget_includes_convert, enrich.default_provider
    )
    limit = configured(os.environ.get("ENRICH_HOURLY_LIMIT"), enrich.hourly_limit, enrich.night_multiplier)
    return await database.run(_read, rule, limit)


async def _read(connection: Connection, rule: BudgetRule, limit: Budget) -> HoldUps:
    from schema.pauses import list_pauses, list_provider_pauses
    from schema.queue.views import budget_now

    return HoldUps(
        rule,
        limit,
        await budget_now(connection, rule),
        tuple(await list_pauses(connection)),
        tuple(await list_provider_pauses(connection)),
    )


def _until(until: dt.datetime | None) -> str:
    return "" if until is None else f" until {until:%H:%M} UTC"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
