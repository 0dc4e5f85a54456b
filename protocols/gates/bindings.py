"""Whether every name in a model leads somewhere: ``binding``, and what it meets outside (``enrich.md`` 6.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from protocols.gates.findings import OUTSIDE_CORPUS, Finding
from protocols.gates.reading import LawReading, article_of
from protocols.gates.targets import Absent, listed, look_up
from protocols.lawtree import Entry, Field, text_of, walk

CHECK: Final = "binding"

GIVEN_BY_THE_ENGINE: Final = frozenset({"calculation_date", "prev_january_first", "january_first", "referencedate"})

_PROSE: Final = frozenset({"description", "legal_basis", "temporal", "explanation", "gelet_op"})
"""Keys whose texts are for people, or are judged elsewhere: a ``$`` in them is no use of a name."""

_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def bindings(reading: LawReading) -> Iterator[Finding]:
    """Names that nothing defines, and inputs that lead nowhere."""
    for entry in reading.modelled:
        yield from _undefined(entry)
        for bound in entry.fields("input"):
            yield from _input(reading, entry, bound)


def names_known_in(entry: Entry) -> set[str]:
    """What ``$name`` can mean inside this entry."""
    fields = {field.name for key in ("parameters", "input") for field in entry.fields(key)}
    return fields | set(entry.definitions) | entry.outputs | entry.open_term_ids | GIVEN_BY_THE_ENGINE


def names_used_in(entry: Entry) -> dict[str, str]:
    """The names that steps and bindings of this entry use, each with the first place where."""
    used: dict[str, str] = {}
    for place, value in _live_parts(entry):
        for path, found in walk(value):
            match = _NAME.match(found) if isinstance(found, str) and not _PROSE.intersection(path) else None
            if match:
                used.setdefault(match[1], place)
    return used


def _live_parts(entry: Entry) -> Iterator[tuple[str, Any]]:
    for action in entry.actions:
        yield f"the action for {text_of(action.get('output')) or '(no output)'}", action
    for bound in entry.fields("input"):
        yield f"the source of input {bound.name}", bound.source.get("parameters")
    for term in entry.part("open_terms"):
        yield f"the default of open term {text_of(term.get('id'))}", term.get("default")


def _undefined(entry: Entry) -> Iterable[Finding]:
    known = names_known_in(entry)
    told = listed(sorted(known - GIVEN_BY_THE_ENGINE)) or "nothing"
    for name, place in names_used_in(entry).items():
        if name not in known:
            yield Finding(
                CHECK,
                f"{place} uses ${name}, which nothing in this entry defines: add it as parameter, input or definition, "
                f"or compute it in an action; known here: {told}",
                article_of(entry),
            )


def _input(reading: LawReading, entry: Entry, bound: Field) -> Iterator[Finding]:
    source = bound.source
    regulation, output = text_of(source.get("regulation")), text_of(source.get("output"))
    article = article_of(entry)
    if regulation:
        yield from _elsewhere(reading, entry, bound, regulation, output)
    elif output:
        if output not in reading.producers:
            yield Finding(
                CHECK,
                f"input {bound.name} takes the output {output} of this law, and no entry here gives it: model the entry "
                "that does, or name the law that does under source.regulation",
                article,
            )
    elif not source.get("endpoint"):
        described = text_of(source.get("description")) or bound.description
        if described.strip():
            yield Finding(OUTSIDE_CORPUS, f"input {bound.name} comes from outside: {described.strip()[:200]}", article)
        else:
            yield Finding(
                CHECK,
                f"input {bound.name} has an empty source and no description, so nobody can tell where it comes from: "
                "bind it (source.output, with source.regulation for another law) or say in source.description which "
                "register or person gives it",
                article,
            )


def _elsewhere(reading: LawReading, entry: Entry, bound: Field, regulation: str, output: str) -> Iterator[Finding]:
    if not output:
        why = f"input {bound.name} names the law {regulation} and no output of it: add source.output"
        yield Finding(CHECK, why, article_of(entry))
        return
    found = look_up(reading, entry, regulation, f"input {bound.name}")
    if isinstance(found, Absent):
        yield found.finding
    elif output not in found.givers:
        yield Finding(
            CHECK,
            f"input {bound.name} takes the output {output} of {regulation}, which has no such output; it gives: "
            f"{listed(found.outputs) or 'none'}",
            article_of(entry),
        )
