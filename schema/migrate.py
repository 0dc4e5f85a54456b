"""Bring a database to the schema of this version, whoever else starts at the same moment (D2, DB-08, ``queue.md`` 1.0).

Numbered ``.sql`` files, a bookkeeping table of our own with checksums, one session lock on the one connection that also
runs the migrations. A file that begins with ``-- no-transaction`` is run statement by statement, each on its own; there a
statement ends with a semicolon at the end of a line, and the indexes it names are checked for validity.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.resources import files
from typing import Final

from attrs import field, frozen

from schema import platform
from schema.connection import Connection
from schema.errors import MigrationRefused

LOCK_KEY: Final = 5928222847461901635
"""The key that the existing services lock while they migrate, so that they and we wait for each other."""

OLDEST_SERVER: Final = 13
BOOKKEEPING: Final = "supervisor_migrations"

_CREATE_BOOKKEEPING = f"""
CREATE TABLE IF NOT EXISTS {BOOKKEEPING} (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    adopted     boolean NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
)
"""
_INDEX = re.compile(r"INDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+(\w+)", re.IGNORECASE)


@frozen
class Migration:
    """One numbered file. ``checksum`` is the SHA-256 of its text in hex."""

    version: int
    name: str
    sql: str = field(repr=False)

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def transactional(self) -> bool:
        return not self.sql.startswith("-- no-transaction")

    @property
    def statements(self) -> list[str]:
        """The statements of a file without transaction."""
        lines = "\n".join(line for line in self.sql.splitlines() if not line.startswith("--"))
        return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", lines) if part.strip()]


@frozen
class MigrationReport:
    """What was done. ``newer`` names versions that a later release of this program applied already: it works on them too."""

    applied: tuple[str, ...]
    already: int
    adopted: bool
    added_anyway: tuple[str, ...] = ()
    newer: tuple[int, ...] = ()


def packaged_migrations() -> list[Migration]:
    """The files that ship with this program, in order."""
    found = [
        Migration(int(entry.name[:4]), entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in files("schema").joinpath("migrations").iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
    ]
    return sorted(found, key=lambda migration: migration.version)


async def migrate(
    connection: Connection,
    *,
    add_anyway: bool = False,
    migrations: Sequence[Migration] | None = None,
    lock_wait_s: float = 600,
    lock_poll_s: float = 1,
    on_wait: Callable[[float], None] | None = None,
) -> MigrationReport:
    """Apply what is missing. Needs a direct connection in autocommit mode: the lock belongs to the session.

    ``add_anyway``: on an adopted database also add what its own next release would add (``platform.COMING``).
    ``on_wait`` hears the seconds waited so far, once per poll. Raises :class:`MigrationRefused`; then nothing was changed,
    except by earlier files of the same run, which stand as applied.
    """
    await _check_server(connection)
    async with _limits_lifted(connection), _lock(connection, lock_wait_s, lock_poll_s, on_wait):
        return await _migrate_locked(
            connection, add_anyway, packaged_migrations() if migrations is None else migrations
        )


async def missing(connection: Connection) -> tuple[str, ...]:
    """The migrations of this version that the database lacks, by name; all of them for an empty database."""
    applied: set[int] = set()
    if await platform.exists(connection, BOOKKEEPING):
        applied = {row["version"] for row in await connection.fetch(f"SELECT version FROM {BOOKKEEPING}")}
    return tuple(migration.name for migration in packaged_migrations() if migration.version not in applied)


async def is_adopted(connection: Connection) -> bool:
    """Whether the existing platform made this database, so that its services may read it too (D2, D23)."""
    if await platform.exists(connection, platform.FOREIGN_BOOKKEEPING):
        return True
    if not await platform.exists(connection, BOOKKEEPING):
        return False
    return bool(await connection.fetchval(f"SELECT bool_or(adopted) FROM {BOOKKEEPING}"))


async def missing_job_types(connection: Connection, labels: Sequence[str]) -> tuple[str, ...]:
    """Those of ``labels`` that the shared enum does not have yet."""
    rows = await connection.fetch(
        "SELECT enumlabel::text AS label FROM pg_enum WHERE enumtypid = to_regtype('job_type')"
    )
    known = {row["label"] for row in rows}
    return tuple(label for label in labels if label not in known)


async def add_job_types(connection: Connection, labels: Sequence[str]) -> None:
    """Add labels to the shared enum (D23, D27). Autocommit only: a label cannot be used by the transaction that adds it."""
    for label in labels:
        if not re.fullmatch(r"[a-z_]{1,40}", label):
            raise MigrationRefused(f"{label!r} is no job type: lower-case letters and _ only")
        await connection.execute(f"ALTER TYPE job_type ADD VALUE IF NOT EXISTS '{label}'")


async def _check_server(connection: Connection) -> None:
    number = int(await connection.fetchval("SELECT current_setting('server_version_num')"))
    if number < OLDEST_SERVER * 10000:
        version = await connection.fetchval("SELECT current_setting('server_version')")
        raise MigrationRefused(
            f"PostgreSQL {version} is too old: {OLDEST_SERVER} or newer is needed. Upgrade the server first."
        )


@contextlib.asynccontextmanager
async def _limits_lifted(connection: Connection) -> AsyncIterator[None]:
    """Index builds take longer than a session's ordinary limits; waiting for a table lock must not take for ever."""
    for name, value in (
        ("statement_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
        ("lock_timeout", "60s"),
    ):
        await connection.execute(f"SET {name} = '{value}'")
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # a broken connection takes its settings with it
            for name in ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout"):
                await connection.execute(f"RESET {name}")


@contextlib.asynccontextmanager
async def _lock(
    connection: Connection, wait_s: float, poll_s: float, on_wait: Callable[[float], None] | None
) -> AsyncIterator[None]:
    """Poll a try-lock: a blocking call would be a running statement, and a concurrent index build waits for those (DB-08)."""
    waited = 0.0
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK_KEY):
        if waited >= wait_s:
            raise MigrationRefused(
                f"another process has been migrating this database for {wait_s:g} s. Look for a session in pg_locks with "
                f"locktype 'advisory' and see what it does; then start again."
            )
        if on_wait is not None:
            on_wait(waited)
        await asyncio.sleep(poll_s)
        waited += poll_s
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the lock ends with the session in any case
            await connection.execute("SELECT pg_advisory_unlock($1)", LOCK_KEY)


