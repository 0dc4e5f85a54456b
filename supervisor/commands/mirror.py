"""``mirror``: raw law files in a folder, in the layout of the public repository, and a small server for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor import exitcodes
from supervisor.commands.session import json_option, print_json, quiet_logs
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from datetime import date

    from actors.ports.fetchsettings import FetchSettings


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor mirror laws BWBR0018451 BWBR0018472
  regelrecht-supervisor mirror laws BWBR0018451 --all
  regelrecht-supervisor mirror laws --serve --port 8080
  BWB_REPOSITORY_URL=laws regelrecht-supervisor run --roles harvest --embedded
"""
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.argument("law_ids", nargs=-1, metavar="[ID]...")
@click.option("--date", "day", metavar="YYYY-MM-DD", help="Save the text that applied on this day, not today's.")
@click.option("--all", "every_text", is_flag=True, help="Save every text that the law ever had.")
@click.option("--serve", is_flag=True, help="Serve the folder on 127.0.0.1 until interrupted; after saving, if any.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to serve on; without it a free one.")
@json_option
def command(
    folder: Path,
    law_ids: tuple[str, ...],
    day: str | None,
    every_text: bool,
    serve: bool,
    port: int,
    as_json: bool,
) -> None:
    """Save the raw files of laws in DIR, in the repository's layout, or serve such a folder.

    BWB_REPOSITORY_URL may name the folder, or the address that --serve prints: then laws are harvested from it, without
    the internet. A law that cannot be had does not keep the others from being saved; the exit code is 1 then. Needs no
    database.
    """
    import trio

    from protocols.law_ids import law_source, parse_date
    from supervisor.settings import areas, load_area
    from supervisor.settings.ports import fetch_settings

    if not law_ids and not serve:
        raise click.UsageError("Name laws to save, or --serve the folder.")
    if day is not None and every_text:
        raise click.UsageError("--date and --all contradict each other.")
    quiet_logs()
    for law_id in law_ids:
        law_source(law_id)
    missed = 0
    if law_ids:
        settings = fetch_settings(load_area(areas.Sources, os.environ))
        missed = trio.run(
            _save, settings, folder, law_ids, None if day is None else parse_date(day), every_text, as_json
        )
    if serve:
        trio.run(_serve, folder, port)
    sys.exit(exitcodes.ESCALATED if missed else exitcodes.CLEAN)


async def _save(
    settings: FetchSettings, folder: Path, law_ids: tuple[str, ...], day: date | None, every_text: bool, as_json: bool
) -> int:
    """How many could not be saved; why, is told."""
    from actors.ports.fetch import open_fetcher
    from actors.ports.lawsource import LawRepository
    from actors.ports.mirror import mirror_law
    from protocols.failures import InvalidInput, SupervisorError

    saved = []
    async with open_fetcher(settings) as fetcher:
        laws = LawRepository(fetcher)
        for law_id in law_ids:
            if not as_json:
                say(f"saving {law_id} ...", err=True)
            try:
                law = await mirror_law(laws, folder, law_id, day=day, every_text=every_text)
            except InvalidInput:
                raise  # a date that is none is wrong for all of them
            except SupervisorError as failure:
                say(f"Error: {failure.message}", err=True)
                continue
            saved.append(law)
            for warning in law.warnings:
                say(f"Warning: {warning}", err=True)
            if not as_json:
                told = f"{law.law_id}  {law.title}: {len(law.labels)} texts, {len(law.files)} files"
                say(told, err=True)
    if as_json:
        print_json(saved)
    return len(law_ids) - len(saved)


async def _serve(folder: Path, port: int) -> None:
    """Until SIGINT or SIGTERM; the address is the first line on stdout, so that a script can read it."""
    import signal

    import trio

    from actors.ports.mirrorserver import serve_mirror

    stop = trio.Event()
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                url = await nursery.start(
                    lambda task_status: serve_mirror(folder, port=port, stop=stop.wait, task_status=task_status)
                )
                say(url)
                say("serving; Ctrl-C ends it", err=True)
                await anext(signals)
                stop.set()
    except* NotADirectoryError as group:
        raise click.ClickException(str(group.exceptions[0])) from None
    except* OSError:
        raise click.ClickException(f"cannot serve on port {port}: is it in use?") from None
