"""The run engine: a claimed ``pipeline_run`` job from its claim to its completion (``pipelines.md`` 2.3).

Marked running first, in a commit of its own, so that whoever meets the run again sees it; then the guards in their order;
then the executor of the connector's type. What goes wrong ends the run failed, once and for good: only a worker that
was lost is a reason to drive a run again, and that is the reaper's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import structlog
import trio
from attrs import frozen

from actors.jobs.base import Completion, Work
from actors.jobs.pipeline_run.executors import Executor
from actors.jobs.pipeline_run.settings import PipelineSettings
from actors.jobs.pipeline_run.writes import written
from protocols import runs as texts
from protocols.crawl import Target
from protocols.failures import HandedBack, JobCancelled, LeaseLost, gravest
from protocols.runs import RunError, RunFailed, RunGone, RunStatus, claim_holder, read_run_payload
from schema.connection import Connection
from schema.pipelines import leases, runs
from schema.pipelines.leases import Resource
from schema.pipelines.rows import Item
from schema.pipelines.runs import RunContext, RunNotFound
from schema.rows import Job, JobType

_log = structlog.get_logger(__name__)


@frozen
class PipelineRun:
    """The handler. ``executors`` by connector type: what is not there is eligible at most."""

    settings: PipelineSettings
    executors: Mapping[str, Executor]
    job_type: JobType = JobType.PIPELINE_RUN

    async def run(self, work: Work) -> Completion:
        """The completion of a run that succeeded, or that there was nothing to do for. RunFailed says why it failed."""
        payload = read_run_payload(work.job.payload)
        try:
            begun = await written(work, partial(_begin, payload.run_id))
            if isinstance(begun, RunStatus):
                return Completion({"noop": begun.value})
            work.started()
            _log.info("run begun", run_id=begun.run.id, pipeline_id=begun.pipeline.id, claim=begun.run.claim_seq)
            with trio.move_on_after(self.settings.run_timeout_s):
                return await self._drive(work, begun)
            raise RunFailed(RunError("timeout", f"the run took longer than {self.settings.run_timeout_s:g} s"))
        except (RunGone, RunNotFound):
            return Completion({"gone": True}, _let_go)
        except Exception as error:
            raise _judged(error) from error

    async def _drive(self, work: Work, context: RunContext) -> Completion:
        """G1 to G8 in their order; the run's row says which of them ended it."""
        connector = context.connector
        if connector is None:
            raise texts.uploads_no_executor()
        if not self.settings.registry.is_pipeline_eligible(connector.connector_type):
            raise texts.connector_ineligible(connector.connector_type)
        executor = self.executors.get(connector.connector_type)
        if executor is None:
            raise texts.executor_missing(connector.connector_type)
        targets: Sequence[Target] = ()
        if context.run.preflight_at is None:  # a run that is taken up again has its list already
            targets = await executor.targets(work, context)
        await written(work, partial(_take_leases, context, self.settings.lease_ttl_s))
        items = await written(work, partial(_preflight, context, executor, targets))
        return await executor.execute(work, context, items)


async def _begin(run_id: int, connection: Connection, job: Job) -> RunContext | RunStatus:
    return await runs.begin(connection, job, run_id)


async def _take_leases(context: RunContext, ttl_s: float, connection: Connection, job: Job) -> None:
    """G6 and G7. Pipeline first; what raises here takes neither."""
    assert context.connector is not None
    await runs.owned(connection, job, context.run.id)
    holder = claim_holder(job.id, job.attempts)
    if not await leases.acquire(connection, Resource.PIPELINE, context.pipeline.id, holder, ttl_s=ttl_s):
        raise texts.already_in_progress()
    if not await leases.acquire(connection, Resource.CONNECTOR, context.connector.id, holder, ttl_s=ttl_s):
        raise texts.connector_busy()


async def _preflight(
    context: RunContext, executor: Executor, targets: Sequence[Target], connection: Connection, job: Job
) -> list[Item]:
    """G8, and the list for good."""
    return await runs.preflight(
        connection,
        job,
        context,
        targets=targets,
        pricing=executor.pricing,
        keep_done=executor.keeps_done(context),
    )


async def _let_go(connection: Connection, job: Job) -> None:
    await leases.release(connection, claim_holder(job.id, job.attempts))


def _judged(error: Exception) -> BaseException:
    """The failure that the job ends with. A lost lease, a cancel and a hand-back are none of the run's."""
    leaf = gravest(error)
    if isinstance(leaf, LeaseLost | JobCancelled | HandedBack | RunFailed):
        return leaf
    _log.error("run failed by an exception", exc_info=leaf)
    return texts.unforeseen(leaf)
