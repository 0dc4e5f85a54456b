"""``download``: a law from the public repository into a folder, without a database or a corpus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import json_option, print_json, quiet_logs

if TYPE_CHECKING:
    from datetime import date

    from actors.ports.lawsource import BwbDocuments
    from protocols.bwb.toestand import Conversion
    from supervisor.settings.areas import Sources


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor download BWBR0018451
  regelrecht-supervisor download BWBR0018451 --date 2025-01-01 --output laws --xml
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
    """Download a law and convert it to YAML. Needs no database."""
    import trio

    from protocols.law_ids import parse_date
    from supervisor.settings import areas, load_area

    quiet_logs()
    sources = load_area(areas.Sources, os.environ)
    wanted = None if day is None else parse_date(day)
    if not as_json:
        click.echo(f"downloading {law_id} from {sources.bwb_repository_url} ...", err=True)
    documents = trio.run(_fetch, sources, law_id, wanted)
    conversion = _convert(documents, style or sources.style)
    paths = trio.run(_write, documents, conversion, output, keep_xml)
    if as_json:
        print_json(
            {
                "law_id": documents.bwb_id,
                "title": conversion.law.title,
                "valid_from": documents.valid_from,
                "files": [str(output / path) for path in paths],
                "referenced": conversion.referenced_bwb_ids,
                "warnings": conversion.warnings,
            }
        )
        return
    for warning in conversion.warnings:
        click.echo(f"Warning: {warning}", err=True)
    click.echo(f"{conversion.law.title}, from {documents.valid_from}: {len(conversion.law.articles)} entries", err=True)
    for path in paths:
        click.echo(output / path)


async def _fetch(sources: Sources, law_id: str, day: date | None) -> BwbDocuments:
    from actors.ports.fetch import open_fetcher
    from actors.ports.lawsource import LawRepository
    from supervisor.settings.ports import fetch_settings

    async with open_fetcher(fetch_settings(sources)) as fetcher:
        return await LawRepository(fetcher).fetch_bwb(law_id, day)


def _convert(documents: BwbDocuments, style: str) -> Conversion:
    from protocols.bwb.toestand import LawFacts, Style, convert

    facts = LawFacts(
        bwb_id=documents.bwb_id,
        title=documents.wti.title,
        layer=documents.wti.layer,
        publication_date=documents.wti.publication_date or documents.valid_from,
        valid_from=documents.valid_from,
        valid_to=documents.choice.valid_to,
        warnings=(*documents.warnings, *documents.wti.warnings),
    )
    return convert(documents.toestand, facts, Style(style))


async def _write(documents: BwbDocuments, conversion: Conversion, output: Path, keep_xml: bool) -> list[str]:
    """The law file and its status, and the XML under the same name; the paths, below ``output``."""
    from datetime import UTC, datetime

    from actors.ports.foldercorpus import FolderCorpus
    from protocols.corpus import FileChange, Publication
    from protocols.lawyaml import LawStatus, dump_law, dump_status, law_file, status_file

    file = law_file(conversion.law)
    status = LawStatus.of(conversion.law, datetime.now(UTC))
    content = [FileChange(str(file), dump_law(conversion.law).encode())]
    if keep_xml:
        content.append(FileChange(str(file.with_suffix(".xml")), documents.toestand))
    bookkeeping = (FileChange(str(status_file(file)), dump_status(status).encode()),)
    await FolderCorpus(output).publish(
        Publication(tuple(content), subject="download", bookkeeping=bookkeeping), confirm=_nothing
    )
    return [change.path for change in content]


async def _nothing() -> None:
    """No lease to confirm: nobody shares this folder."""
