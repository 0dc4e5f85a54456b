"""Constants in a model: ``definition-type``, ``enum-provenance`` and the tricks of ``workaround``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, article_of
from protocols.lawtree import Entry, Path, list_of, mapping_of, mappings_in, operation_name, operations_in, shown, walk

UNITS: Final = ("euro", "eurocent", "ratio", "percentage", "years", "months", "weeks", "days")

MOST_CASES: Final = 8
MOST_TEXTS: Final = 500
"""So many texts of one entry are looked for in the law, each through all of it."""

_COMPARING: Final = ("EQUALS", "GREATER_THAN", "LESS_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN_OR_EQUAL", "IN")
_NUMERIC = re.compile(r"[-+]?[0-9][0-9.,:/-]*%?")
_SENTINEL_DATE = re.compile(r"(?:9999|2999|1900|0001)-(?:12-31|01-01)")
_SENTINEL_NUMBER = re.compile(r"-?9{4,}(?:\.9+)?")


def definition_types(reading: LawReading) -> Iterator[Finding]:
    """A number without a type may be a fraction or a multiplier, euros or cents (RFC-023)."""
    for entry in reading.modelled:
        for name, written in entry.definitions.items():
            structured = isinstance(written, dict)
            value = written.get("value") if structured else written
            if not _is_number(value) or (structured and written.get("type")):
                continue
            yield Finding(
                "definition-type",
                f"definition {name} is {value} without a type, so it can be misread by a factor of 100: a fraction or a "
                f"multiplier, euros or cents. Write it in structured form, with value: {value} and a type. A quantity "
                f"also gets type_spec.unit, one of {', '.join(UNITS)}; money is type: amount with unit: eurocent; a "
                "plain count is type: number without a unit. The unit only labels the value: do not rescale the number",
                article_of(entry),
            )


def enumerated(reading: LawReading) -> Iterator[Finding]:
    """A text that the model compares with, or chooses, must be words of the law."""
    for entry in reading.modelled:
        seen: dict[str, Path] = {}
        for path, operation in operations_in(entry.actions):
            for key, value in _enumerated_in(operation):
                seen.setdefault(value, (*path, key))
        if len(seen) > MOST_TEXTS:
            yield Finding(
                "enum-provenance",
                f"the model compares with {len(seen)} different texts, of which only {MOST_TEXTS} are looked up in the law: "
                "take out those that decide nothing",
                article_of(entry),
            )
        for value, path in islice(seen.items(), MOST_TEXTS):
            words = " ".join(value.replace("_", " ").split()).casefold()
            if words and not _NUMERIC.fullmatch(words) and words not in reading.words:
                yield Finding(
                    "enum-provenance",
                    f"the value {value!r} (actions/{shown(path)}) occurs nowhere in the text of this law: use the words "
                    "of the text, with underscores for spaces",
                    article_of(entry),
                )


def _enumerated_in(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = operation_name(operation)
    found: list[tuple[str, Any]] = []
    if name in _COMPARING:
        found += [("subject", operation.get("subject")), ("value", operation.get("value"))]
        found += [("values", item) for item in list_of(operation.get("values"))]
    elif name == "LIST":
        found += [("items", item) for item in list_of(operation.get("items"))]
    elif name == "IF":
        found += [("cases", case.get("then")) for case in mappings_in(operation.get("cases"))]
        found.append(("default", operation.get("default")))
    return ((key, value) for key, value in found if isinstance(value, str) and not value.startswith("$"))


def workarounds(reading: LawReading) -> Iterator[Finding]:
    """Shapes that show an expression was bent around something the format can say, or cannot say at all (RFC-012)."""
    for entry in reading.modelled:
        for path, operation in operations_in(entry.actions):
            for trick in _tricks(entry, operation):
                where = f"actions/{shown(path)}"
                yield Finding(
                    "workaround", f"{where}: {trick}, or record it under {reading.gap_key}", article_of(entry)
                )
        for trick in _sentinels(reading, entry):
            yield Finding("workaround", f"{trick}, or record it under {reading.gap_key}", article_of(entry))


def _tricks(entry: Entry, operation: dict[str, Any]) -> Iterator[str]:
    name = operation_name(operation)
    cases = len(list_of(operation.get("cases")))
    if name == "IF" and cases > MOST_CASES:
        yield f"an IF with {cases} cases is a table written out: compute the value"
    inverse = {"DIVIDE": "MULTIPLY", "MULTIPLY": "DIVIDE"}.get(name)
    if inverse:
        powers = _powers_of_ten(entry, operation)
        for inner in mappings_in(operation.get("values")):
            inner_name = operation_name(inner)
            reached = mapping_of(inner.get("value")) if inner_name in ("ROUND", "CEIL", "FLOOR") else inner
            if operation_name(reached) == inverse and (same := powers & _powers_of_ten(entry, reached)):
                yield (
                    f"{inverse} and {name} by the same {min(same):g} cut off or round digits by hand: use ROUND, CEIL or "
                    "FLOOR with a precision"
                )


def _powers_of_ten(entry: Entry, operation: dict[str, Any]) -> set[float]:
    numbers = (_constant(entry, value) for value in list_of(operation.get("values")))
    return {abs(number) for number in numbers if number and _is_power_of_ten(abs(number))}


def _is_power_of_ten(number: float) -> bool:
    exponent = math.log10(number) if math.isfinite(number) else 0.5
    return number != 1 and math.isclose(exponent, round(exponent), abs_tol=1e-9)


def _constant(entry: Entry, value: Any) -> float | None:
    """A number, written out or as ``$NAME`` of a definition here."""
    if isinstance(value, str) and value.startswith("$"):
        named = entry.definitions.get(value[1:])
        value = named.get("value") if isinstance(named, dict) else named
    if not _is_number(value) or abs(value) > 1e300:
        return None
    return float(value)


def _sentinels(reading: LawReading, entry: Entry) -> Iterable[str]:
    """Numbers of nines and dates at the ends of calendars that the text does not have."""
    written: dict[str, None] = {}
    for _, value in [*_values_in(entry.actions), *_values_in(entry.definitions)]:
        text = str(value)
        if (isinstance(value, str) and _SENTINEL_DATE.fullmatch(text)) or (
            _is_number(value) and _SENTINEL_NUMBER.fullmatch(text)
        ):
            written.setdefault(text)
    for text in written:
        if text.replace(".", "") not in reading.bare_words:
            yield f"the constant {text} is not in the text and looks like a stand-in for 'no limit' or 'unknown': model that case"


def _values_in(part: Any) -> Iterator[tuple[Path, Any]]:
    return ((path, value) for path, value in walk(part) if isinstance(value, str | int | float))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
