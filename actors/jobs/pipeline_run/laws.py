"""``BWB_LAWS_CONNECTOR``: a pipeline that asks for laws to be harvested again (``pipelines.md`` 11).

Its run is over when everything is queued. The harvests are jobs like any other, below what people and references ask for
and a few seconds apart, out of politeness to the repository.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from functools import partial
from zoneinfo import ZoneInfo

import structlog
from attrs import field, frozen

from actors.jobs.base import Completion, Work
from actors.jobs.pipeline_run.writes import written
from protocols.crawl import Target
from protocols.credits import Pricing
from protocols.failures import LeaseLost
from protocols.lawpipeline import LawSelection, Select, law_targets, read_law_selection
from protocols.runs import DocAction, ItemOutcome, no_laws
from schema.connection import Connection
from schema.pipelines import lawruns
from schema.pipelines.items import ItemResult
from schema.pipelines.rows import Item
from schema.pipelines.runs import RunContext
from schema.rows import Job

_log = structlog.get_logger(__name__)


def _today() -> dt.date:
    return dt.datetime.now(ZoneInfo("Europe/Amsterdam")).date()


@frozen
class LawHarvest:
    """The executor. ``today`` is the day in Amsterdam: a date to harvest for lies not after it."""

    today: Callable[[], dt.date] = field(default=_today)

    @property
    def pricing(self) -> Pricing | None:
        return None

    async def targets(self, work: Work, context: RunContext) -> Sequence[Target]:
        selection = self._selection(context)
        listed = law_targets(selection.law_ids) if selection.select is Select.LISTED else ()
        readable = frozenset(target.text for target in listed if target.fault is None)

        async def choose(connection: Connection, _: Job) -> Sequence[str]:
            return await lawruns.choose(connection, selection)

        chosen = await written(work, choose)
        found = [Target(law_id) for law_id in chosen if not listed or law_id in readable]
        targets = [*found, *(target for target in listed if target.fault is not None)]
        if not targets:
            raise no_laws()
        return targets

    def keeps_done(self, context: RunContext) -> bool:
        return True

    async def execute(self, work: Work, context: RunContext, items: Sequence[Item]) -> Completion:
        selection = self._selection(context)
        for number, item in enumerate(items):
            work.report({"phase": "laws", "done": number, "total": len(items), "current": item.target})
            await self._ask(work, context, item, selection, delay_s=number * selection.stagger_s)
        work.report({"phase": "laws", "done": len(items), "total": len(items)})
        return Completion(
            {"run_id": context.run.id, "pipeline_id": context.pipeline.id, "status": "succeeded"},
            partial(_succeed, context),
        )

    def _selection(self, context: RunContext) -> LawSelection:
        assert context.connector is not None
        return read_law_selection(context.pipeline.config, context.connector.config, today=self.today())

    async def _ask(
        self, work: Work, context: RunContext, item: Item, selection: LawSelection, *, delay_s: float
    ) -> None:
        """One law. Whatever asking for it raises is that law's failure, not the run's."""
        if item.error is not None:
            await self._note(work, context, item, item.error)
            return

        async def unit(connection: Connection, job: Job) -> None:
            await lawruns.enqueue(connection, job, context, item, selection, delay_s=delay_s)

        try:
            await written(work, unit)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - the next law may go better
            _log.exception("a law could not be queued", law=item.target)
            await self._note(work, context, item, f"{type(error).__name__}: {error}")

    async def _note(self, work: Work, context: RunContext, item: Item, error: str) -> None:
        result = ItemResult(ItemOutcome.FAILED, DocAction.NONE, error=error)

        async def unit(connection: Connection, job: Job) -> None:
            await lawruns.tick_off(connection, job, context, item, result)

        await written(work, unit)


async def _succeed(context: RunContext, connection: Connection, job: Job) -> None:
    await lawruns.succeed(connection, job, context)
