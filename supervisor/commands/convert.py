"""``convert``: one toestand from XML to law YAML, without a network or a database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from datetime import date

    from protocols.bwb.toestand import Conversion

MOST_BYTES = 100 << 20
"""The limit of a download holds for files too."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor convert BWBR0018451_2025-01-01_0.xml
  regelrecht-supervisor convert toestand.xml --wti BWBR0018451.WTI --leaf -o law.yaml
"""
)
@click.argument("toestand", type=_FILE, metavar="TOESTAND.xml")
@click.option("--wti", type=_FILE, help="Metadata file of the law: title, kind, publication date.")
@click.option("--manifest", type=_FILE, help="Manifest of the law: the last day of a law that ended.")
@click.option("--date", "day", metavar="YYYY-MM-DD", help="First day of this text, when it does not say so itself.")
@click.option(
    "--style",
    type=click.Choice(["full", "article", "leaf"]),
    help="What becomes an entry; the default is that of HARVEST_STYLE.",
)
@click.option("--leaf", is_flag=True, help="The same as --style leaf.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write there, not to stdout.")
def command(
    toestand: Path,
    wti: Path | None,
    manifest: Path | None,
    day: str | None,
    style: str | None,
    leaf: bool,
    output: Path | None,
) -> None:
    """Convert a consolidated text (toestand) from XML to law YAML.

    Without --wti, title and kind come from the text itself. What is doubtful is told on stderr.
    """
    import os

    from protocols.law_ids import parse_date
    from protocols.lawyaml import dump_law
    from supervisor.settings import areas, load_area

    if leaf and style not in {None, "leaf"}:
        raise click.UsageError(f"--leaf and --style {style} contradict each other.")
    chosen = "leaf" if leaf else style or load_area(areas.Sources, os.environ).style
    conversion = _convert(
        _content(toestand),
        wti=None if wti is None else _content(wti),
        manifest=None if manifest is None else _content(manifest),
        day=None if day is None else parse_date(day),
        style=chosen,
    )
    for warning in conversion.warnings:
        click.echo(f"Warning: {warning}", err=True)
    text = dump_law(conversion.law).encode()
    if output is None:
        sys.stdout.buffer.write(text)
    else:
        _replace(output, text)
        click.echo(f"{conversion.law.law_id}: {len(conversion.law.articles)} entries written to {output}", err=True)


def _convert(xml: bytes, *, wti: bytes | None, manifest: bytes | None, day: date | None, style: str) -> Conversion:
    """D37: what the metadata does not say comes from the text, and the text's first day can be overridden."""
    from attrs import evolve

    from protocols.bwb import toestand
    from protocols.bwb.manifest import choose, parse_manifest
    from protocols.bwb.wti import parse_wti

    facts = toestand.facts_of(xml, day=day)
    if wti is not None:
        known = parse_wti(wti, facts.bwb_id)
        facts = evolve(
            facts,
            title=known.title or facts.title,
            layer=known.layer,
            publication_date=known.publication_date or facts.valid_from,
            warnings=known.warnings,
        )
    if manifest is not None:
        choice = choose(parse_manifest(manifest, facts.bwb_id), requested=facts.valid_from, today=facts.valid_from)
        facts = evolve(facts, valid_to=choice.valid_to, warnings=(*choice.warnings, *facts.warnings))
    return toestand.convert(xml, facts, toestand.Style(style))


def _content(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise click.ClickException(f"{path} has {size} bytes; the most is {MOST_BYTES}.")
    return path.read_bytes()


def _replace(path: Path, content: bytes) -> None:
    """Write beside ``path``, then rename over it: a reader never sees half a file."""
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
