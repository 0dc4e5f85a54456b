"""Folders of a workspace: where documents lie. One transaction each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.failures import InvalidInput
from protocols.scrub import scrub_text
from schema.connection import Connection
from schema.records import plain_uuid

MAX_DEPTH: Final = 32

_COLUMNS: Final = "id, workspace_id, parent_id, name, position, created_by_id, created_at, updated_at"


class FolderNotFound(InvalidInput):
    """No folder has this id within what was asked for."""

    kind = "folder_not_found"


@frozen
class Folder:
    """One row of ``folders``. ``parent_id`` None: at the root of the workspace; ``position`` orders its siblings."""

    id: int
    workspace_id: int
    parent_id: int | None
    name: str
    position: str
    created_by_id: UUID | None
    created_at: dt.datetime
    updated_at: dt.datetime


async def create_folder(
    connection: Connection,
    workspace_id: int,
    name: str,
    *,
    parent_id: int | None = None,
    position: str = "a0",
    created_by_id: UUID | None = None,
) -> Folder:
    """InvalidInput: no name, a parent that is not in the workspace, too deep."""
    await _check_parent(connection, workspace_id, parent_id, moved=None)
    row = await connection.fetchrow(
        f"""
        INSERT INTO folders (workspace_id, parent_id, name, position, created_by_id) VALUES ($1, $2, $3, $4, $5)
        RETURNING {_COLUMNS}
        """,
        workspace_id,
        parent_id,
        _name(name),
        position,
        created_by_id,
    )
    assert row is not None
    return _folder_of(row)


async def folder_in(connection: Connection, workspace_id: int, folder_id: int, *, lock: str = "") -> Folder:
    """FolderNotFound when it is not in that workspace. ``lock`` is a row lock clause."""
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM folders WHERE id = $1 AND workspace_id = $2 {lock}", folder_id, workspace_id
    )
    if row is None:
        raise FolderNotFound(f"there is no folder {folder_id}")
    return _folder_of(row)


async def folders_of(
    connection: Connection, workspace_id: int, *, limit: int, offset: int = 0
) -> tuple[list[Folder], int]:
    """A page of the folders by id, and how many there are in all."""
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM folders WHERE workspace_id = $1 ORDER BY id LIMIT $2 OFFSET $3",
        workspace_id,
        limit,
        offset,
    )
    total = await connection.fetchval("SELECT count(*) FROM folders WHERE workspace_id = $1", workspace_id)
    return [_folder_of(row) for row in rows], int(total)


async def update_folder(
    connection: Connection, workspace_id: int, folder_id: int, changes: Mapping[str, Any]
) -> Folder:
    """Set what ``changes`` names of ``name``, ``parent_id``, ``position``. FolderNotFound, InvalidInput.

    Needs a transaction: two moves at once could otherwise close a ring.
    """
    await connection.execute("SELECT FROM workspaces WHERE id = $1 FOR NO KEY UPDATE", workspace_id)
    old = await folder_in(connection, workspace_id, folder_id, lock="FOR NO KEY UPDATE")
    parent = changes.get("parent_id", old.parent_id)
    await _check_parent(connection, workspace_id, parent, moved=folder_id)
    row = await connection.fetchrow(
        f"""
        UPDATE folders SET name = $2, parent_id = $3, position = $4, updated_at = now() WHERE id = $1
        RETURNING {_COLUMNS}
        """,
        folder_id,
        _name(changes.get("name", old.name)),
        parent,
        changes.get("position", old.position),
    )
    assert row is not None
    return _folder_of(row)


async def delete_folder(connection: Connection, workspace_id: int, folder_id: int) -> None:
    """With the folders in it; their documents, and pipelines that save there, go to the root. FolderNotFound."""
    await folder_in(connection, workspace_id, folder_id, lock="FOR UPDATE")
    await connection.execute("DELETE FROM folders WHERE id = $1", folder_id)


async def _check_parent(connection: Connection, workspace_id: int, parent_id: int | None, *, moved: int | None) -> None:
    """The parent is in the workspace, not below the folder that moves, and not too deep."""
    if parent_id is None:
        return
    above = await connection.fetch(
        """
        WITH RECURSIVE above(id, parent_id, depth) AS (
            SELECT id, parent_id, 1 FROM folders WHERE id = $1 AND workspace_id = $2
            UNION ALL
            SELECT f.id, f.parent_id, a.depth + 1 FROM folders AS f JOIN above AS a ON f.id = a.parent_id WHERE a.depth < $3
        )
        SELECT id FROM above
        """,
        parent_id,
        workspace_id,
        MAX_DEPTH,
    )
    if not above:
        raise InvalidInput(f"there is no folder {parent_id} in this workspace")
    if len(above) >= MAX_DEPTH:
        raise InvalidInput(f"folders lie at most {MAX_DEPTH} deep")
    if any(row["id"] == moved for row in above):
        raise InvalidInput("a folder cannot lie in itself or in a folder that lies in it")


def _name(text: str) -> str:
    name = scrub_text(text).strip()
    if not name or len(name) > 255:
        raise InvalidInput("the name of a folder has 1 to 255 characters")
    return name


def _folder_of(row: Mapping[str, Any]) -> Folder:
    values = {name: row[name] for name in _COLUMNS.split(", ")}
    return Folder(**{**values, "created_by_id": plain_uuid(row["created_by_id"])})
