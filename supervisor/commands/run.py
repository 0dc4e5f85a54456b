"""``run``: a supervisor, until it is told to stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import embedded_option

if TYPE_CHECKING:
    from supervisor.settings import Settings


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor run --roles harvest
  regelrecht-supervisor run --roles harvest --embedded
  regelrecht-supervisor run --roles harvest,enrich

\b
SIGTERM, Ctrl-C or a closed terminal
  once: take no more jobs, let running ones finish (SUPERVISOR_DRAIN_SECS),
    hand the rest back, exit 0
  twice: hand them back at once
  three times: end without ceremony; jobs come back after the orphan timeout
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
    from supervisor import logs
    from supervisor.app import run_supervisor

    settings = _checked(roles.split(","), embedded)
    logs.configure(settings.logging, secrets=settings.secrets)
    sys.exit(run_supervisor(settings, roles.split(","), embedded=embedded))


def _checked(roles: Sequence[str], embedded: bool) -> Settings:
    """The settings. SettingsFault lists everything that is wrong in them and in ``roles``."""
    from protocols.failures import InvalidInput
    from supervisor.roles import served
    from supervisor.settings import SettingsFault, load

    faults, settings = [], None
    try:
        served(roles)
    except InvalidInput as error:
        faults.append(error.message)
    try:
        settings = load(os.environ, embedded=embedded)
    except SettingsFault as error:
        faults += error.faults
    if settings is None or faults:
        raise SettingsFault(faults)
    return settings
