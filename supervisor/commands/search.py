"""``search``: find the id of a law by its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import json_option, print_json, print_table, quiet_logs
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.ports.fetchsettings import FetchSettings


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor search zorgtoeslag
  regelrecht-supervisor search "algemene wet bestuursrecht" --limit 5 --json
  regelrecht-supervisor search --local parkeerverordening
"""
)
@click.argument("words", nargs=-1, required=True, metavar="NAME")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most laws to list.")
@click.option("--local", is_flag=True, help="Search regulations of municipalities, provinces and water boards.")
@json_option
def command(words: tuple[str, ...], limit: int, local: bool, as_json: bool) -> None:
    """Search the public repository for laws by name or id. Needs no database."""
    import trio

    from supervisor.settings import areas, load_area
    from supervisor.settings.ports import fetch_settings

    quiet_logs()
    settings = fetch_settings(load_area(areas.Sources, os.environ))
    hits, more = trio.run(_search, settings, " ".join(words), limit, local)
    if as_json:
        print_json(hits)
        return
    if not hits:
        say("no law has these words in its name", err=True)
        return
    columns = ("id", "organisation" if local else "type", "title")
    print_table([name.upper() for name in columns], [[hit[name] for name in columns] for hit in hits])
    if more:
        say("there are more: give a longer name or a higher --limit", err=True)


async def _search(settings: FetchSettings, text: str, limit: int, local: bool) -> tuple[list[dict[str, str]], bool]:
    """What to show of each law, and whether there are more."""
    from actors.ports.fetch import open_fetcher
    from actors.ports.lawsource import LawRepository

    async with open_fetcher(settings) as fetcher:
        repository = LawRepository(fetcher)
        if local:
            regulations = await repository.search_cvdr(text, limit=limit)
            return [
                {"id": str(hit.cvdr_id), "organisation": hit.metadata.creator, "title": hit.title, "url": hit.url}
                for hit in regulations.hits
            ], regulations.next_start is not None
        laws = await repository.search_bwb(text, limit=limit)
        return [
            {"id": hit.bwb_id, "type": hit.type, "title": hit.title} for hit in laws.hits
        ], laws.next_start is not None
