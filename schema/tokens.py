"""Tokens of the HTTP interface: made, shown once, checked, revoked (D70)."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import evolve, field, frozen

from protocols.failures import InvalidInput
from protocols.scrub import scrub_text
from schema.connection import Connection
from schema.pipelines.workspaces import PERMISSIONS, get_workspace, permissions_of

PREFIX: Final = "rrs"
"""Begins every token, so that scanners for leaked secrets know one when they see it."""

_FORM: Final = re.compile(rf"{PREFIX}_([0-9]{{1,18}})_([A-Za-z0-9_-]{{43}})")
_NOBODY: Final = "0" * 64
_COLUMNS: Final = (
    "id, name, account_id, workspace_id, permissions, created_by, created_at, expires_at, revoked_at, last_used_at"
)


class TokenNotFound(InvalidInput):
    """No token has this id."""

    kind = "token_not_found"


@frozen
class Token:
    """One row of ``api_tokens``, without what it is compared with."""

    id: int
    name: str
    account_id: UUID
    workspace_id: int
    permissions: tuple[str, ...]
    created_by: str
    created_at: dt.datetime
    expires_at: dt.datetime | None
    revoked_at: dt.datetime | None
    last_used_at: dt.datetime | None
    account: str | None = None
    """The address of the account, in lists."""


@frozen
class NewToken:
    """``text`` is what its user sends. It is nowhere else, and cannot be had again."""

    token: Token
    text: str = field(repr=False)


@frozen
class Principal:
    """Who asks, for which workspace, and what it may do there now."""

    token_id: int
    account_id: UUID
    workspace_id: int
    permissions: frozenset[str]


async def create_token(
    connection: Connection,
    account_id: UUID,
    workspace_id: int,
    *,
    name: str,
    permissions: Sequence[str],
    created_by: str,
    valid_days: float | None = None,
) -> NewToken:
    """A token for a member of the workspace. ``valid_days`` None: until it is revoked. Needs a transaction.

    InvalidInput: permissions that there are none of, that the account does not have, or no name; WorkspaceNotFound.
    """
    wanted = sorted(set(permissions))
    unknown = [one for one in wanted if one not in PERMISSIONS]
    if unknown or not wanted:
        raise InvalidInput(f"{', '.join(unknown) or 'no permission'}: permissions are {', '.join(PERMISSIONS)}")
    clean = scrub_text(name).strip()
    if not clean or len(clean) > 100:
        raise InvalidInput("the name of a token has 1 to 100 characters")
    await get_workspace(connection, workspace_id)
    held = await permissions_of(connection, workspace_id, account_id)
    beyond = [one for one in wanted if one not in held]
    if beyond:
        raise InvalidInput(
            f"the account may not {', '.join(beyond)} in workspace {workspace_id}: add it as a member first"
        )
    secret = secrets.token_urlsafe(32)
    row = await connection.fetchrow(
        f"""
        INSERT INTO api_tokens (name, secret_hash, account_id, workspace_id, permissions, created_by, expires_at)
        VALUES ($1, $2, $3, $4, $5::text[], $6, now() + $7::float8 * interval '1 day') RETURNING {_COLUMNS}
        """,
        clean,
        _hash(secret),
        account_id,
        workspace_id,
        wanted,
        scrub_text(created_by),
        valid_days,
    )
    assert row is not None
    token = _token_of(row)
    return NewToken(token, f"{PREFIX}_{token.id}_{secret}")


async def authenticate(connection: Connection, text: str) -> Principal | None:
    """Who sent ``text``; None: nobody that may. When it was last used is noted to the minute.

    The secret is compared in constant time, also for an id that there is not, so that the answer's time tells nothing.
    """
    form = _FORM.fullmatch(text)
    row = None if form is None else await connection.fetchrow(
        """
        SELECT id, secret_hash, account_id, workspace_id, permissions,
               last_used_at IS NULL OR last_used_at < now() - interval '1 minute' AS stale,
               revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) AS valid
        FROM api_tokens WHERE id = $1
        """,
        int(form[1]),
    )  # fmt: skip
    expected = _NOBODY if row is None else str(row["secret_hash"])
    given = _hash("" if form is None else form[2])
    if not hmac.compare_digest(expected, given) or row is None or not row["valid"]:
        return None
    if row["stale"]:
        await connection.execute("UPDATE api_tokens SET last_used_at = now() WHERE id = $1", row["id"])
    account = UUID(int=row["account_id"].int)
    held = await permissions_of(connection, row["workspace_id"], account)
    return Principal(row["id"], account, row["workspace_id"], held & frozenset(row["permissions"]))


async def revoke_token(connection: Connection, token_id: int) -> tuple[Token, bool]:
    """From now on it is good for nothing. Also whether that is new: False, it was revoked already. TokenNotFound."""
    row = await connection.fetchrow(
        f"UPDATE api_tokens SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL RETURNING {_COLUMNS}", token_id
    )
    if row is not None:
        return _token_of(row), True
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM api_tokens WHERE id = $1", token_id)
    if row is None:
        raise TokenNotFound(f"there is no token {token_id}: see `token list`")
    return _token_of(row), False


async def list_tokens(connection: Connection, *, workspace_id: int | None = None) -> list[Token]:
    """All tokens, or those of one workspace, by id; the revoked and the expired too."""
    rows = await connection.fetch(
        f"""
        SELECT {_COLUMNS}, (SELECT email FROM accounts WHERE accounts.id = account_id) AS account
        FROM api_tokens WHERE $1::bigint IS NULL OR workspace_id = $1 ORDER BY id
        """,
        workspace_id,
    )
    return [evolve(_token_of(row), account=row["account"]) for row in rows]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _token_of(row: Mapping[str, Any]) -> Token:
    values = {name: row[name] for name in _COLUMNS.split(", ")}
    return Token(**{**values, "account_id": UUID(int=row["account_id"].int), "permissions": tuple(row["permissions"])})
