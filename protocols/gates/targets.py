"""Looking up what a model names in another law, and what to say when it cannot be looked up."""

from __future__ import annotations

from attrs import frozen

from protocols.gates.findings import CORPUS_DEFECT, OUTSIDE_CORPUS, Finding
from protocols.gates.reading import LawIndex, LawReading, Unreadable, article_of
from protocols.lawtree import Entry, Tree, entries_of, text_of


@frozen
class Absent:
    """The law cannot be looked into; ``finding`` says why and is only recorded."""

    finding: Finding


def laws_named(tree: Tree) -> tuple[str, ...]:
    """Every other law that the models name, in order of first use: what a caller fetches before the gates run."""
    named: dict[str, None] = {}
    for entry in entries_of(tree):
        for bound in entry.fields("input"):
            named.setdefault(text_of(bound.source.get("regulation")))
        for key in ("overrides", "implements", "requires"):
            for item in entry.part(key):
                named.setdefault(text_of(item.get("law")))
    return tuple(law for law in named if law and law != text_of(tree.get("$id")))


def look_up(reading: LawReading, entry: Entry, law_id: str, named_by: str) -> LawIndex | Absent:
    """The law with this id, if it is interpreted at all. ``named_by`` begins the sentence."""
    article = article_of(entry)
    found = reading.other(law_id)
    if found is None:
        why = f"{named_by} names the law {law_id}, which is not in the corpus"
        return Absent(Finding(OUTSIDE_CORPUS, why, article))
    if isinstance(found, Unreadable):
        why = f"{named_by} names the law {law_id}, whose file cannot be read: {found.why}"
        return Absent(Finding(CORPUS_DEFECT, why, article))
    index = reading.index_of(found)
    if found is not reading.tree and not index.interpreted:
        why = f"{named_by} names the law {law_id}, which is in the corpus without any model yet"
        return Absent(Finding(OUTSIDE_CORPUS, why, article))
    return index


def listed(names: list[str], most: int = 12) -> str:
    """Names for a sentence: all of a few, the first of many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
