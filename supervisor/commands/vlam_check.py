"""``vlam-check``: is the model service fit for work? Called before a supervisor starts; never fails it."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.commands.numbers import FiniteRange
from supervisor.terminaltext import say

PREFIX = "VLAM check"


@click.command(
    epilog="""\b
Examples:
  VLAM_API_URL=https://... VLAM_API_KEY=... regelrecht-supervisor vlam-check
  regelrecht-supervisor vlam-check --config ./opencode.json
"""
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="opencode's configuration; the default is that of the image.",
)
@click.option(
    "--limit",
    "limit_s",
    type=FiniteRange(0, 3600, min_open=True),
    default=20.0,
    show_default=True,
    help="Seconds for one request.",
)
def command(config: Path | None, limit_s: float) -> None:
    """Ask VLAM for its models, for three short answers and for a tool call, and print one line for each.

    Shows status, token counts and lengths, never what the model writes and never the key. Three answers with equal
    figures say nothing: a setting that is ignored looks like one that is not set. Always exits 0 (2 for a wrong option),
    so that a pod starts although its model service is away.
    """
    import os

    from actors.ports import agentconfig
    from actors.ports.vlam import VlamCheck
    from protocols.failures import InvalidInput

    def tell(text: str) -> None:
        say(f"{PREFIX}: {text}")

    environ = os.environ
    address, key = agentconfig.api_url(environ), environ.get("VLAM_API_KEY", "").strip()
    if address is None or not key:
        tell("skipped, VLAM_API_URL and VLAM_API_KEY are not both set")
        return
    try:
        setup = agentconfig.load_opencode(environ, baked=config or agentconfig.BAKED_FILE)
    except InvalidInput as error:
        tell(f"skipped, {error.message}")
        return
    if setup is None:
        tell(f"skipped, there is no {config or agentconfig.BAKED_FILE}")
        return
    for warning in setup.warnings:
        tell(f"warning: {warning}")
    model = (environ.get("OPENCODE_MODEL", "").strip() or setup.model or "").removeprefix(f"{agentconfig.PROVIDER}/")
    if not model:
        tell("skipped, no model: set OPENCODE_MODEL or leave one model in the configuration")
        return
    check = VlamCheck(address, key, model, agentconfig.output_limit(setup), limit_s)
    for line in check.lines():
        tell(line)
