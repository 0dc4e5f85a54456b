"""One row per call of an agent, whatever its end, and what the rows add up to (D54)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from attrs import frozen

from protocols.dialects.base import VerdictKind
from protocols.scrub import scrub_text
from schema.connection import Connection
from schema.queue.probing import end_probe
from schema.rows import Job

_MOST_CHARACTERS: Final = 200


@frozen
class AgentCall:
    """``seq`` counts the calls of one attempt. Token counts are None when the call reported nothing.

    ``cost_millicents`` is what this call added (a thousandth of a cent each); ``usage_complete`` False: at least so much.
    """

    seq: int
    provider: str
    step: str
    started_at: dt.datetime
    ended_at: dt.datetime
    verdict: str
    model: str | None = None
    slice: int = 0
    resumed: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    usage_complete: bool = False
    cost_millicents: int | None = None


class UsageKey(StrEnum):
    """By what a usage report adds up."""

    LAW = "law"
    PROVIDER = "provider"
    HOUR = "hour"


@frozen
class UsageLine:
    """``incomplete`` calls of this line reported less than they used, or nothing."""

    key: str
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_millicents: int
    incomplete: int


async def record_call(connection: Connection, job: Job, call: AgentCall) -> None:
    """The call in the books. The same call again (an unclear answer, sent twice) changes nothing.

    One that went well shows that its provider works, so a pause that this job was let through to probe ends here (D52).
    """
    await connection.execute(
        """
        INSERT INTO agent_calls (job_id, attempt, seq, law_id, provider, model, step, slice, resumed, started_at, ended_at,
            verdict, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, usage_complete, cost_millicents)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
        ON CONFLICT (job_id, attempt, seq) DO NOTHING
        """,
        job.id,
        job.attempts,
        call.seq,
        job.law_id,
        call.provider,
        None if call.model is None else scrub_text(call.model, _MOST_CHARACTERS),
        call.step,
        call.slice,
        call.resumed,
        call.started_at,
        call.ended_at,
        call.verdict,
        call.input_tokens,
        call.output_tokens,
        call.cache_read_tokens,
        call.cache_write_tokens,
        call.usage_complete,
        call.cost_millicents,
    )
    if call.verdict == VerdictKind.OK:
        await end_probe(connection, job.id)


async def cost_of_law(connection: Connection, law_id: str) -> int:
    """Millicents spent on a law so far, all providers together."""
    spent = await connection.fetchval(
        "SELECT COALESCE(sum(cost_millicents), 0)::bigint FROM agent_calls WHERE law_id = $1", law_id
    )
    return int(spent)


_KEYS: Final = {
    UsageKey.LAW: "law_id",
    UsageKey.PROVIDER: "provider",
    UsageKey.HOUR: "to_char(date_trunc('hour', ended_at AT TIME ZONE 'UTC'), 'YYYY-MM-DD\"T\"HH24:00\"Z\"')",
}


async def usage_by(connection: Connection, key: UsageKey, since: dt.datetime | None = None) -> Sequence[UsageLine]:
    """The calls that ended since then, added up: hours in order of time, else the dearest first."""
    rows = await connection.fetch(
        f"""
        SELECT {_KEYS[key]} AS key, count(*) AS calls,
            COALESCE(sum(input_tokens), 0)::bigint AS input_tokens,
            COALESCE(sum(output_tokens), 0)::bigint AS output_tokens,
            COALESCE(sum(cache_read_tokens), 0)::bigint AS cache_read_tokens,
            COALESCE(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
            COALESCE(sum(cost_millicents), 0)::bigint AS cost_millicents,
            count(*) FILTER (WHERE NOT usage_complete) AS incomplete
        FROM agent_calls WHERE $1::timestamptz IS NULL OR ended_at >= $1
        GROUP BY 1 ORDER BY {"1" if key is UsageKey.HOUR else "cost_millicents DESC, 1"}
        """,
        since,
    )
    return [UsageLine(**dict(row)) for row in rows]
