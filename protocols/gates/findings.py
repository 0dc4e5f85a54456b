"""What a check says: findings, how they read in a prompt, and which of them belong to a window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from attrs import evolve, frozen

from protocols.lawtree import is_under

MOST_FINDINGS: Final = 60
"""As many are put to an agent at once; the rest is counted."""

SCHEMA: Final = "schema"
OUTSIDE_CORPUS: Final = "outside-corpus"
CORPUS_DEFECT: Final = "corpus-defect"
RECORDED: Final = frozenset({OUTSIDE_CORPUS, CORPUS_DEFECT})
"""Nothing in this file answers these: they are stored with the gate and never put to the agent."""


@frozen
class Finding:
    """``article`` is the entry's number, None for the file as a whole. ``detail`` is one sentence or more for the agent."""

    check: str
    detail: str
    article: str | None = None

    def __str__(self) -> str:
        """As the agent reads it. A schema finding begins with its path already."""
        if self.check == SCHEMA:
            return self.detail
        where = f" art. {self.article}:" if self.article is not None else ""
        return f"[{self.check}]{where} {self.detail}"


@frozen
class Reading:
    """What one evaluation of a gate found: what the agent can answer, and what is only recorded.

    ``elsewhere``: breaches of the schema in entries that this window may not touch, and that were there before it.
    """

    answerable: tuple[Finding, ...]
    recorded: tuple[Finding, ...] = ()
    elsewhere: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return len(self.answerable)

    def without(self, standing: Collection[Finding]) -> Reading:
        """Those of ``standing`` that are still there are told, and asked of nobody."""
        return evolve(
            self,
            answerable=tuple(finding for finding in self.answerable if finding not in standing),
            elsewhere=tuple(finding for finding in self.answerable if finding in standing),
        )


def reading_of(findings: Iterable[Finding], window: Collection[str] | None = None) -> Reading:
    """Sort ``findings`` out for one run. ``window`` holds entry numbers; None is the whole law. Doubles are dropped."""
    kept = [finding for finding in dict.fromkeys(findings) if in_window(finding, window)]
    return Reading(
        tuple(finding for finding in kept if finding.check not in RECORDED),
        tuple(finding for finding in kept if finding.check in RECORDED),
    )


def in_window(finding: Finding, window: Collection[str] | None) -> bool:
    """Whether a finding concerns this run: about the whole file, or about an entry, its parts or what it is part of."""
    if window is None or finding.article is None or finding.check == SCHEMA:
        return True
    article = finding.article
    return any(is_under(article, number) or is_under(number, article) for number in window)


def bullets(findings: Sequence[Finding]) -> str:
    """The findings as a list for a prompt, at most :data:`MOST_FINDINGS`, then how many more there are."""
    lines = [f"- {finding}" for finding in findings[:MOST_FINDINGS]]
    if len(findings) > MOST_FINDINGS:
        lines.append(
            f"- and {len(findings) - MOST_FINDINGS} more of the same kinds, which show once these are answered"
        )
    return "\n".join(lines)
