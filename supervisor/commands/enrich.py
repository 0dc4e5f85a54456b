"""``enrich``: ask for a law to be enriched, or for its enrichment to begin anew (D55)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from protocols.budget import PROVIDERS
from supervisor.commands.jobs import document_of
from supervisor.commands.session import embedded_option, json_option, on_database, print_json
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.database import Database
    from schema.enrichrequests import EnrichAnswer


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor enrich BWBR0018451 --provider claude
  regelrecht-supervisor enrich wet_op_de_zorgtoeslag --provider claude \\
      --restart
"""
)
@click.argument("law", metavar="ID|SLUG")
@click.option("--provider", type=click.Choice(PROVIDERS), required=True, help="Whose agent does it.")
@click.option("--path", metavar="FILE", help="Law file in the corpus; without it that of the last harvest.")
@click.option("--priority", type=click.IntRange(0, 100), default=50, show_default=True, help="Higher goes first.")
@click.option(
    "--restart",
    is_flag=True,
    help="Begin anew from the present text; the models of entries whose text is the same are kept.",
)
@json_option
@embedded_option
def command(
    law: str, provider: str, path: str | None, priority: int, restart: bool, as_json: bool, embedded: bool
) -> None:
    """Ask for a law to be enriched. Returns at once; a supervisor with the role enrich does the work, window by window.

    When a window of the law waits already, it is made due and gets the higher priority of the two.
    """
    from schema.enrichrequests import EnrichRequest, request_enrich

    request = EnrichRequest(law, provider, priority=priority, yaml_path=path, restart=restart)

    async def work(database: Database) -> EnrichAnswer:
        return await database.transact(request_enrich, request)

    answer = on_database(work, embedded=embedded)
    if as_json:
        print_json(document_of(answer.job))
    elif answer.created:
        say(f"queued {answer.job.id}: enrichment of {answer.job.law_id} with {provider}", err=True)
    elif answer.answers:
        say(f"{answer.job.law_id} waits already and was made due: {answer.job.id}", err=True)
    else:
        but = "; ask again for the restart when it has ended" if restart else ""
        say(f"{answer.job.law_id} is being enriched just now: {answer.job.id}{but}", err=True)
