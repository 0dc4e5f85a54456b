"""The actors that stand beside those of ``supervisor.tree``: they look after the process, or show what happens in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING
from uuid import UUID

from actors.housekeeping import Housekeeping
from actors.janitor import Janitor, ResultJanitor
from actors.ports.blobs import open_blobs
from actors.ports.database import Database
from actors.scheduler import Scheduler, ScheduleTick, TickRule
from protocols.budget import hourly_cap
from schema import pauses, retention
from schema.pipelines.scheduling import ScheduleRules
from schema.queue.budget import count_runs
from schema.retention import Batch
from supervisor import logs
from supervisor.metrics import Metrics
from supervisor.repl import places
from supervisor.repl.pipelines import PipelineDesk
from supervisor.repl.scene import Scene, everything, from_outside
from supervisor.repl.server import ReplServer
from supervisor.repl.session import SessionRule
from supervisor.restart import Policy
from supervisor.roles import API, SCHEDULER
from supervisor.settings.ports import blob_settings
from supervisor.tree import House, Row

if TYPE_CHECKING:
    from supervisor.app import Supervisor


def rows_beside(supervisor: Supervisor, house: House, database: Database) -> Iterator[Row]:
    """In the order they start, after those of the tree. Those that the settings leave out are not there."""
    housekeeping = Housekeeping(database.oldest_snapshot_age_s, partial(database.run, pauses.paused_names))
    yield Row("housekeeping", Policy.PERMANENT, lambda _: housekeeping, "reaps zombies, reads what is paused")
    days = supervisor.settings.retention.jobs_days
    if days:
        janitor = Janitor(partial(_prune, database, days))
        yield Row("janitor", Policy.PERMANENT, lambda _: janitor, f"deletes jobs that ended more than {days} days ago")
    if supervisor.roles.keeps_results:
        results = ResultJanitor(database, partial(open_blobs, blob_settings(supervisor.settings.blobs)))
        result_gauges(supervisor.metrics, results)
        yield Row("results", Policy.PERMANENT, lambda _: results, "deletes results that nobody wants any more")
    if SCHEDULER in supervisor.roles.actors:
        tick_rule = TickRule(expiry_s=supervisor.settings.pipelines.tick_expiry_s)
        scheduler = Scheduler(_tick(supervisor, database), supervisor.lifecycle, tick_rule, meter=supervisor.metrics)
        yield Row("scheduler", Policy.PERMANENT, lambda _: scheduler, "fires due pipelines, queues due connectors")
    if API in supervisor.roles.actors:
        from supervisor.apirole import ApiRole

        api = ApiRole(supervisor.settings, supervisor.lifecycle, database)
        yield Row("api", Policy.PERMANENT, lambda _: api, "answers the HTTP interface of pipelines", serves=True)
    if supervisor.errand is not None:
        errand = supervisor.errand.bind(database, supervisor.drain)
        yield Row("errand", Policy.TRANSIENT, lambda _: errand, "the one thing this supervisor was started for")
    if supervisor.settings.health.port is not None:
        from supervisor.probes import health_server

        server = health_server(supervisor.settings.health.port, supervisor, house, database, housekeeping)
        yield Row("health", Policy.PERMANENT, lambda _: server, "answers probes, serves metrics")
    scene = cache(partial(scene_of, supervisor, database, housekeeping))
    supervisor.dumper.tell = lambda: everything(scene())
    supervisor.dumper.tell_from_outside = lambda: from_outside(scene())
    if supervisor.settings.repl.enabled and supervisor.errand is None:
        repl = supervisor.settings.repl
        paths = places.candidates(repl, supervisor.settings.embedded)
        rule = SessionRule(python=repl.python)
        yield Row(
            "repl",
            Policy.TRANSIENT,
            lambda _: ReplServer(scene(), paths, supervisor.redact, rule),
            "the debug prompt",
        )


def _tick(supervisor: Supervisor, database: Database) -> ScheduleTick:
    area = supervisor.settings.pipelines
    return ScheduleTick(database, ScheduleRules(misfire_grace_s=area.misfire_grace_s), batch=area.tick_batch)


def result_gauges(metrics: Metrics, results: ResultJanitor) -> None:
    """What the janitor of results did since the start."""
    done = {
        "expired": lambda: results.expired,
        "removed": lambda: results.removed,
        "failed": lambda: results.failed,
        "swept": lambda: results.swept,
    }
    metrics.gauges(
        "results_cleared", "Stored results that were expired, removed, not removable, half done.", "what", done
    )


async def _prune(database: Database, days: int, after: UUID | None) -> Batch:
    return await database.transact(retention.prune_jobs, days=days, after=after)


def scene_of(supervisor: Supervisor, database: Database, housekeeping: Housekeeping) -> Scene:
    """What the prompt and SIGUSR1 see of this supervisor, once its tree stands."""
    tree = supervisor.tree
    assert tree is not None

    async def runs_of_this_hour() -> tuple[int, int, int]:
        budget = tree.house.rules.claim.budget
        used, hour, _ = await database.run(count_runs, includes_convert=budget.includes_convert)
        return used, hourly_cap(budget.hourly_limit, budget.night_multiplier, hour), hour

    return Scene(
        tree,
        supervisor.drain,
        supervisor.clock,
        supervisor.watchdog,
        supervisor.metrics,
        runs_of_this_hour,
        logs.set_level,
        supervisor.settings.logging.level,
        figures=lambda: database.statistics,
        paused=lambda: housekeeping.paused,
        pipelines=PipelineDesk(database, _tick(supervisor, database)),
    )
