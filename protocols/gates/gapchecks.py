"""Whether a recorded gap is one: ``marking``, ``target``, ``contradiction``, ``reach``, and ``open-term``.

Rows of ``enrich.md`` 6.3 that speak of markings hold for ``untranslatables`` too, as far as they have the same parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from protocols.gates.bindings import names_known_in
from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, article_of, plain
from protocols.gates.targets import listed
from protocols.gates.wording import REACH, delegates
from protocols.lawschema import has_markings
from protocols.lawtree import Entry, Gap, gaps_of, mapping_of, text_of

_LEAST_WORDS: Final = {"resolved_by": 3, "reason": 6, "excerpt": 3}

_TOO_COMMON: Final = frozenset({"ADD", "AND", "OR", "NOT", "IF", "IN", "DATE", "LIST"})
"""Operations whose names are words of their own in a sentence."""

_SHAPES: Final = (
    (re.compile(r"\bopen[ _-]?terms?\b", re.IGNORECASE), "open_terms"),
    (re.compile(r"\boverrid\w+\b", re.IGNORECASE), "overrides"),
    (re.compile(r"\bhooks?\b", re.IGNORECASE), "hooks"),
    (
        re.compile(r"\b(?:cross-law|other law'?s? output|uitkomst van een andere wet)\b", re.IGNORECASE),
        "source.regulation",
    ),
    (re.compile(r"\b(?:conditional|if/else|if-then|voorwaardelijke?)\b", re.IGNORECASE), "the operation IF"),
    (re.compile(r"\b(?:unit labels?|eenheid meegeven|type_spec)\b", re.IGNORECASE), "type_spec.unit"),
)
_FILLERS_V05: Final = ("delegated_to", "delegation_type", "legal_basis")
_FILLERS_V06: Final = ("delegated_to", "expected_source", "decided_per_case_by")
_WORD = re.compile(r"[^\W_]+")


def gaps(reading: LawReading) -> Iterator[Finding]:
    """Each gap of each entry: the right channel, a real need, a reason and an excerpt that stand on their own."""
    for entry in reading.modelled:
        for gap in gaps_of(entry):
            name = f"{gap.key}: {plain(gap.about)[:80] or '(nothing named)'}"
            for problem in _problems(reading, entry, gap):
                yield Finding("marking", f"{name}: {problem}", article_of(entry))


def _problems(reading: LawReading, entry: Entry, gap: Gap) -> Iterator[str]:
    if delegates(f"{gap.about} {gap.reason} {gap.asked}"):
        yield "it speaks of rules that someone else makes; that is no gap: record them under open_terms"
    wanted = gap.asked or gap.about
    there = [name for name in sorted(reading.operations - _TOO_COMMON) if re.search(rf"\b{name}\b", wanted)]
    if there:
        yield f"it asks for {listed(there)}, which this schema version has: use it and take the entry out"
    shapes = [shape for pattern, shape in _SHAPES if pattern.search(wanted)]
    if shapes:
        yield f"it asks for a shape that the format has ({listed(shapes)}): use it and take the entry out"
    yield from _thin(gap)
    yield from _unquoted(reading.plain_texts[entry.index], gap)


def _thin(gap: Gap) -> Iterator[str]:
    resolved_by = text_of(gap.raw.get("resolved_by"))
    if resolved_by and (_count(resolved_by) < _LEAST_WORDS["resolved_by"] or _restates(resolved_by, gap.about)):
        yield "resolved_by must say in at least 3 words of its own what would solve it"
    needs_reason = gap.key == "untranslatables" or gap.reason
    if needs_reason and (_count(gap.reason) < _LEAST_WORDS["reason"] or _restates(gap.reason, gap.about)):
        yield "reason must say in at least 6 words of its own why no operation fits"


def _unquoted(text: str, gap: Gap) -> Iterator[str]:
    excerpt = plain(gap.excerpt)
    if _count(excerpt) < _LEAST_WORDS["excerpt"]:
        yield "legal_text_excerpt must quote at least 3 words of the entry's text"
    elif excerpt.casefold() not in text:
        yield "legal_text_excerpt is not literally in the text of this entry: quote it word for word"


def _count(text: str) -> int:
    return len(_WORD.findall(text))


def _restates(text: str, about: str) -> bool:
    """Whether ``text`` has no word that ``about`` does not have."""
    words = set(_WORD.findall(text.casefold()))
    return bool(words) and words <= set(_WORD.findall(about.casefold()))


def targets(reading: LawReading) -> Iterator[Finding]:
    """What a gap says it is about must be declared (``target``), and not computed beside it (``contradiction``)."""
    for entry in reading.modelled:
        known, computed = names_known_in(entry), entry.computed
        told = listed(sorted(known)) or "nothing"
        for gap in gaps_of(entry):
            for name in gap.targets:
                target = name.removeprefix("$").split(".", 1)[0]
                if target in computed:
                    why = f"it says that {target} cannot be computed, and an action of this entry computes it: keep one"
                    yield Finding("contradiction", f"{gap.key}: {why}", article_of(entry))
                elif target not in known:
                    why = f"its target {target} is nothing that this entry declares; declared: {told}"
                    yield Finding("target", f"{gap.key}: {why}", article_of(entry))


def reach(reading: LawReading) -> Iterator[Finding]:
    """Definitions that also hold in lower regulations cannot be expressed, so the text must be quoted as a gap."""
    for entry in reading.modelled:
        if not entry.model or REACH not in reading.plain_texts[entry.index]:
            continue
        if not any(REACH in plain(gap.excerpt).casefold() for gap in gaps_of(entry)):
            yield Finding(
                "reach",
                f'the definitions also hold for the "{REACH}", which the model cannot say: quote that under '
                f"{reading.gap_key}",
                article_of(entry),
            )


def open_terms(reading: LawReading) -> Iterator[Finding]:
    """A value left to someone else must say to whom, in the keys of the file's own version."""
    fillers = _FILLERS_V06 if has_markings(reading.version) else _FILLERS_V05
    for entry in reading.modelled:
        for term in entry.part("open_terms"):
            if not any(mapping_of(term).get(key) for key in fillers):
                yield Finding(
                    "open-term",
                    f"open term {text_of(term.get('id')) or '(without id)'} does not say who fills it: give at least one of "
                    f"{', '.join(fillers)}",
                    article_of(entry),
                )
