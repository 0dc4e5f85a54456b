"""``status``: the queue at a glance, once or as a live view."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.commands.numbers import FiniteRange
from supervisor.commands.session import embedded_option, json_option, on_database, print_json
from supervisor.terminaltext import say_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from actors.ports.database import Database
    from schema.overview import Overview
    from schema.queue.views import QueueCount
    from supervisor.budgettext import Budget

_ENDED_EVERY = 15
"""Counting what has ended reads the whole table, so a live view does it only every so many times."""


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor status
  regelrecht-supervisor status --watch
  regelrecht-supervisor status --json
"""
)
@click.option("--watch", is_flag=True, help="Go on showing it, until Ctrl-C.")
@click.option(
    "--interval", type=FiniteRange(0.2, 3600), default=2.0, show_default=True, help="Seconds between two looks."
)
@json_option
@embedded_option
def command(watch: bool, interval: float, as_json: bool, embedded: bool) -> None:
    """Show the queue: what waits and runs by type, who runs what and how far, the claude budget, pauses, recent failures.

    Everything comes from the database, so it is the same wherever it is asked. The claude limit is that of
    ENRICH_HOURLY_LIMIT here.
    """
    from supervisor.settings import areas, load_area

    enrich = load_area(areas.Enrich, os.environ)

    async def work(database: Database) -> None:
        if not watch:
            _show_once(await _look(database, enrich, None), _budget(enrich), as_json)
            return
        await _until_told(partial(_watch, database, enrich, interval, as_json))

    on_database(work, embedded=embedded)


async def _until_told(show: Callable[[], Awaitable[None]]) -> None:
    """Until Ctrl-C or SIGTERM: both end a view in order, and neither is an error."""
    import signal

    import trio

    async def hear(scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel(reason="told to end")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear, nursery.cancel_scope)
        await show()


async def _look(database: Database, enrich: Any, ended: Sequence[QueueCount] | None) -> Overview:
    from schema.overview import overview

    return await database.run(
        overview, default_provider=enrich.default_provider, includes_convert=enrich.budget_includes_convert, ended=ended
    )


def _budget(enrich: Any) -> Budget:
    from supervisor.budgettext import configured

    return configured(os.environ.get("ENRICH_HOURLY_LIMIT"), enrich.hourly_limit, enrich.night_multiplier)


async def _watch(database: Database, enrich: Any, interval: float, as_json: bool) -> None:
    """A view that stays in place on a terminal; elsewhere one after the other."""
    from contextlib import ExitStack

    import trio
    from rich.live import Live

    from protocols.failures import DatabaseUnavailable, OutcomeUnclear

    budget = _budget(enrich)
    with ExitStack() as stack:
        show: Callable[[Overview, str], None]
        if as_json or not sys.stdout.isatty():

            def show(seen: Overview, note: str) -> None:
                _show_once(seen, budget, as_json, one_line=True, note=note)
        else:
            live = stack.enter_context(Live(auto_refresh=False, screen=True))

            def show(seen: Overview, note: str) -> None:
                from supervisor.statusview import render

                live.update(render(seen, budget, note=note), refresh=True)

        seen: Overview | None = None
        looks = 0
        while True:
            try:
                ended = None if seen is None or looks % _ENDED_EVERY == 0 else _ended(seen)
                seen = await _look(database, enrich, ended)
                note = ""
            except (DatabaseUnavailable, OutcomeUnclear):
                if seen is None:
                    raise
                note = "(the database does not answer now)"
            show(seen, note)
            looks += 1
            await trio.sleep(interval)


def _ended(seen: Overview) -> list[QueueCount]:
    from schema.rows import ACTIVE_STATUSES

    return [count for count in seen.counts if count.status not in ACTIVE_STATUSES]


def _show_once(seen: Overview, budget: Budget, as_json: bool, *, one_line: bool = False, note: str = "") -> None:
    if as_json:
        document = _document(seen, budget)
        if one_line:
            import msgspec

            say_json(msgspec.json.encode(document).decode())
        else:
            print_json(document)
        return
    from rich.console import Console

    from supervisor.statusview import render

    Console(highlight=False).print(render(seen, budget, note=note), crop=False)


def _document(seen: Overview, budget: Budget) -> dict[str, Any]:
    """The view as JSON: names as in the database, ages in seconds."""
    import attrs

    cap = budget.cap(seen.claude.local_hour)
    blocked = cap is not None and seen.claude.runs >= cap
    document = attrs.asdict(seen)
    document["claude"] |= {"cap": cap, "waiting_for_next_hour": seen.claude.waiting if blocked else 0}
    for bench in document["benches"]:
        del bench["credential_hash"]
    return document
