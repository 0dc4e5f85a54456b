"""``harvest``: ask for a law, and wait for it if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.commands.jobs import document_of
from supervisor.commands.numbers import FiniteRange
from supervisor.commands.session import embedded_option, json_option, on_database, print_json, quiet_logs
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database
    from schema.rows import Job
    from supervisor.commands.waiting import Waiting


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor harvest BWBR0018451
  regelrecht-supervisor harvest BWBR0018451 --date 2025-01-01 --wait
  regelrecht-supervisor harvest BWBR0018451 --embedded --run --no-follow
"""
)
@click.argument("law_id", metavar="ID")
@click.option("--date", "day", metavar="YYYY-MM-DD", help="The text that applied on this day; without it today's.")
@click.option("--priority", type=click.IntRange(0, 100), default=50, show_default=True, help="Higher goes first.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended; the exit code says how.")
@click.option("--timeout", type=FiniteRange(0, 31_622_400), metavar="SECONDS", help="Wait no longer than this.")
@click.option("--run", "run_it", is_flag=True, help="Do it here, without a supervisor; implies --wait.")
@click.option("--no-follow", is_flag=True, help="Do not queue the laws that it refers to.")
@click.option(
    "--max-depth", type=click.IntRange(0, 1000), metavar="N", help="Follow references N steps and no further."
)
@json_option
@embedded_option
@click.pass_context
def command(
    context: click.Context,
    law_id: str,
    day: str | None,
    priority: int,
    wait: bool,
    timeout: float | None,
    run_it: bool,
    no_follow: bool,
    max_depth: int | None,
    as_json: bool,
    embedded: bool,
) -> None:
    """Ask for a law to be harvested.

    When the law waits already, its job is made due and gets the higher priority of the two. Without --wait this returns
    at once; a supervisor does the work.
    """
    from schema.requests import HarvestRequest
    from supervisor.commands.waiting import Waiting

    request = HarvestRequest(law_id, priority=priority, date=day, max_depth=max_depth, no_follow=no_follow)
    waiting = Waiting(request, quiet=as_json, timeout_s=timeout, here=run_it)

    async def work(database: Database) -> Job:
        return await (waiting.until_ended(database) if wait else waiting.ask(database))

    if run_it:
        job = _run_here(waiting, embedded=embedded)
    else:
        job = on_database(work, embedded=embedded)
    if as_json and job is not None:
        print_json(document_of(job))
    context.exit(waiting.exit_code)


def _run_here(waiting: Waiting, *, embedded: bool) -> Job | None:
    """Be the supervisor until the job has ended, then drain. None: interrupted before that, with an exit code that says so."""
    import os

    from supervisor import exitcodes
    from supervisor.app import run_supervisor
    from supervisor.errand import Errand
    from supervisor.settings import load

    found: list[Job] = []

    async def work(database: Database) -> None:
        found.append(await waiting.until_ended(database))

    quiet_logs()
    errand = Errand(work)
    code = run_supervisor(load(os.environ, embedded=embedded), ["harvest"], embedded=embedded, errand=errand)
    if errand.failure is not None:
        raise errand.failure
    if not found and code == exitcodes.CLEAN:  # a drain as asked is a good end of `run`, not of what was asked for here
        say("interrupted: the job stays in the queue for a supervisor to take", err=True)
        code = exitcodes.INTERRUPTED
    waiting.exit_code = waiting.exit_code or code
    return found[0] if found else None
