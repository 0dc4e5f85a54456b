"""``placement``: keys where the schema lets them pass and the engine does not look."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, article_of
from protocols.gates.wording import other_law_in
from protocols.lawtree import text_of


def placements(reading: LawReading) -> Iterator[Finding]:
    """A source under a parameter, and an input that only its description connects to another law."""
    for entry in reading.modelled:
        for parameter in entry.fields("parameters"):
            if "source" in parameter.raw:
                yield Finding(
                    "placement",
                    f"parameter {parameter.name} has a source, which is ignored there: a parameter comes from the caller. "
                    "Move it to input",
                    article_of(entry),
                )
        for bound in entry.fields("input"):
            if any(text_of(bound.source.get(key)) for key in ("regulation", "output", "endpoint")):
                continue
            law = other_law_in(f"{bound.description} {text_of(bound.source.get('description'))}")
            if law:
                yield Finding(
                    "placement",
                    f'the description of input {bound.name} points to a regulation ("{law}") and its source does not: bind '
                    "it with source.regulation and source.output",
                    article_of(entry),
                )
