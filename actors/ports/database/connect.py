"""Opening a connection, and telling what a driver error means. The asyncio side of the port."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from actors.ports.database.settings import DatabaseSettings
from protocols.failures import DatabaseUnavailable, InvalidInput

if TYPE_CHECKING:
    RawConnection = asyncpg.Connection[asyncpg.Record]

OLDEST_MAJOR = 13

RETRYABLE = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # somebody else migrated: the driver has now dropped what it remembered, a second run sees the new schema
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
"""The transaction is rolled back and the same unit may well succeed when it runs again (D8)."""

Refused = asyncpg.PostgresError
"""The database understood and said no: a violated constraint, a value it cannot store. ``sqlstate`` says which."""

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Everything the driver raises."""

READ_ONLY = (asyncpg.ReadOnlySQLTransactionError,)
"""The session is one of a standby, or of a database that somebody set to read-only for a failover: nothing was written, and
a new session may well be allowed to."""

_TROUBLE = (
    *READ_ONLY,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.PostgresSystemError,
    asyncpg.InternalClientError,
    OSError,  # and TimeoutError, the driver's word for a deadline
)
"""The server, the network or their limits, not what the unit asked for."""


def is_trouble(error: BaseException, connection: RawConnection) -> bool:
    """Whether ``error`` is one of the connection or the server.

    A closed connection explains whatever was raised on it. An internal error of the driver is what a unit meets that
    comes in the instant in which an idle connection hears that the server shuts down.
    """
    if isinstance(error, RETRYABLE):
        return False
    if isinstance(error, asyncpg.InterfaceError):
        return connection.is_closed()
    return isinstance(error, _TROUBLE)


def is_unfit_value(error: BaseException) -> bool:
    """Whether a value was the trouble: one that its column cannot hold, or a sum that became too large (class 22)."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    # the driver's own word for a value that it cannot send is both of these, and has no public name
    unsent = isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError)
    return unsent or (isinstance(error, Refused) and sqlstate.startswith("22"))


def in_words(error: BaseException) -> str:
    """One line for people. Driver texts hold no secret: they never repeat the URL."""
    return f"{type(error).__name__}: {error}".rstrip(": ").splitlines()[0]


def _place(url: str, settings: DatabaseSettings, direct: bool) -> str:
    """`` at host:port (DATABASE_URL)``: never the user part of ``url``, also where a password makes its end unclear.
    Nothing for a socket of this machine."""
    netloc = urlsplit(url).netloc
    place = "" if "@" in url.partition(netloc)[2] else netloc.rpartition("@")[2]
    name = "DATABASE_DIRECT_URL" if direct and settings.direct_url else "DATABASE_URL"
    return f" at {place} ({name})" if place else ""


def keep_alive(connection: Any, settings: DatabaseSettings) -> None:
    """Let the kernel notice a silent peer, so that no read waits for hours (DB-06). Sockets of this machine need none."""
    peer = connection._transport.get_extra_info("socket")  # the driver has no public way to its socket
    if peer is None or peer.family == socket.AF_UNIX:
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.keepalive_idle_s)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, settings.keepalive_interval_s)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, settings.keepalive_probes)


def require_supported(connection: RawConnection) -> None:
    """InvalidInput, by name, for a server that is too old."""
    if connection.get_server_version().major < OLDEST_MAJOR:
        version = connection.get_settings().server_version
        raise InvalidInput(f"the database is PostgreSQL {version}, which is too old: {OLDEST_MAJOR} or newer is needed")


async def connect(settings: DatabaseSettings, *, direct: bool = False, **driver: Any) -> RawConnection:
    """A new connection. ``direct`` goes round the pooler and has no limit on a statement.

    DatabaseUnavailable when there is none to be had now; InvalidInput when the address or the server will never do.
    """
    url = (settings.direct_url or settings.url) if direct else settings.url
    session = {"application_name": settings.application_name}
    if not direct and not settings.through_pooler:
        session |= settings.session
    try:
        connection: RawConnection = await asyncpg.connect(
            url,
            timeout=settings.connect_timeout_s,
            command_timeout=None if direct else settings.statement_timeout_s,
            statement_cache_size=0 if settings.through_pooler and not direct else 100,
            server_settings=session,
        )
    except (asyncpg.ClientConfigurationError, ValueError):
        raise InvalidInput(
            "the database address cannot be read; it looks like postgresql://user:password@host/name"
        ) from None
    except TimeoutError as error:
        raise DatabaseUnavailable(
            f"the database{_place(url, settings, direct)} did not answer within {settings.connect_timeout_s:g} s"
        ) from error
    except DRIVER_ERRORS as error:
        why = error.strerror if isinstance(error, socket.gaierror) else in_words(error)
        raise DatabaseUnavailable(f"cannot connect to the database{_place(url, settings, direct)}: {why}") from error
    try:
        require_supported(connection)
        keep_alive(connection, settings)
    except BaseException:
        connection.terminate()
        raise
    return connection
