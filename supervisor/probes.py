"""What the probes and the metrics see of a running supervisor. Imported only when a port is configured (D28)."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.housekeeping import Housekeeping
from actors.ports.database import Database
from protocols.budget import PROVIDERS
from supervisor.health import Condition, HealthServer, health_app
from supervisor.tree import House

if TYPE_CHECKING:
    from supervisor.app import Supervisor


def health_server(
    port: int, supervisor: Supervisor, house: House, database: Database, housekeeping: Housekeeping
) -> HealthServer:
    """The server on ``port``, with gauges that are read when somebody asks."""
    metrics, watchdog = supervisor.metrics, supervisor.watchdog
    metrics.gauge("loop_lag_seconds", "How late the last tick of the loop was.", lambda: watchdog.lag_s)
    metrics.gauge("loop_holds", "How often a task held the loop for more than 100 ms.", lambda: watchdog.holds)
    metrics.gauge("oldest_snapshot_seconds", "Age of the oldest snapshot.", lambda: housekeeping.snapshot_age_s)
    metrics.gauge("zombies_reaped", "Orphaned processes that were reaped.", lambda: housekeeping.reaped)
    metrics.gauge("tasks", "Tasks of the loop.", lambda: supervisor.clock.tasks)
    metrics.gauge("open_files", "File descriptors of the process.", lambda: len(os.listdir("/proc/self/fd")))
    metrics.gauge("paused", "Job types and providers that nobody claims for.", lambda: len(housekeeping.paused))
    metrics.gauge("phase", "1 running, 2 draining, 3 cancelling, 4 closing.", lambda: supervisor.lifecycle.phase)
    gate = house.gate
    metrics.gauge("claude_runs", "Claude runs of this clock hour, over all, as last counted here.", lambda: gate.used)
    metrics.gauge("claude_runs_cap", "Claude runs that this clock hour allows.", lambda: gate.cap)
    metrics.gauge("claude_blocked", "1 while no further claude job is claimed.", lambda: gate.blocked)
    benched = {name: partial(_paused, housekeeping, name) for name in PROVIDERS}
    metrics.gauges("provider_paused", "1 while a provider, or one of its credentials, rests.", "provider", benched)
    roles = [role.role for role in house.roles]
    metrics.gauges("jobs_running", "Slots in use.", "role", {role: partial(_busy, house, role) for role in roles})
    pool = {
        "in_use": lambda: database.statistics.pool_in_use,
        "idle": lambda: database.statistics.pool_idle,
        "waiting": lambda: database.statistics.waiting,
    }
    metrics.gauges("database_pool", "Connections of the pool, and units that wait for one.", "state", pool)
    metrics.gauge("listening", "1 while notifications are proven to arrive.", lambda: house.subscription.proven)

    def condition() -> Condition:
        now = trio.current_time()
        return Condition(
            phase=supervisor.lifecycle.phase.name.lower(),
            loop_lag_s=round(watchdog.lag_s, 3),
            database_answers=metrics.database_answers,
            beat_age_s=None if metrics.beat_at is None else round(now - metrics.beat_at, 3),
            claim_age_s=None if metrics.claim_at is None else round(now - metrics.claim_at, 3),
            jobs=len(house.jobs.names),
            paused=housekeeping.paused,
            claude=gate.counted,
        )

    return HealthServer(health_app(condition, metrics.registry), port, supervisor.lifecycle)


def _paused(housekeeping: Housekeeping, provider: str) -> float:
    return any(name.split(" ")[0] == f"provider:{provider}" for name in housekeeping.paused)


def _busy(house: House, role: str) -> float:
    return house.slots.busy[role]
