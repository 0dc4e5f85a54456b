"""From settings to the numbers that each actor lives by."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from actors.claimer import ClaimRule
from actors.heartbeat import BeatRule
from actors.jobs import Service
from actors.ports.queue import BudgetRule, ReapRule
from actors.ports.slots import RoleSlots
from actors.reaper import ReaperRule
from actors.runner import RunRule, fence_of
from protocols.budget import PROVIDERS
from protocols.credentials import KEY_VARIABLE, TOKEN_VARIABLE, credentials_of
from schema.rows import JobType
from supervisor.drain import DrainRule
from supervisor.restart import RestartRule
from supervisor.settings import Settings

PUSH_S = 330.0
"""For the push of an enriched law (300 s) and what is around it."""
OWN_END_S = 60.0
"""What a pipeline run has to end itself in, once it passed its limit."""
GRACE_S = 600.0
"""How long past its limit a job is still beaten (D17)."""
_ANSWER_SLACK_S = 2.0
"""The client waits this much longer than the database's own limit of a statement, so that the database speaks first."""


@frozen
class Rules:
    """The numbers of all actors."""

    claim: ClaimRule
    beat: BeatRule
    reap: ReaperRule
    run: RunRule
    breaker_limit: int = 5
    restart: RestartRule = field(factory=RestartRule)


def rules_of(settings: Settings, services: Iterable[Service]) -> Rules:
    """``settings`` were checked; nothing is refused here."""
    worker, enrich = settings.worker, settings.enrich
    statement_s = settings.database.statement_timeout_s
    return Rules(
        claim=ClaimRule(
            holder=holder(),
            timeouts={job_type: held_for_s(settings, job_type) for one in services for job_type in one.job_types},
            poll_s=worker.poll_interval_s,
            max_poll_s=worker.max_poll_interval_s,
            answer_limit_s=statement_s + _ANSWER_SLACK_S,
            suspect_s=2 * statement_s + _ANSWER_SLACK_S,
            grace_s=GRACE_S,
            budget=BudgetRule(
                hourly_limit=enrich.hourly_limit,
                night_multiplier=enrich.night_multiplier,
                includes_convert=enrich.budget_includes_convert,
                default_provider=enrich.default_provider,
            ),
            credentials=_credentials(settings),
        ),
        beat=BeatRule(worker.heartbeat_interval_s, min(statement_s, worker.heartbeat_interval_s)),
        reap=ReaperRule(
            interval_s=worker.reap_interval_s,
            reconnect_wait_s=2 * worker.heartbeat_interval_s,
            reap=ReapRule(worker.orphan_timeout_s, worker.foreign_orphan_s),
        ),
        run=RunRule(
            fence_s=fence_of(worker.orphan_timeout_s),
            grace_s=GRACE_S,
            write_limit_s=statement_s + _ANSWER_SLACK_S,
        ),
        breaker_limit=worker.max_resource_failures,
    )


def job_timeout_s(settings: Settings, job_type: JobType) -> float:
    """The limit of the job type where one is set, else that of all (D20)."""
    own: Mapping[JobType, float | None] = {
        JobType.HARVEST: settings.worker.harvest_job_timeout_s,
        JobType.TRAJECT_HARVEST: settings.worker.harvest_job_timeout_s,
        JobType.ENRICH: settings.worker.enrich_job_timeout_s,
        JobType.PIPELINE_RUN: settings.pipelines.run_timeout_s,
        JobType.CONNECTOR_INDEX: settings.pipelines.run_timeout_s,
    }
    return own.get(job_type) or settings.worker.job_timeout_s


def held_for_s(settings: Settings, job_type: JobType) -> float:
    """How long a job may be held: an enrichment ends its own work at its limit, and then has time for the push (D44); a
    pipeline run ends itself as failed, for good.
    """
    own_end_s = {JobType.ENRICH: PUSH_S, JobType.PIPELINE_RUN: OWN_END_S}
    return job_timeout_s(settings, job_type) + own_end_s.get(job_type, 0.0)


def _credentials(settings: Settings) -> tuple[tuple[str, str], ...]:
    held = {TOKEN_VARIABLE: settings.agents.claude_tokens or "", KEY_VARIABLE: settings.agents.vlam_api_key or ""}
    return tuple((name, credential.hash) for name in PROVIDERS for credential in credentials_of(name, held))


def slots_of(settings: Settings, services: Iterable[Service]) -> tuple[RoleSlots, ...]:
    """How many jobs each role may hold: its setting, or what a job type from outside says of itself."""
    configured = {
        "harvest": settings.roles.harvest_concurrency,
        "enrich": settings.roles.enrich_concurrency,
        "pipelines": settings.pipelines.concurrency,
        "connectors": settings.pipelines.concurrency,
    }
    return tuple(RoleSlots(one.role, one.job_types, configured.get(one.role) or one.slots) for one in services)


def drain_rule(settings: Settings) -> DrainRule:
    """D12; all but the first bound is fixed."""
    return DrainRule(drain_s=settings.drain.drain_s)


def holder() -> str:
    """Who holds a claim, for people."""
    return f"{os.uname().nodename}:{os.getpid()}"
