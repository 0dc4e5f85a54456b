"""One window of enrichment, claim to completion, step by step (``enrich.md`` 5.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

import structlog
import trio
from attrs import field, frozen

from actors.jobs.base import Completion, Work
from actors.jobs.enrich.calls import JobCalls
from actors.jobs.enrich.desk import Desk
from actors.jobs.enrich.draft import Draft, lay_out
from actors.jobs.enrich.flows import CorpusFlow, Flow, Loaded, Product, TaskFlow
from actors.jobs.enrich.lane import Lane
from actors.jobs.enrich.product import SearchName, product_of
from actors.jobs.enrich.rounds import closing_pass, refuse_unfit, window_gates
from actors.jobs.enrich.settings import EnrichSettings
from actors.jobs.enrich.translate import KEEP_LIMIT_S, base_of, keep_partial, translate
from actors.jobs.enrich.watch import ProgressWatch
from actors.ports.agentfolders import AttemptFolder, WorkRoot
from actors.ports.agentprocess import AgentRunner
from protocols import envelope
from protocols.agentview import AgentView
from protocols.compose import LawSource
from protocols.enrichpayload import EnrichPayload, provider_of, read_enrich_payload
from protocols.enrichsteps import RECONCILE, WINDOW
from protocols.failures import ContentFailure, JobTimedOut, ProviderTrouble, SupervisorError
from protocols.lawschema import LawSchemas
from protocols.lawtree import read_tree
from protocols.lawyaml import UnreadableLaw
from protocols.skillset import SkillSet
from protocols.windows import Cursor, Window, chosen_window, plan_window
from schema import enrich, pauses
from schema.connection import Connection
from schema.enrichblobs import PartialWork, load_partial
from schema.pauses import Usable
from schema.rows import Job, JobType

LAST_REPORT_S = 2.0

_log = structlog.get_logger(__name__)


@frozen
class Enrich:
    """The handler. One for all enrichments of a supervisor; it keeps no state between them.

    ``flows`` by provider are those of the corpus. ``runner`` makes what runs the calls of one job. ``search_name`` finds
    national laws by name; None: related laws are known by id and slug only.
    """

    settings: EnrichSettings
    lanes: Mapping[str, Lane]
    flows: Mapping[str, CorpusFlow]
    root: WorkRoot
    skills: SkillSet
    schemas: LawSchemas
    runner: Callable[[], AgentRunner]
    search_name: SearchName | None = field(default=None, repr=False)
    job_type: JobType = JobType.ENRICH

    async def run(self, work: Work) -> Completion:
        """Failures come out as they are; the table of verdicts says what they mean.

        The job's own time ends before the push; that has a limit of its own (D44).
        """
        payload = read_enrich_payload(work.job.payload)
        provider = provider_of(payload, self.settings.default_provider)
        lane = self.lanes[provider]
        flow: Flow = TaskFlow() if payload.is_task_flow else self.flows[provider]
        deadline = trio.current_time() + self.settings.job_timeout_s
        completion: Completion | None = None
        finished: tuple[Loaded, Product] | None = None
        with trio.CancelScope(deadline=deadline) as scope:
            usable = await self._begin(work, payload, provider)
            completion = await flow.resume(work, payload, provider)
            if completion is None:
                finished = await self._window(work, payload, flow, lane, usable, deadline)
        if scope.cancelled_caught:
            raise JobTimedOut(self._time_out_text(payload), limit_s=self.settings.job_timeout_s)
        if completion is None:
            assert finished is not None
            completion = await flow.deliver(work, payload, provider, *finished)
        return completion

    def _time_out_text(self, payload: EnrichPayload) -> str:
        limit = f"{self.settings.job_timeout_s:g}"
        return f"verrijking time-out na {limit}s" if payload.is_task_flow else f"the job took longer than {limit} s"

    async def _begin(self, work: Work, payload: EnrichPayload, provider: str) -> Usable:
        """Take the law on, in the corpus flow; returns which credentials are in trouble."""
        found: list[Usable] = []

        async def unit(connection: Connection, job: Job) -> None:
            if not payload.is_task_flow:
                directory = str(PurePosixPath(payload.yaml_path).parent)
                await enrich.begin(connection, job)
                await enrich.reserve_directory(connection, job, provider, directory)
                await enrich.check_cost(connection, job, self.settings.max_cost_millicents)
            found.append(await pauses.usable_for(connection, provider, job.id))

        await work.write(unit)
        return found[-1]

    async def _window(
        self,
        work: Work,
        payload: EnrichPayload,
        flow: Flow,
        lane: Lane,
        usable: Usable,
        deadline: float,
    ) -> tuple[Loaded, Product]:
        async with self.laid_out(work, payload, flow, lane, usable, deadline) as (loaded, desk):
            product = await self.work_off(desk, loaded, lane)
        if desk.trouble is not None:
            await self._bench(work, lane, desk.trouble)
        return loaded, product

    @asynccontextmanager
    async def laid_out(
        self,
        work: Work,
        payload: EnrichPayload,
        flow: Flow,
        lane: Lane,
        usable: Usable,
        deadline: float,
        *,
        chosen: Sequence[int] | None = None,
    ) -> AsyncIterator[tuple[Loaded, Desk]]:
        """The next window of the law, in a private folder that is gone after the block. Nobody was called yet.

        ``chosen``: not the next window but these entries, by position.
        """
        self.root.expect_space()
        loaded = await flow.load(work, payload)
        source = await trio.to_thread.run_sync(_readable_law, loaded.law)
        window = self._plan(payload, source, None if payload.restart else loaded.state.cursor, chosen)
        async with self.root.attempt(str(work.job.id), work.job.attempts) as folder:
            kept = await self._partial(work, loaded.law)
            credential = lane.credential(usable)
            calls = JobCalls(work, lane, folder, self.runner(), AgentView(lane.dialect.name), deadline, credential)
            yield loaded, await self._desk(work, payload, lane, folder, loaded, window, calls, kept)

    async def work_off(self, desk: Desk, loaded: Loaded, lane: Lane) -> Product:
        """Translate, gates, closing pass, and what came of it. Nothing of it is outside the folder yet."""
        await self._watched(desk)
        return await product_of(desk, loaded, lane, search_name=self.search_name)

    async def _watched(self, desk: Desk) -> None:
        """The work, with its progress reported meanwhile and once more at its end, whatever that is."""
        watch = ProgressWatch(desk)
        failure: SupervisorError | None = None
        async with trio.open_nursery() as nursery:
            await nursery.start(watch.run)
            try:
                await self._work(desk)
            except SupervisorError as error:  # raised below, without the group that a nursery makes of it
                failure = error
            finally:
                with trio.move_on_after(LAST_REPORT_S, shield=True):
                    await watch.report()
            nursery.cancel_scope.cancel(reason="window done")
        if failure is not None:
            raise failure

    def _plan(
        self, payload: EnrichPayload, source: LawSource, cursor: Cursor | None, chosen: Sequence[int] | None
    ) -> Window:
        total = len(source.entries)
        if chosen is not None:
            return chosen_window(chosen, total, cursor, payload.yaml_path)
        if WINDOW not in self.settings.steps:  # the closing pass alone
            return Window(total, total, total)
        return plan_window(self.settings.window_limit, total, cursor, payload.yaml_path)

    async def _partial(self, work: Work, law: bytes) -> PartialWork | None:
        """What an earlier attempt finished; a work without a database (``once``) has nothing to look in."""
        found: list[PartialWork | None] = []

        async def look(connection: Connection, job: Job) -> None:
            found.append(await load_partial(connection, job, base_of(law)))

        await work.write(look)
        return found[-1] if found else None

    async def _desk(
        self,
        work: Work,
        payload: EnrichPayload,
        lane: Lane,
        folder: AttemptFolder,
        loaded: Loaded,
        window: Window,
        calls: JobCalls,
        kept: PartialWork | None,
    ) -> Desk:
        """Lay everything out for the agents."""
        law = loaded.law if kept is None else kept.law.encode()
        await lay_out(folder.checkout, dict(loaded.files))
        desk = Desk(
            work=work,
            settings=self.settings,
            payload=payload,
            provider=lane.dialect.name,
            folder=folder,
            window=window,
            draft=await Draft.begin(folder.checkout, payload.yaml_path, start=loaded.law, law=law),
            calls=calls,
            skills=self.skills,
            schemas=self.schemas,
            library=loaded.library,
            done=() if kept is None else kept.numbers,
        )
        if window.windowed and not window.empty:
            stale = loaded.files.get(desk.envelope_path)
            fresh = await trio.to_thread.run_sync(envelope.without_report, stale)
            if fresh is not None and fresh != stale:
                await lay_out(folder.checkout, {desk.envelope_path: fresh})
        return desk

    async def _work(self, desk: Desk) -> None:
        """Translate, gates, and at the end of a law the closing pass. An empty window calls nobody."""
        only_closing = WINDOW not in desk.settings.steps
        if only_closing or not desk.window.empty:
            await refuse_unfit(desk)
        if not desk.window.empty:
            await translate(desk)
        ended = False
        try:
            if not desk.window.empty:
                await window_gates(desk)
            closes = desk.window.law_complete and RECONCILE in desk.settings.steps
            if closes and (only_closing or not desk.window.empty):
                await closing_pass(desk)
            ended = True
        finally:
            if not ended:  # what was translated is not lost to a gate, a drain or a broken line
                with trio.move_on_after(KEEP_LIMIT_S, shield=True):
                    await keep_partial(desk)

    async def _bench(self, work: Work, lane: Lane, trouble: ProviderTrouble) -> None:
        """A provider in trouble that did not cost the window: nobody claims for it for a while all the same (D52)."""

        async def unit(connection: Connection, job: Job) -> None:
            await pauses.bench_for(connection, trouble, lane.dialect.name)

        await work.write(unit)


def _readable_law(law: bytes) -> LawSource:
    """ContentFailure: a law that cannot be read before any call fails the same way every time (D41)."""
    try:
        read_tree(law)
        return LawSource.read(law)
    except UnreadableLaw as fault:
        raise ContentFailure(f"YAML error in the law before any change: {fault.message}") from fault
