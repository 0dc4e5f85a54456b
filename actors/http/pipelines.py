"""Operations on pipelines (``pipelines.md`` 9)."""

from __future__ import annotations

from actors.http.answers import PeriodicChanged, PipelineAnswer, PipelinePage, told
from actors.http.operations import CREATE, DELETE, READ, UPDATE, Call, Desk, Operation
from actors.http.reading import changes_of
from actors.http.requests import PipelineCreate, PipelineUpdate, WorkspacePage
from schema.pipelines import api, manage
from schema.pipelines.manage import NewPipeline
from schema.pipelines.periodic import PeriodicChange
from schema.pipelines.rows import Pipeline


async def _create(desk: Desk, call: Call) -> PipelineAnswer:
    call.require_workspace(call.body.workspace_id)
    new = NewPipeline(**changes_of(call.body), created_by_id=call.principal.account_id)
    return _changed(*await desk.database.transact(manage.create_pipeline, new, registry=desk.registry))


async def _list(desk: Desk, call: Call) -> PipelinePage:
    call.require_workspace(call.query.workspace_id)
    found, total = await desk.database.run(
        api.pipelines_of, call.workspace, limit=call.query.limit, offset=call.query.offset
    )
    return PipelinePage([told(PipelineAnswer, pipeline) for pipeline in found], total)


async def _get(desk: Desk, call: Call) -> PipelineAnswer:
    return told(PipelineAnswer, await desk.database.run(api.pipeline_in, call.workspace, call.ids["pipeline_id"]))


async def _update(desk: Desk, call: Call) -> PipelineAnswer:
    changes = changes_of(call.body)
    return _changed(
        *await desk.database.transact(api.change_pipeline, call.workspace, call.ids["pipeline_id"], changes)
    )


async def _delete(desk: Desk, call: Call) -> None:
    await desk.database.transact(api.remove_pipeline, call.workspace, call.ids["pipeline_id"])


def _changed(pipeline: Pipeline, change: PeriodicChange) -> PipelineAnswer:
    return told(PipelineAnswer, pipeline, connector_periodic=PeriodicChanged(change.suppressed, change.restored))


# fmt: off
OPERATIONS = (
    Operation("POST", "/pipelines", "Create a pipeline.", CREATE, _create,
              body=PipelineCreate, answer=PipelineAnswer, status=201, also=(404,)),
    Operation("GET", "/pipelines", "List the pipelines of a workspace, by id.", READ, _list,
              query=WorkspacePage, answer=PipelinePage, also=(404,)),
    Operation("GET", "/pipelines/{pipeline_id}", "Show a pipeline.", READ, _get, answer=PipelineAnswer),
    Operation("PUT", "/pipelines/{pipeline_id}", "Change what is sent; null clears cron or folder.", UPDATE, _update,
              body=PipelineUpdate, answer=PipelineAnswer),
    Operation("DELETE", "/pipelines/{pipeline_id}", "Delete a pipeline with its runs.", DELETE, _delete, status=204),
)
# fmt: on
