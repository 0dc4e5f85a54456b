"""``convert``: law texts from XML to law YAML, without a network or a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.commands.session import json_option
from supervisor.terminaltext import say

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
  regelrecht-supervisor convert toestand.xml --wti BWBR0018451.WTI --leaf \\
      -o law.yaml
  regelrecht-supervisor convert --loss-report laws/*.xml
"""
)
@click.argument("texts", type=_FILE, metavar="TEXT.xml...", nargs=-1, required=True)
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
@click.option("--loss-report", "losses", is_flag=True, help="Tell what of each text is in its YAML, and write no YAML.")
@json_option
def command(
    texts: tuple[Path, ...],
    wti: Path | None,
    manifest: Path | None,
    day: str | None,
    style: str | None,
    leaf: bool,
    output: Path | None,
    losses: bool,
    as_json: bool,
) -> None:
    """Convert the text of a law (toestand) or of a local regulation (CVDR) from XML to law YAML.

    Without --wti, title and kind come from the text itself. What is doubtful is told on stderr. A loss report may be
    about any number of texts; it exits 1 only when one of them could not be converted at all.
    """
    import os

    from protocols.law_ids import parse_date
    from supervisor.settings import areas, load_area

    if leaf and style not in {None, "leaf"}:
        raise click.UsageError(f"--leaf and --style {style} contradict each other.")
    if losses and (output or wti or manifest):
        raise click.UsageError("--loss-report goes with --style, --date and --json only.")
    if not losses and (as_json or len(texts) > 1):
        raise click.UsageError("Give one text, or --loss-report, which also knows --json.")
    chosen = "leaf" if leaf else style or load_area(areas.Sources, os.environ).style
    first_day = None if day is None else parse_date(day)
    if losses:
        from supervisor.commands import lossreport

        sys.exit(lossreport.report([(path, content_of(path)) for path in texts], first_day, chosen, as_json=as_json))
    _write(_convert(texts[0], wti=wti, manifest=manifest, day=first_day, style=chosen), output)


def content_of(path: Path) -> bytes:
    """The file at ``path``; one beyond the limit is a ``ClickException``."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise click.ClickException(f"{path} has {size} bytes; the most is {MOST_BYTES}.")
    return path.read_bytes()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Of several files, which one is refused: a ``ClickException`` with ``path``."""
    from protocols.failures import InvalidInput, SupervisorError

    try:
        yield
    except InvalidInput:
        raise  # about the command line
    except SupervisorError as error:
        raise click.ClickException(f"{path}: {error.message}") from error


def _convert(text: Path, *, wti: Path | None, manifest: Path | None, day: date | None, style: str) -> Conversion:
    """D37: what the metadata does not say comes from the text, and the text's first day can be overridden."""
    from attrs import evolve

    from protocols.bwb import toestand
    from protocols.bwb.manifest import choose, parse_manifest
    from protocols.bwb.wti import parse_wti
    from protocols.cvdr import regeling

    xml = content_of(text)
    with _named(text):
        if regeling.is_regeling(xml):
            if wti is not None or manifest is not None:
                raise click.UsageError("--wti and --manifest belong to national laws; this is a local regulation.")
            return regeling.convert_alone(xml, toestand.Style(style), day=day)
        facts = toestand.facts_of(xml, day=day)
    if wti is not None:
        with _named(wti):
            known = parse_wti(content_of(wti), facts.bwb_id)
        facts = evolve(
            facts,
            title=known.title or facts.title,
            layer=known.layer,
            publication_date=known.publication_date or facts.valid_from,
            warnings=known.warnings,
        )
    if manifest is not None:
        with _named(manifest):
            known_texts = parse_manifest(content_of(manifest), facts.bwb_id)
            choice = choose(known_texts, requested=facts.valid_from, today=facts.valid_from)
        facts = evolve(facts, valid_to=choice.valid_to, warnings=(*choice.warnings, *facts.warnings))
    with _named(text):
        return toestand.convert(xml, facts, toestand.Style(style))


def _write(conversion: Conversion, output: Path | None) -> None:
    from protocols.lawyaml import dump_law

    for warning in conversion.warnings:
        say(f"Warning: {warning}", err=True)
    text = dump_law(conversion.law)
    if output is None and sys.stdout.isatty():
        say(text.rstrip("\n"))
    elif output is None:
        sys.stdout.buffer.write(text.encode())
    else:
        _replace(output, text.encode())
        say(f"{conversion.law.law_id}: {len(conversion.law.articles)} entries written to {output}", err=True)


def _replace(path: Path, content: bytes) -> None:
    """Write beside ``path``, then rename over it: a reader never sees half a file."""
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
