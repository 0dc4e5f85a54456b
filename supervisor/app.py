"""One supervisor, from settings to exit code: what is opened, in which order, and closed in the reverse one.

signals -> embedded PostgreSQL -> guardian -> watchdog -> the loop -> database -> schema -> job types -> the tree
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager

import structlog
import trio
from attrs import define, field

from actors.jobs import Means, Service
from actors.jobs.base import JobHandler
from actors.ports.adopted import become_subreaper
from actors.ports.database import Database, DatabaseSettings, open_database
from actors.ports.guardian import Guardian
from actors.ports.lifecycle import Lifecycle
from actors.ports.pgqueue import PgQueue
from actors.ports.prctl import make_undumpable
from protocols.control import CHANNEL as CONTROL_CHANNEL
from protocols.messages import Phase
from schema import migrate
from schema.aftercare import AftercareRules
from schema.queue.presence import supervisor_session
from schema.rows import JobType
from supervisor import exitcodes
from supervisor.beside import rows_beside
from supervisor.drain import Drain, Signals
from supervisor.errand import Errand
from supervisor.logs import Redactor
from supervisor.metrics import Metrics
from supervisor.repl.dumper import Dumper
from supervisor.repl.places import folders
from supervisor.restart import Policy
from supervisor.roles import API, Served, ensure_labels, served
from supervisor.rules import drain_rule, rules_of, slots_of
from supervisor.settings import Settings
from supervisor.settings.ports import (
    crawl_tools,
    database_settings,
    embedded_settings,
    enrich_settings,
    harvest_settings,
    pipeline_settings,
)
from supervisor.startchecks import hints, refuse_what_cannot_work
from supervisor.taskview import TaskClock
from supervisor.tree import TREE, House, Row, Tree
from supervisor.version import VERSION
from supervisor.watchdog import Watchdog

_log = structlog.get_logger(__name__)

JOBS_CHANNEL = "regelrecht_jobs"


def run_supervisor(
    settings: Settings, roles: Sequence[str], *, embedded: bool = False, errand: Errand | None = None
) -> int:
    """Run until a signal or an escalation, or until ``errand`` is done; the exit code (D20).

    From the main thread, with no loop running. InvalidInput: a role without an implementation (D23), or nothing to do it with.
    DatabaseUnavailable: no database at the start.
    """
    resolved = served(roles)
    refuse_what_cannot_work(settings, resolved)
    if API in resolved.actors:
        from supervisor import apirole

        apirole.prepare(settings)
    make_undumpable()  # no child, and no agent, reads our environment through /proc (D50)
    if os.getpid() == 1:
        _log.warning("this is process 1: orphaned children will pile up; start the image through an init (PR-03)")
    # The watchdog begins after everything that is started from the main thread alone, and watches until the very end:
    # the end of the process stays bounded (D12) while the embedded server waits for those who joined it.
    with (
        ExitStack() as to_the_end,
        Signals(exitcodes.CLEAN if errand is None else exitcodes.INTERRUPTED) as signals,
        _database(settings, resolved, embedded, "" if errand is None else errand.instead) as database,
        Guardian() as guardian,
    ):
        become_subreaper()
        supervisor = Supervisor(settings, resolved, guardian, signals, errand)
        to_the_end.enter_context(supervisor.watchdog.watching())
        with supervisor.dumper, signals.kept():
            return trio.run(supervisor.main, database, instruments=[supervisor.clock])


@contextmanager
def _database(settings: Settings, roles: Served, embedded: bool, instead: str) -> Iterator[DatabaseSettings]:
    """The database that is named, or the embedded one for the time of the block (D25)."""
    session = supervisor_session(service.role for service in roles.services)
    if settings.database.url is not None and not embedded:
        yield database_settings(settings.database, settings.database.url, session=session)
        return
    from supervisor.embedded import embedded_server

    with embedded_server(embedded_settings(settings.embedded), must_own=True, instead=instead) as server:
        yield database_settings(settings.database, server.url, session=session)


@define
class Supervisor:
    """What lives as long as the process. ``tree`` is None until the actors are made."""

    settings: Settings
    roles: Served
    guardian: Guardian
    signals: Signals
    errand: Errand | None = None
    lifecycle: Lifecycle = field(init=False, factory=Lifecycle)
    metrics: Metrics = field(init=False, factory=Metrics)
    clock: TaskClock = field(init=False, factory=TaskClock)
    redact: Callable[[str], str] = field(init=False)
    dumper: Dumper = field(init=False)
    watchdog: Watchdog = field(init=False)
    drain: Drain = field(init=False)
    tree: Tree | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.redact = Redactor(self.settings.secrets).text
        self.dumper = Dumper(folders(self.settings.repl, self.settings.embedded), self.redact)
        self.watchdog = Watchdog(self.survivors, also=self.dumper.look)
        self.drain = Drain(self.lifecycle, drain_rule(self.settings), self.watchdog.end_by)

    @property
    def services(self) -> tuple[Service, ...]:
        """The roles that take jobs."""
        return self.roles.services

    async def main(self, database: DatabaseSettings) -> int:
        """The whole life inside the loop. A signal before the tree stands ends it at once, with exit code 0 (SD-05)."""
        token = self.dumper.token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as starting:

            def on_signal(number: int) -> None:
                if self.lifecycle.phase is Phase.STARTING:
                    _log.info("stopped before the start was complete")
                    starting.cancel(reason="signal")
                else:
                    self.drain.on_signal(number)

            def hand_on(number: int) -> None:
                # Also bounds a drain that a blocked loop would never hear of.
                self.watchdog.end_by(self.drain.bound_s(self.signals.count))
                token.run_sync_soon(on_signal, number)

            with self.signals.listening(hand_on):
                return await self._serve(database)
        self.lifecycle.advance(Phase.GONE)
        return exitcodes.CLEAN

    async def _serve(self, settings: DatabaseSettings) -> int:
        _log.info("starting", roles=list(self.roles.names), pid=os.getpid(), version=VERSION)
        async with open_database(settings) as database, AsyncExitStack() as stack:
            await _bring_up_to_date(database)
            on_shared = self.settings.pipelines.on_shared_database
            for label in await ensure_labels(database, self.roles.labels, on_shared=on_shared):
                _log.info("job type added", job_type=label)
            queue = PgQueue(database, AftercareRules(self.settings.worker.exhausted_threshold))
            means = Means(queue, self.guardian, self._offered(database), self.metrics)
            handlers: dict[JobType, JobHandler] = {}
            for service in self.services:
                for job_type, factory in service.factories.items():
                    handlers[job_type] = await stack.enter_async_context(factory(means))
            self.tree = self._grow(database, queue, handlers)
            split = self.roles.split_hint(self.settings.blobs)
            for warning in (*self.settings.warnings, split, *hints(self.settings, self.roles)):
                if warning is not None:
                    _log.warning("settings", hint=warning)
            await self.tree.run()
        self.lifecycle.advance(Phase.GONE)
        if self.errand is None:  # else who breaks off what is left to do interrupts a command
            self.signals.exit_code = self.drain.exit_code
        _log.info("gone", exit_code=self.drain.exit_code)
        return self.drain.exit_code

    def survivors(self) -> Sequence[str]:
        """Who has not ended, for the forced end. Called from another thread: reads names only."""
        if self.lifecycle.phase is Phase.GONE:
            return ["the embedded PostgreSQL, which others still use"]
        if self.tree is None:
            return ["the start"]
        actors = [name for name, keeper in self.tree.keepers.items() if not keeper.done.is_set()]
        return [*self.tree.house.jobs.names, *(f"actor {name}" for name in actors)]

    def _offered(self, database: Database) -> tuple[object, ...]:
        """What job types may ask for by class (``Means.get``)."""
        offered = database, harvest_settings(self.settings), enrich_settings(self.settings, os.environ)
        if not self.roles.crawls:
            return offered
        return *offered, pipeline_settings(self.settings), crawl_tools(self.settings, os.environ)

    def _grow(self, database: Database, queue: PgQueue, handlers: Mapping[JobType, JobHandler]) -> Tree:
        house = House(
            queue,
            handlers,
            slots_of(self.settings, self.services),
            rules_of(self.settings, self.services),
            self.lifecycle,
            self.metrics,
            database.listen([JOBS_CHANNEL], control=CONTROL_CHANNEL),
        )
        watchdog = Row("watchdog", Policy.PERMANENT, lambda _: self.watchdog, "sees who holds the loop")
        return Tree(house, self.drain, (watchdog, *TREE, *rows_beside(self, house, database)))


async def _bring_up_to_date(database: Database) -> None:
    """Migrate when something is missing; only one supervisor does, the others wait for it (D2)."""
    if await database.run(migrate.missing):
        report = await database.direct(migrate.migrate)
        _log.info("schema migrated", applied=report.applied, adopted=report.adopted)
