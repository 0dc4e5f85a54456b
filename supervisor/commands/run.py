"""``run``: a supervisor, until it is told to stop."""

from __future__ import annotations

import os
import sys

import click

from supervisor import exitcodes
from supervisor.commands.session import embedded_option


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor run --roles harvest
  regelrecht-supervisor run --roles harvest --embedded
  regelrecht-supervisor run --roles harvest,enrich

\b
SIGTERM or Ctrl-C once: take no more jobs, let running ones finish (SUPERVISOR_DRAIN_SECS), hand the rest back, exit 0.
Twice: hand them back at once. Three times: end without ceremony; the jobs come back after the orphan timeout.
"""
)
@click.option(
    "--roles",
    required=True,
    metavar="ROLE[,ROLE]",
    help="What to do: harvest, enrich, pipelines, connectors, scheduler, api.",
)
@embedded_option
def command(roles: str, embedded: bool) -> None:
    """Take jobs from the queue and do them, until told to stop.

    Any number of supervisors may share one database. The schema is brought up to date first.
    """
    from protocols.failures import leaves
    from supervisor import logs
    from supervisor.app import run_supervisor
    from supervisor.settings import load

    settings = load(os.environ, embedded=embedded)
    logs.configure(settings.logging, secrets=settings.secrets)
    try:
        sys.exit(run_supervisor(settings, roles.split(","), embedded=embedded))
    except (OSError, ExceptionGroup) as error:
        if not all(isinstance(leaf, OSError) for leaf in leaves(error)):
            raise
        # such as a port that is taken: a word for the operator, not a traceback
        say("Error: " + "; ".join(str(leaf) for leaf in leaves(error)), err=True)
        sys.exit(exitcodes.ESCALATED)
