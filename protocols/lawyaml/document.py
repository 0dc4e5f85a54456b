"""The layout of a law file: which key stands where, and nothing else."""

from collections.abc import Iterable
from typing import Final

from protocols.law import SCHEMA_URL, ArticleEntry, Division, Law, Reference
from protocols.lawyaml.blocks import text_value
from protocols.lawyaml.scalars import scalar, single_quoted

_REFERENCE_FIELDS: Final = ("artikel", "lid", "onderdeel", "hoofdstuk", "paragraaf", "afdeling")


def dump_law(law: Law) -> str:
    """The whole file: starts with ``---``, ends with one newline, no trailing blanks, the same bytes every time."""
    parts = ["---\n"]
    add = parts.append
    for key, value in _header(law):
        if value is not None:
            add(f"{key}: {value}\n")
    if law.preamble is not None:
        add(f"preamble:\n  text: {text_value(law.preamble.text, '    ')}\n")
        if law.preamble.url is not None:
            add(f"  url: {scalar(law.preamble.url)}\n")
    if law.structure:
        add("structure:\n")
        _add_divisions(parts, law.structure)
    add("articles:\n" if law.articles else "articles: []\n")
    for article in law.articles:
        number, text, url = scalar(article.number), text_value(article.text, "      "), scalar(article.url)
        add(f"  - number: {number}\n    text: {text}\n    url: {url}\n")
        _add_references(parts, article.references)
    if law.closing is not None:
        add(f"closing:\n  text: {text_value(law.closing, '    ')}\n")
    if law.annexes:
        add("annexes:\n")
    for annex in law.annexes:
        add(f"  - number: {scalar(annex.number)}\n")
        if annex.title:
            add(f"    title: {scalar(annex.title)}\n")
        add(f"    text: {text_value(annex.text, '      ')}\n")
        _add_references(parts, annex.references)
    return "".join(parts)


def _header(law: Law) -> Iterable[tuple[str, str | None]]:
    yield "$schema", SCHEMA_URL
    yield "$id", scalar(law.slug)
    yield "regulatory_layer", law.layer.value
    yield "publication_date", single_quoted(law.publication_date.isoformat())
    yield "valid_from", single_quoted(law.valid_from.isoformat())
    yield "valid_to", single_quoted(law.valid_to.isoformat()) if law.valid_to else None
    for key, value in (
        ("bwb_id", law.bwb_id),
        ("cvdr_id", law.cvdr_id),
        ("celex_nummer", law.celex_nummer),
        ("tractatenblad_id", law.tractatenblad_id),
        ("officiele_titel", law.official_title),
        ("name", law.name),
        ("organisation", law.organisation),
        (law.layer.area_key or "", law.area_code if law.layer.area_key else None),
    ):
        yield key, None if value is None else scalar(value)
    yield "url", scalar(law.url)


def _add_references(parts: list[str], references: tuple[Reference, ...]) -> None:
    if not references:
        return
    parts.append("    references:\n")
    for reference in references:
        parts.append(f"      - id: {scalar(reference.id)}\n        bwb_id: {scalar(reference.bwb_id)}\n")
        for field in _REFERENCE_FIELDS:
            value = getattr(reference, field)
            if value is not None:
                parts.append(f"        {field}: {scalar(value)}\n")


def _add_divisions(parts: list[str], top: tuple[Division, ...]) -> None:
    """Depth first with a stack of our own: a hostile nesting must not end the process (D36)."""
    waiting = [(division, "  ") for division in reversed(top)]
    while waiting:
        division, indent = waiting.pop()
        inner = indent + "  "
        parts.append(f"{indent}- type: {scalar(division.type)}\n")
        if division.number is not None:
            parts.append(f"{inner}number: {scalar(division.number)}\n")
        if division.title is not None:
            parts.append(f"{inner}title: {scalar(division.title)}\n")
        if division.articles:
            parts.append(f"{inner}articles:\n")
            parts.extend(_article_entry(entry, inner + "  ") for entry in division.articles)
        if division.children:
            parts.append(f"{inner}children:\n")
            waiting.extend((child, inner + "  ") for child in reversed(division.children))


def _article_entry(entry: ArticleEntry, indent: str) -> str:
    if entry.title is None and entry.status is None:
        return f"{indent}- {scalar(entry.number)}\n"
    line = f"{indent}- number: {scalar(entry.number)}\n"
    if entry.title is not None:
        line += f"{indent}  title: {scalar(entry.title)}\n"
    if entry.status is not None:
        line += f"{indent}  status: {scalar(entry.status)}\n"
    return line
