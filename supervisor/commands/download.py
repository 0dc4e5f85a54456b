"""``download``: a law from the public repository into a folder, without a database or a corpus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import json_option, print_json, quiet_logs
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from datetime import date

    from protocols.lawproduct import Product
    from supervisor.settings.areas import Sources


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor download BWBR0018451
  regelrecht-supervisor download BWBR0018451 --date 2025-01-01 \\
      --output laws --xml
"""
)
@click.argument("law_id", metavar="ID")
@click.option("--date", "day", metavar="YYYY-MM-DD", help="The text that applied on this day; without it today's.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    help="Folder to write below, in the layout of the corpus; without it the current one.",
)
@click.option("--style", type=click.Choice(["full", "article", "leaf"]), help="As for convert.")
@click.option("--xml", "keep_xml", is_flag=True, help="Keep the downloaded text beside the YAML.")
@json_option
def command(law_id: str, day: str | None, output: Path, style: str | None, keep_xml: bool, as_json: bool) -> None:
    """Download a law, national (BWBR…) or local (CVDR…), and convert it to YAML. Needs no database."""
    import trio

    from protocols.law_ids import parse_date
    from supervisor.settings import areas, load_area

    quiet_logs()
    sources = load_area(areas.Sources, os.environ)
    wanted = None if day is None else parse_date(day)
    if not as_json:
        say(f"downloading {law_id} ...", err=True)
    product, xml = trio.run(_product, sources, law_id, wanted, style or sources.style)
    paths = trio.run(_write, product, xml if keep_xml else None, output)
    law = product.result
    if as_json:
        print_json(
            {
                "law_id": product.law_id,
                "title": law.law_name,
                "valid_from": law.harvest_date,
                "files": [str(output / path) for path in paths],
                "referenced": law.referenced_bwb_ids,
                "warnings": law.warnings,
            }
        )
        return
    for warning in law.warnings:
        say(f"Warning: {warning}", err=True)
    say(f"{law.law_name}, from {law.harvest_date}: {law.article_count} entries", err=True)
    for path in paths:
        say(str(output / path))


async def _product(sources: Sources, law_id: str, day: date | None, style_name: str) -> tuple[Product, bytes]:
    """The converted law, national or decentral, and the text it was made from."""
    from actors.jobs.harvest.produce import order_of
    from actors.ports.conversion import converted
    from actors.ports.fetch import open_fetcher
    from actors.ports.lawsource import LawRepository
    from protocols.bwb.toestand import Style
    from protocols.law_ids import LawSource, law_source
    from protocols.lawyaml.files import DEFAULT_BASE
    from supervisor.settings.ports import fetch_settings

    style = Style(style_name)
    async with open_fetcher(fetch_settings(sources)) as fetcher:
        repository = LawRepository(fetcher)
        if law_source(law_id) is LawSource.CVDR:
            local = await repository.fetch_cvdr(law_id, day)
            return await converted(order_of(local, style=style, base=DEFAULT_BASE)), local.text
        national = await repository.fetch_bwb(law_id, day)
        return await converted(order_of(national, style=style, base=DEFAULT_BASE)), national.toestand


async def _write(product: Product, xml: bytes | None, output: Path) -> list[str]:
    """The law file and its status, and the XML under the same name; the paths, below ``output``."""
    from pathlib import PurePosixPath

    from actors.ports.foldercorpus import FolderCorpus
    from protocols.corpus import FileChange, Publication

    content = [FileChange(product.path, product.content)]
    if xml is not None:
        content.append(FileChange(str(PurePosixPath(product.path).with_suffix(".xml")), xml))
    bookkeeping = (FileChange(product.status_path, product.status),)
    publication = Publication(tuple(content), subject="download", bookkeeping=bookkeeping)
    await FolderCorpus(output, "--output").publish(publication, confirm=_nothing)
    return [change.path for change in content]


async def _nothing() -> None:
    """No lease to confirm: nobody shares this folder."""
