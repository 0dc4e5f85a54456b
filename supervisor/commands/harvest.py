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

_STAYS = "interrupted: the job stays in the queue for a supervisor to take"
_GOES_ON = "interrupted: the job goes on without us"


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

    Ctrl-C ends the wait, and the job stays in the queue. With --run a job that runs may finish, for up to
    SUPERVISOR_DRAIN_SECS; Ctrl-C again hands it back at once.
    """
    from schema.requests import HarvestRequest
    from supervisor import exitcodes
    from supervisor.commands.waiting import Waiting

    request = HarvestRequest(law_id, priority=priority, date=day, max_depth=max_depth, no_follow=no_follow)
    waiting = Waiting(request, quiet=as_json, timeout_s=timeout, here=run_it)

    async def work(database: Database) -> Job:
        return await (waiting.until_ended(database) if wait else waiting.ask(database))

    if run_it:
        job: Job | None = _run_here(waiting, embedded=embedded)
    else:
        try:
            job = on_database(work, embedded=embedded)
        except KeyboardInterrupt:
            if not waiting.queued:
                raise
            waiting.exit_code, job = exitcodes.INTERRUPTED, None
            _try_to_say(_STAYS if not waiting.running else _GOES_ON)
    if as_json and job is not None:
        print_json(document_of(job))
    context.exit(waiting.exit_code)


def _run_here(waiting: Waiting, *, embedded: bool) -> Job | None:
    """Be the supervisor until the job has ended, then drain. None: interrupted before that, with an exit code that says so."""
    import os

    from supervisor import exitcodes, outputs
    from supervisor.app import run_supervisor
    from supervisor.errand import Errand
    from supervisor.settings import load

    found: list[Job] = []

    async def work(database: Database) -> None:
        found.append(await waiting.until_ended(database))

    def finishing(drain_s: float) -> None:
        if waiting.running:
            _try_to_say(f"finishing, up to {drain_s:g} s; Ctrl-C again hands the job back now")

    quiet_logs()  # which hides what `run` logs of its drain
    errand = Errand(work, finishing, "leave out --run, and the one that runs does the work")
    code = run_supervisor(load(os.environ, embedded=embedded), ["harvest"], embedded=embedded, errand=errand)
    unheard = errand.interrupted and isinstance(errand.failure, outputs.OutputFailed)  # the terminal was closed
    if errand.failure is not None and not unheard:
        raise errand.failure
    interrupted = not found and code == exitcodes.CLEAN  # that is a good end of `run`, not of what was asked for here
    waiting.exit_code = waiting.exit_code or (exitcodes.INTERRUPTED if interrupted else code)
    if interrupted:
        _try_to_say(_STAYS)
    return found[0] if found else None


def _try_to_say(text: str) -> None:
    """A line on stderr. When that was a terminal that is closed by now, nobody is left to read it, and that is no failure."""
    from supervisor import outputs

    try:
        say(text, err=True)
    except outputs.OutputFailed as unheard:
        unheard.give_up()
