"""Counts of a law's models: coverage, and the gaps that an agent recorded (``enrich.md`` 9.1 and 9.2).

Everything is counted on the untyped tree: a shape that the schema refuses is still counted, and never an error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from attrs import asdict, frozen

from protocols.lawtree import MARKINGS, UNTRANSLATABLES, Entry, Gap, Tree, entries_of, gaps_of, text_of

_UNNAMED: Final = "(unnamed)"


@frozen
class LawCount:
    """How many entries a law has, and how many of them have a section."""

    total: int
    with_section: int

    @property
    def coverage(self) -> float:
        """The share with a section: ``law_entries.coverage_score``, cumulative; 0.0 for a law without entries."""
        return self.with_section / self.total if self.total else 0.0

    def gained_since(self, before: LawCount) -> float:
        """The share that this run added: ``coverage_score`` of result and ``.enrichment.yaml``.

        New sections by entries that had none before, over the whole law also in a windowed run. 1.0 when none was
        missing, 0.0 for a law without entries, never below 0.
        """
        if not before.total:
            return 0.0
        missing = before.total - before.with_section
        return max(0, self.with_section - before.with_section) / missing if missing else 1.0


def count(law: Tree, numbers: Collection[str] | None = None) -> LawCount:
    """Count all entries, or those with these numbers. ``{}`` is a section; null, a list or a text is none."""
    entries = _chosen(law, numbers)
    return LawCount(len(entries), sum(entry.model is not None for entry in entries))


def count_gaps(law: Tree, numbers: Collection[str] | None = None) -> int:
    """Untranslatables and markings together, in all entries or in those with these numbers."""
    return sum(len(gaps_of(entry)) for entry in _chosen(law, numbers))


@frozen
class CapturedUntranslatable:
    """A row of ``untranslatables``, and an item of ``result.untranslatables``."""

    article: str
    construct: str
    reason: str
    suggestion: str | None = None
    legal_text_excerpt: str | None = None
    accepted: bool = False

    def to_json(self) -> dict[str, Any]:
        return _without_absent(asdict(self))


@frozen
class CapturedMarking:
    """An item of ``result.markings``; its row has the provisional shape of D62 (:meth:`to_row`)."""

    article: str
    about: str
    resolution: str = ""
    resolved_by: str | None = None
    target: tuple[str, ...] = ()
    legal_text_excerpt: str | None = None
    reason: str | None = None
    accepted: bool = False

    def to_json(self) -> dict[str, Any]:
        return _without_absent({**asdict(self), "target": list(self.target)})

    def to_row(self) -> dict[str, Any]:
        """``article, kind, reason, excerpt, accepted`` of the table ``markings``; ``kind`` and ``reason`` are never empty."""
        said = [self.about, self.reason, self.resolved_by and f"resolved by: {self.resolved_by}"]
        return {
            "article": self.article,
            "kind": self.resolution or "model",
            "reason": "; ".join(text for text in said if text),
            "excerpt": self.legal_text_excerpt,
            "accepted": self.accepted,
        }


def untranslatables_of(law: Tree) -> list[CapturedUntranslatable]:
    """The recorded untranslatables of the whole law, in order."""
    return [
        CapturedUntranslatable(
            article=entry.number,
            construct=gap.about or _UNNAMED,
            reason=gap.reason,
            suggestion=text_of(gap.raw.get("suggestion")) or None,
            legal_text_excerpt=gap.excerpt or None,
            accepted=gap.raw.get("accepted") is True,
        )
        for entry, gap in _recorded(law, UNTRANSLATABLES)
    ]


def markings_of(law: Tree) -> list[CapturedMarking]:
    """The recorded markings of the whole law, in order."""
    return [
        CapturedMarking(
            article=entry.number,
            about=gap.about or _UNNAMED,
            resolution=text_of(gap.raw.get("resolution")),
            resolved_by=text_of(gap.raw.get("resolved_by")) or None,
            target=tuple(gap.targets),
            legal_text_excerpt=gap.excerpt or None,
            reason=gap.reason or None,
            accepted=gap.raw.get("accepted") is True,
        )
        for entry, gap in _recorded(law, MARKINGS)
    ]


def _recorded(law: Tree, key: str) -> list[tuple[Entry, Gap]]:
    return [(entry, gap) for entry in entries_of(law) for gap in gaps_of(entry) if gap.key == key]


def _chosen(law: Tree, numbers: Collection[str] | None) -> list[Entry]:
    return [entry for entry in entries_of(law) if numbers is None or entry.number in numbers]


def _without_absent(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
