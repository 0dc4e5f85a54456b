"""Operations on connectors (``pipelines.md`` 9, 6)."""

from __future__ import annotations

from actors.http.answers import ConnectorAnswer, ConnectorPage, JobAnswer, told
from actors.http.operations import CREATE, DELETE, READ, UPDATE, Call, Desk, Operation
from actors.http.reading import changes_of
from actors.http.requests import ConnectorCreate, ConnectorUpdate, WorkspacePage
from schema.pipelines import api, manage
from schema.pipelines.manage import NewConnector


async def _create(desk: Desk, call: Call) -> ConnectorAnswer:
    call.require_workspace(call.body.workspace_id)
    new = NewConnector(**changes_of(call.body), owner_id=call.principal.account_id)
    made = await desk.database.transact(manage.create_connector, new, registry=desk.registry)
    return told(ConnectorAnswer, made)


async def _list(desk: Desk, call: Call) -> ConnectorPage:
    call.require_workspace(call.query.workspace_id)
    found, total = await desk.database.run(
        api.connectors_of, call.workspace, limit=call.query.limit, offset=call.query.offset
    )
    return ConnectorPage([told(ConnectorAnswer, connector) for connector in found], total)


async def _get(desk: Desk, call: Call) -> ConnectorAnswer:
    return told(ConnectorAnswer, await desk.database.run(api.connector_in, call.workspace, call.ids["connector_id"]))


async def _update(desk: Desk, call: Call) -> ConnectorAnswer:
    changed = await desk.database.transact(
        api.change_connector, call.workspace, call.ids["connector_id"], changes_of(call.body)
    )
    return told(ConnectorAnswer, changed)


async def _delete(desk: Desk, call: Call) -> None:
    await desk.database.transact(api.remove_connector, call.workspace, call.ids["connector_id"])


async def _index(desk: Desk, call: Call) -> JobAnswer:
    job = await desk.database.transact(api.index_connector, call.workspace, call.ids["connector_id"])
    return told(JobAnswer, job)


# fmt: off
OPERATIONS = (
    Operation("POST", "/connectors", "Create a connector.", CREATE, _create,
              body=ConnectorCreate, answer=ConnectorAnswer, status=201, also=(404,)),
    Operation("GET", "/connectors", "List the connectors of a workspace, by id.", READ, _list,
              query=WorkspacePage, answer=ConnectorPage, also=(404,)),
    Operation("GET", "/connectors/{connector_id}", "Show a connector.", READ, _get, answer=ConnectorAnswer),
    Operation("PUT", "/connectors/{connector_id}", "Change what is sent.", UPDATE, _update,
              body=ConnectorUpdate, answer=ConnectorAnswer, also=(409,)),
    Operation("DELETE", "/connectors/{connector_id}", "Delete a connector with its pipelines.", DELETE, _delete, status=204),
    Operation("POST", "/connectors/{connector_id}/index", "Index a connector now.", UPDATE, _index,
              answer=JobAnswer, status=202, also=(409, 422)),
)
# fmt: on
