"""``search``: find the id of a law by its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import json_option, print_json, print_table, quiet_logs

if TYPE_CHECKING:
    from actors.ports.fetchsettings import FetchSettings
    from actors.ports.lawsearch import SearchAnswer
    from protocols.bwb.search import BwbHit


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor search zorgtoeslag
  regelrecht-supervisor search "algemene wet bestuursrecht" --limit 5 --json
"""
)
@click.argument("words", nargs=-1, required=True, metavar="NAME")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most laws to list.")
@json_option
def command(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search the public repository for national laws by name or id. Needs no database."""
    import trio

    from supervisor.settings import areas, load_area
    from supervisor.settings.ports import fetch_settings

    quiet_logs()
    answer = trio.run(_search, fetch_settings(load_area(areas.Sources, os.environ)), " ".join(words), limit)
    if as_json:
        print_json([{"bwb_id": hit.bwb_id, "title": hit.title, "type": hit.type} for hit in answer.hits])
        return
    if not answer.hits:
        click.echo("no law has these words in its name", err=True)
        return
    print_table(("ID", "KIND", "TITLE"), [(hit.bwb_id, hit.type, hit.title) for hit in answer.hits])
    if answer.next_start is not None:
        click.echo("there are more: give a longer name or a higher --limit", err=True)


async def _search(settings: FetchSettings, text: str, limit: int) -> SearchAnswer[BwbHit]:
    from actors.ports.fetch import open_fetcher
    from actors.ports.lawsource import LawRepository

    async with open_fetcher(settings) as fetcher:
        return await LawRepository(fetcher).search_bwb(text, limit=limit)
