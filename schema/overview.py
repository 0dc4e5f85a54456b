"""The whole queue at a glance, for people: from the database alone, so it is the same wherever it is asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from attrs import frozen

from schema.connection import Connection
from schema.pauses import Pause, ProviderPause, list_pauses, list_provider_pauses
from schema.queue import presence, views
from schema.queue.terms import BudgetRule
from schema.queue.views import EndedBadly, HeldJob, QueueCount

RUNNING_SHOWN = 20
FAILURES_SHOWN = 5


@frozen
class ClaudeHour:
    """Claude runs of the current clock hour over all supervisors, and how many jobs would run on claude if they could.

    ``next_hour`` is what clocks in Amsterdam show when it ends, which in the nights of the clock change is no sum.
    """

    runs: int
    local_hour: int
    waiting: int
    next_hour: int


@frozen
class Overview:
    """``at`` is the moment by the database clock. ``served``: a supervisor is connected, or beat a job lately.

    ``running`` and ``failures`` are the longest and the newest few; ``counts`` has all.
    """

    at: dt.datetime
    served: bool
    counts: tuple[QueueCount, ...]
    running: tuple[HeldJob, ...]
    claude: ClaudeHour
    pauses: tuple[Pause, ...]
    benches: tuple[ProviderPause, ...]
    failures: tuple[EndedBadly, ...]


async def overview(
    connection: Connection,
    *,
    default_provider: str,
    includes_convert: bool,
    ended: Sequence[QueueCount] | None = None,
) -> Overview:
    """``ended`` are counts of ended jobs from shortly before: reading them anew reads the whole table."""
    if ended is None:
        ended = await views.count_ended(connection)
    counts = [*await views.count_active(connection), *ended]
    rule = BudgetRule(includes_convert=includes_convert, default_provider=default_provider)
    hour = await views.budget_now(connection, rule)
    return Overview(
        at=hour.at,
        served=await presence.supervisors_seen(connection),
        counts=tuple(sorted(counts, key=lambda count: (count.job_type, count.status.value))),
        running=tuple(await views.held_jobs(connection, RUNNING_SHOWN)),
        claude=ClaudeHour(hour.used, hour.local_hour, hour.waiting, hour.next_local_hour),
        pauses=tuple(await list_pauses(connection)),
        benches=tuple(await list_provider_pauses(connection)),
        failures=tuple(await views.recent_failures(connection, FAILURES_SHOWN)),
    )