async def _migrate_locked(connection: Connection, add_anyway: bool, migrations: Sequence[Migration]) -> MigrationReport:
    ours = await platform.exists(connection, BOOKKEEPING)
    adopted = await is_adopted(connection)
    added_anyway: list[str] = []
    if not ours and (adopted or await platform.exists(connection, "jobs")):
        adopted = True
        added_anyway = await _check_adoptable(connection, add_anyway)
    await connection.execute(_CREATE_BOOKKEEPING)
    rows = await connection.fetch(f"SELECT version, name, checksum FROM {BOOKKEEPING}")
    recorded = {row["version"]: row for row in rows}
    for migration in migrations:
        known = recorded.get(migration.version)
        if known is not None and known["checksum"] != migration.checksum:
            raise MigrationRefused(
                f"migration {migration.name} was applied to this database with other contents ({known['name']}). "
                f"A released migration never changes: use the program version that made this database, or a newer one."
            )
    due = [migration for migration in migrations if migration.version not in recorded]
    for migration in due:
        await _apply(connection, migration, adopted)
    newest = max((migration.version for migration in migrations), default=0)
    return MigrationReport(
        applied=tuple(migration.name for migration in due),
        already=len(migrations) - len(due),
        adopted=adopted,
        added_anyway=tuple(added_anyway),
        newer=tuple(sorted(version for version in recorded if version > newest)),
    )


async def _check_adoptable(connection: Connection, add_anyway: bool) -> list[str]:
    """Stop unless everything the platform has is there; the items its next release adds may be added by us on demand."""
    missing = await platform.missing_items(connection)
    old = [item for item in missing if item not in platform.COMING]
    if old:
        raise MigrationRefused(
            f"this database was made by the existing platform, by an older release: it lacks {', '.join(old)}. "
            f"Upgrade the platform's services first (their migrations add these), then run migrate again."
        )
    if missing and not add_anyway:
        raise MigrationRefused(
            f"this database was made by the existing platform and lacks {', '.join(missing)}, which a later release of its "
            f"services adds itself. Upgrade those services first; or, if they will never be upgraded, run "
            f"`regelrecht-supervisor migrate --add-anyway`."
        )
    return missing


async def _apply(connection: Connection, migration: Migration, adopted: bool) -> None:
    record = f"INSERT INTO {BOOKKEEPING} (version, name, checksum, adopted) VALUES ($1, $2, $3, $4)"
    arguments = (migration.version, migration.name, migration.checksum, adopted)
    if migration.transactional:
        async with connection.transaction():
            await connection.execute(migration.sql)
            await connection.execute(record, *arguments)
        return
    for statement in migration.statements:
        await _apply_alone(connection, statement)
    await connection.execute(record, *arguments)


async def _apply_alone(connection: Connection, statement: str) -> None:
    """Run one statement outside a transaction; an index left invalid by an interrupted build is built again."""
    named = _INDEX.search(statement)
    if named is not None and await _invalid(connection, named[1]):
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {named[1]}")
    await connection.execute(statement)
    if named is not None and await _invalid(connection, named[1]):
        raise MigrationRefused(
            f"index {named[1]} came out invalid. Run migrate again; if that repeats, look into the server log."
        )


async def _invalid(connection: Connection, index: str) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass(quote_ident($1))", index
        )
    )
