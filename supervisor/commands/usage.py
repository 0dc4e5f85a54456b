"""``usage``: what the calls of agents used and cost, added up (D54)."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

import click

from supervisor.commands.session import embedded_option, json_option, on_database, print_json, print_table
from supervisor.money import dollars
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ports.database import Database
    from schema.agentcalls import UsageLine

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_COUNTS: Final = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_millicents", "incomplete")  # fmt: skip
_HEADINGS: Final = {"law": "LAW", "provider": "PROVIDER", "hour": "HOUR UTC"}
_MICROS_PER_MILLICENT: Final = 10


class _Since(click.ParamType[dt.datetime]):
    """``90m``, ``24h`` or ``7d`` ago, a date, or a moment in ISO 8601; without a zone it is UTC."""

    name = "since"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        text = str(value)
        try:
            ago = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
            if ago:
                return dt.datetime.now(dt.UTC) - dt.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            moment = dt.datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            self.fail(f"{text[:60]!r} is no moment: expected 24h, 7d, 2026-03-01 or 2026-03-01T14:00", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor usage --since 24h
  regelrecht-supervisor usage --by hour --since 2026-03-01
  regelrecht-supervisor usage --by provider --json
"""
)
@click.option("--since", type=_Since(), help="Only calls that ended since: 90m, 24h, 7d, a date, or a moment.")
@click.option(
    "--by", "by", type=click.Choice(["law", "provider", "hour"]), default="law", show_default=True, help="Add up by."
)
@json_option
@embedded_option
def command(since: dt.datetime | None, by: str, as_json: bool, embedded: bool) -> None:
    """Show what enrichment used: calls of agents, tokens, and what the agents say it cost.

    A line marked "at least" has calls that reported less than they used: they were stopped, or died. Hours are UTC.
    """

    async def work(database: Database) -> Sequence[UsageLine]:
        from schema import agentcalls

        return await database.run(agentcalls.usage_by, agentcalls.UsageKey(by), since)

    lines = on_database(work, embedded=embedded)
    total = {name: sum(getattr(line, name) for line in lines) for name in _COUNTS}
    if as_json:
        print_json({"since": since, "by": by, "lines": [_document(line, by) for line in lines], "total": total})
        return
    if not lines:
        say("no calls of agents" + ("" if since is None else f" since {since:%Y-%m-%d %H:%M %Z}"), err=True)
        return
    headings = (_HEADINGS[by], "CALLS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")
    rows = [_row(line.key, {name: getattr(line, name) for name in _COUNTS}) for line in lines]
    print_table(headings, [*rows, _row("total", total)] if len(rows) > 1 else rows, flexible=())


def _document(line: UsageLine, by: str) -> dict[str, Any]:
    return {by: line.key, **{name: getattr(line, name) for name in _COUNTS}}


def _row(key: str, counts: dict[str, int]) -> tuple[str, ...]:
    tokens = [f"{counts[name]:,}" for name in _COUNTS[:5]]
    cost = dollars(counts["cost_millicents"] * _MICROS_PER_MILLICENT)
    return (key, *tokens, f"at least {cost}" if counts["incomplete"] else cost)
