"""Whether what the text says has a place in the model: ``coverage``, ``accounted``, ``unproduced``, ``flag-only``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, article_of, plain
from protocols.gates.wording import (
    connectives_in,
    count_leden,
    holds_no_rule,
    is_definition_article,
    names_a_period,
    periods_in,
)
from protocols.lawtree import Entry, gaps_of, mapping_of, operation_name, operations_in

_BRANCHING: Final = frozenset(
    {
        "IF", "AND", "OR", "NOT", "IN", "MIN", "MAX", "EQUALS",
        "GREATER_THAN", "LESS_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN_OR_EQUAL",
    }
)  # fmt: skip
"""An exception or a limit in the text shows in the model as one of these."""

_OUTCOMES: Final = ("definitions", "implements", "requires", "overrides", "hooks", "enables", "declares")


def coverage(reading: LawReading) -> Iterator[Finding]:
    """Leden, connectives and periods of the text that the model passes over."""
    for entry in reading.entries:
        found = connectives_in(entry.text)
        if entry.model:
            problems = [*_unbranched(reading, entry, found), *_timeless(reading, entry)]
        else:
            problems = list(_unmodelled(entry, found))
        yield from (Finding("coverage", problem, article_of(entry)) for problem in problems)


def _unmodelled(entry: Entry, connectives: list[str]) -> Iterator[str]:
    leden = count_leden(entry.text)
    signs = [f"{leden} leden"] if leden > 1 else []
    signs += [f'"{word}"' for word in connectives]
    if signs:
        yield f"the text has {', '.join(signs)} and the entry has no model: model what can be computed, or record why not"


def _unbranched(reading: LawReading, entry: Entry, connectives: list[str]) -> Iterator[str]:
    if is_definition_article(entry.text) or any(
        operation_name(operation) in _BRANCHING for _, operation in operations_in(mapping_of(entry.model))
    ):
        return
    quoted = " ".join(plain(gap.excerpt) for gap in gaps_of(entry)).casefold()
    answered = set(connectives_in(quoted)) | ({"in afwijking van"} if entry.part("overrides") else set())
    left = [word for word in connectives if word not in answered]
    if left:
        words = ", ".join(f'"{word}"' for word in left)
        yield (
            f"the text has {words} and the model has no condition and no limit: express it (IF, AND, OR, MIN, MAX, a "
            f"comparison), or quote it under {reading.gap_key} and say why it cannot be"
        )


def _timeless(reading: LawReading, entry: Entry) -> Iterator[str]:
    periods = periods_in(entry.text)
    fields = [field for key in ("parameters", "input", "output") for field in entry.fields(key)]
    if not periods or not fields:
        return
    if any(
        names_a_period(field.name) or field.raw.get("temporal") or field.raw.get("type") == "date" for field in fields
    ):
        return
    quoted = periods_in(" ".join(gap.excerpt for gap in gaps_of(entry)))
    left = [word for word in periods if word not in quoted]
    if left:
        words = ", ".join(f'"{word}"' for word in left)
        yield (
            f"the text speaks of {words} and no parameter, input or output names a period or a day: add one, or give the "
            f"field that holds for a period its temporal key, or say under {reading.gap_key} why time does not matter here"
        )


def accounted(reading: LawReading) -> Iterator[Finding]:
    """An entry that nobody decided about: no section, an empty one, and not skipped with a reason."""
    for entry in reading.entries:
        if entry.model or holds_no_rule(entry.text) or entry.number in reading.around.skipped:
            continue
        yield Finding(
            "accounted",
            "the entry has no outcome at all: give it a model, record the gap under "
            f"{reading.gap_key}, or name it with a reason under articles_skipped of the report",
            article_of(entry),
        )


def unproduced(reading: LawReading) -> Iterator[Finding]:
    """Outputs that nothing computes."""
    for entry in reading.modelled:
        declared = [output.name for output in entry.fields("output")]
        others = ("definitions", "open_terms", "implements", "requires")
        if declared and not entry.actions and not any(mapping_of(entry.model).get(key) for key in others):
            yield Finding(
                "unproduced",
                f"the outputs {', '.join(declared[:12])} are declared and no action computes any: add the actions, or take "
                "the outputs out",
                article_of(entry),
            )


def flags_only(reading: LawReading) -> Iterator[Finding]:
    """A model that only says what is missing."""
    for entry in reading.modelled:
        flags = [
            key for key in (*{gap.key for gap in gaps_of(entry)}, "open_terms") if mapping_of(entry.model).get(key)
        ]
        logic = entry.actions or entry.fields("output") or any(mapping_of(entry.model).get(key) for key in _OUTCOMES)
        if flags and not logic:
            yield Finding(
                "flag-only",
                f"the model holds {' and '.join(flags)} and nothing else: model the part that can be computed (conditions, "
                "who decides, what is fixed), and keep the flag for the rest",
                article_of(entry),
            )
