"""Operations on folders, and what a workspace says of itself."""

from __future__ import annotations

from actors.http.answers import FolderAnswer, FolderPage, WalletAnswer, WorkspaceAnswer, told
from actors.http.operations import CREATE, DELETE, READ, UPDATE, Call, Desk, Operation
from actors.http.reading import changes_of
from actors.http.requests import FolderCreate, FolderUpdate, WorkspacePage
from schema.pipelines import api, folders


async def _create(desk: Desk, call: Call) -> FolderAnswer:
    sent = call.body
    call.require_workspace(sent.workspace_id)
    made = await desk.database.transact(
        folders.create_folder,
        call.workspace,
        sent.name,
        parent_id=sent.parent_id,
        position=sent.position,
        created_by_id=call.principal.account_id,
    )
    return told(FolderAnswer, made)


async def _list(desk: Desk, call: Call) -> FolderPage:
    call.require_workspace(call.query.workspace_id)
    found, total = await desk.database.run(
        folders.folders_of, call.workspace, limit=call.query.limit, offset=call.query.offset
    )
    return FolderPage([told(FolderAnswer, folder) for folder in found], total)


async def _get(desk: Desk, call: Call) -> FolderAnswer:
    return told(FolderAnswer, await desk.database.run(folders.folder_in, call.workspace, call.ids["folder_id"]))


async def _update(desk: Desk, call: Call) -> FolderAnswer:
    changed = await desk.database.transact(
        folders.update_folder, call.workspace, call.ids["folder_id"], changes_of(call.body)
    )
    return told(FolderAnswer, changed)


async def _delete(desk: Desk, call: Call) -> None:
    await desk.database.transact(folders.delete_folder, call.workspace, call.ids["folder_id"])


async def _workspace(desk: Desk, call: Call) -> WorkspaceAnswer:
    call.require_workspace(call.ids["workspace_id"])
    view = await desk.database.run(api.workspace_view, call.workspace)
    return told(WorkspaceAnswer, view, wallet=told(WalletAnswer, view.wallet))


# fmt: off
OPERATIONS = (
    Operation("GET", "/workspaces/{workspace_id}", "Show a workspace with the credit of its owner.", READ, _workspace,
              answer=WorkspaceAnswer),
    Operation("POST", "/folders", "Create a folder.", CREATE, _create,
              body=FolderCreate, answer=FolderAnswer, status=201, also=(404,)),
    Operation("GET", "/folders", "List the folders of a workspace, by id.", READ, _list,
              query=WorkspacePage, answer=FolderPage, also=(404,)),
    Operation("GET", "/folders/{folder_id}", "Show a folder.", READ, _get, answer=FolderAnswer),
    Operation("PUT", "/folders/{folder_id}", "Change what is sent; a null parent moves to the root.", UPDATE, _update,
              body=FolderUpdate, answer=FolderAnswer),
    Operation("DELETE", "/folders/{folder_id}", "Delete a folder with those in it; documents go to the root.", DELETE,
              _delete, status=204),
)
# fmt: on
