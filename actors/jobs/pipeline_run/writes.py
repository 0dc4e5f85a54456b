"""Fenced writes that outlast a database that is away for a moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog
import trio

from actors.jobs.base import Work
from protocols.failures import DatabaseUnavailable, OutcomeUnclear
from protocols.runs import RunGone
from schema.connection import Connection
from schema.rows import Job

T = TypeVar("T")

PAUSE_S: Final = 1.0
_FOREIGN_KEY: Final = "23503"

_log = structlog.get_logger(__name__)


async def written(work: Work, unit: Callable[[Connection, Job], Awaitable[T]]) -> T:
    """What ``unit`` returns, behind the fence of the job. Tried again while the database is away; the fence ends that.

    So units must be safe to repeat: the first time may have landed. RunGone when what a row points at was deleted.
    """
    found: list[T] = []

    async def keep(connection: Connection, job: Job) -> None:
        found.append(await unit(connection, job))

    while True:
        try:
            await work.write(keep)
        except (DatabaseUnavailable, OutcomeUnclear) as error:
            _log.warning("a write of the run waits for the database", error=error.message)
            await trio.sleep(PAUSE_S)
        except Exception as error:
            if getattr(error, "sqlstate", None) == _FOREIGN_KEY:
                raise RunGone("what this run writes to was deleted meanwhile") from error
            raise
        else:
            return found[-1]
