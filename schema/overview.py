"""The whole queue at a glance, for people: from the database alone, so it is the same wherever it is asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from attrs import frozen

from protocols.budget import CLAUDE
from schema.connection import Connection
from schema.pauses import Pause, ProviderPause, list_pauses, list_provider_pauses
from schema.queue import presence, views
from schema.queue.budget import count_runs
from schema.queue.views import EndedBadly, HeldJob, QueueCount

RUNNING_SHOWN = 20
FAILURES_SHOWN = 5


@frozen
class ClaudeHour:
    """Claude runs of the current clock hour over all supervisors, and how many jobs would run on claude if they could."""

    runs: int
    local_hour: int
    waiting: int


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
    runs, local_hour, at = await count_runs(connection, includes_convert=includes_convert)
    return Overview(
        at=at,
        served=await presence.supervisors_seen(connection),
        counts=tuple(sorted(counts, key=lambda count: (count.job_type, count.status.value))),
        running=tuple(await views.held_jobs(connection, RUNNING_SHOWN)),
        claude=ClaudeHour(runs, local_hour, await views.count_pending_runs(connection, CLAUDE, default_provider)),
        pauses=tuple(await list_pauses(connection)),
        benches=tuple(await list_provider_pauses(connection)),
        failures=tuple(await views.recent_failures(connection, FAILURES_SHOWN)),
    )
