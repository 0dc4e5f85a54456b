"""Workspaces and who may do what in them (D70)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from protocols.failures import InvalidInput
from protocols.scrub import scrub_text
from schema.connection import Connection

PERMISSIONS: Final = ("connectors:create", "connectors:read", "connectors:update", "connectors:delete")
_ADDRESS: Final = re.compile(r"[^@\s\x00-\x1f\x7f<>,;]+@[^@\s\x00-\x1f\x7f<>,;]+")
"""Enough to tell an address from a name; whether it takes mail only mail can tell."""


class AccountNotFound(InvalidInput):
    """No account is meant by this, or more than one."""

    kind = "account_not_found"


class AccountAmbiguous(AccountNotFound):
    """More than one account is meant by this."""


class WorkspaceNotFound(InvalidInput):
    """No workspace has this id."""

    kind = "workspace_not_found"


@frozen
class Workspace:
    id: int
    name: str
    owner_id: UUID


async def find_account(connection: Connection, who: str) -> UUID:
    """By id, subject or e-mail address. AccountNotFound."""
    rows = await connection.fetch(
        "SELECT id FROM accounts WHERE id::text = lower($1) OR person_sub = $1 OR lower(email) = lower($1) LIMIT 2", who
    )
    if len(rows) > 1:
        raise AccountAmbiguous(f"more than one account is meant by {who[:200]!r}: give its id")
    if not rows:
        raise AccountNotFound(
            f"no account has the id, subject or e-mail address {who[:200]!r}. The platform makes accounts when people log "
            "in; without it, `workspace create` and `member add` make one with --new-account"
        )
    return UUID(int=rows[0]["id"].int)


async def find_or_create_account(connection: Connection, who: str) -> UUID:
    """As ``find_account``; where there is none, a new one with ``who`` as its address. InvalidInput when it is none."""
    try:
        return await find_account(connection, who)
    except AccountAmbiguous:
        raise
    except AccountNotFound:
        return await create_account(connection, subject=who, email=who, name=who)


async def create_account(connection: Connection, *, subject: str, email: str, name: str) -> UUID:
    """An account for a database without the platform's own log-in. InvalidInput: no address, or one that is taken, as
    the subject may be.
    """
    if len(email) > 254 or not _ADDRESS.fullmatch(email):
        raise InvalidInput(
            f"{email[:200]!r} is no e-mail address, which a new account needs: expected name@example.org"
        )
    created = await connection.fetchval(
        "INSERT INTO accounts (person_sub, email, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING id",
        scrub_text(subject),
        scrub_text(email),
        scrub_text(name),
    )
    if created is None:
        raise InvalidInput(f"an account with the subject {subject!r} or the address {email!r} is there already")
    return UUID(int=created.int)


async def create_workspace(connection: Connection, name: str, owner_id: UUID) -> Workspace:
    """The owner pays for its crawls and may do everything in it. Needs a transaction. InvalidInput."""
    clean = scrub_text(name).strip()
    if not clean or len(clean) > 100:
        raise InvalidInput("the name of a workspace has 1 to 100 characters")
    created = await connection.fetchval(
        "INSERT INTO workspaces (name, owner_id) VALUES ($1, $2) RETURNING id", clean, owner_id
    )
    await add_member(connection, created, owner_id, PERMISSIONS)
    return Workspace(created, clean, owner_id)


async def get_workspace(connection: Connection, workspace_id: int) -> Workspace:
    """WorkspaceNotFound."""
    row = await connection.fetchrow("SELECT id, name, owner_id FROM workspaces WHERE id = $1", workspace_id)
    if row is None:
        raise WorkspaceNotFound(f"there is no workspace {workspace_id}")
    return Workspace(row["id"], row["name"], UUID(int=row["owner_id"].int))


async def list_workspaces(connection: Connection) -> Sequence[Mapping[str, Any]]:
    """``id``, ``name`` and the address of the ``owner``, by id."""
    rows = await connection.fetch(
        "SELECT w.id, w.name, a.email AS owner FROM workspaces AS w JOIN accounts AS a ON a.id = w.owner_id ORDER BY w.id"
    )
    return [dict(row) for row in rows]


async def add_member(
    connection: Connection, workspace_id: int, account_id: UUID, permissions: Sequence[str] = ("connectors:read",)
) -> None:
    """Let an account in, or change what it may do. InvalidInput for a permission that is none; WorkspaceNotFound."""
    unknown = sorted(set(permissions) - set(PERMISSIONS))
    if unknown:
        raise InvalidInput(f"{', '.join(unknown)}: permissions are {', '.join(PERMISSIONS)}")
    await get_workspace(connection, workspace_id)
    await connection.execute(
        """
        INSERT INTO workspace_members (workspace_id, account_id, permissions) VALUES ($1, $2, $3::text[])
        ON CONFLICT (workspace_id, account_id) DO UPDATE SET permissions = excluded.permissions
        """,
        workspace_id,
        account_id,
        sorted(set(permissions)),
    )


async def permissions_of(connection: Connection, workspace_id: int, account_id: UUID) -> frozenset[str]:
    """Empty for who is no member."""
    found = await connection.fetchval(
        "SELECT permissions FROM workspace_members WHERE workspace_id = $1 AND account_id = $2",
        workspace_id,
        account_id,
    )
    return frozenset(found or ())
