"""``citation``: a source that the agent was never shown. It has no network, so it cannot have read one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from protocols.gates.findings import Finding
from protocols.gates.reading import LawReading, article_of
from protocols.gates.targets import listed
from protocols.lawtree import strings_in

SIGNALS: Final = (
    "kst-",
    "kamerstukken",
    "stb-",
    "staatsblad",
    "stcrt-",
    "staatscourant",
    "ecli:",
    "zoek.officielebekendmakingen.nl",
)

_SIGNAL = re.compile(
    rf"(?P<signal>{'|'.join(re.escape(signal) for signal in SIGNALS)})(?P<rest>[^\s,;)\]\"'<>]{{0,60}}(?:[ ,]{{1,3}}[^\s;)\]\"'<>]{{0,30}}){{0,4}})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[0-9]+")
_MOST_NUMBERS: Final = 4

Citation = tuple[str, ...]
"""A signal and the numbers after it: ``("staatsblad", "2005", "12")``."""


def citations(reading: LawReading) -> Iterator[Finding]:
    """Signals in models and companion files that no text which the agent was given contains."""
    own = [*(entry.text for entry in reading.entries), *strings_in(reading.tree.get("preamble"))]
    known = _Known.of(citation for text in [*own, *reading.around.provided] for citation in cited_in(text))
    for entry in reading.modelled:
        unknown = _unknown((text for text in strings_in(entry.model)), known)
        if unknown:
            yield Finding("citation", _told("the model", unknown), article_of(entry))
    for name, text in sorted(reading.around.companions.items()):
        unknown = _unknown([text], known)
        if unknown:
            yield Finding("citation", _told(f"the file {name}", unknown))


def cited_in(text: str) -> set[Citation]:
    """The citations in ``text``; another number is another source."""
    return {
        (match["signal"].casefold(), *_NUMBER.findall(match["rest"])[:_MOST_NUMBERS])
        for match in _SIGNAL.finditer(text)
    }


def _unknown(texts: Iterable[str], known: _Known) -> list[str]:
    cited = {citation for text in texts for citation in cited_in(text)}
    return sorted(" ".join(citation) for citation in cited if not known.agrees(citation))


@frozen
class _Known:
    """The citations of all texts that were given, and every one that tells one of them in fewer numbers."""

    whole: frozenset[Citation]
    shortened: frozenset[Citation]

    @classmethod
    def of(cls, citations: Iterable[Citation]) -> _Known:
        whole = frozenset(citations)
        return cls(whole, frozenset(shorter for citation in whole for shorter in _shortened(citation)))

    def agrees(self, citation: Citation) -> bool:
        """Whether one of them is the other, told in as many numbers or fewer."""
        return citation in self.shortened or any(shorter in self.whole for shorter in _shortened(citation))


def _shortened(citation: Citation) -> list[Citation]:
    return [citation[:length] for length in range(1, len(citation) + 1)]


def _told(where: str, unknown: list[str]) -> str:
    return (
        f"{where} cites {listed(unknown)}, which is in no text that was provided: take the citation out, or describe the "
        "lead without number and link"
    )
