"""How Dutch law texts say things: the words that checks look for. One place, so that checks agree."""

from __future__ import annotations

import re
from typing import Final

CONNECTIVES: Final = (
    "tenzij",
    "behoudens",
    "voor zover",
    "in afwijking van",
    "onverminderd",
    "ten hoogste",
    "ten minste",
    "dan wel",
    "noch",
    "mits",
)
PERIODS: Final = (
    "peildatum",
    "berekeningsjaar",
    "kalenderjaar",
    "kalendermaand",
    "tijdvak",
    "op het tijdstip",
)
REACH: Final = "daarop berustende bepalingen"

_CONNECTIVE = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in CONNECTIVES)})\b", re.IGNORECASE)
_PERIOD = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in PERIODS)})(?:en|s)?\b", re.IGNORECASE)
_PERIOD_IN_NAME = re.compile(
    r"peildatum|jaar|maand|kwartaal|tijdvak|tijdstip|periode|datum|year|month|period|date", re.IGNORECASE
)
_LID = re.compile(r"(?:^|\n)(?P<number>\d{1,3})(?P<letter>[a-z]?)\.?[ \t]+(?=\S)")
_DEFINES = re.compile(
    r"\b(?:wordt|worden|wordt\s+mede)\b[^.]{0,200}?\bverstaan\b|\bverstaan\s+wij\b|\bverstaat\s+(?:deze|dit)\b",
    re.IGNORECASE,
)
_NO_RULE: Final = frozenset({"", "vervallen", "gereserveerd"})
_EDITORS_NOTE = re.compile(r"\[\s*Red\b[^\]]*\]", re.IGNORECASE)
_NO_WORD = re.compile(r"[\W_]+")
_DELEGATES = re.compile(
    r"\b(?:bij|krachtens)\b[^.;]{0,40}\b(?:algemene\s+maatregel\s+van\s+bestuur|ministeri[eë]le\s+regeling|verordening|"
    r"koninklijk\s+besluit)\b|\bnadere\s+regels\b|\bgedelegeerd\w*|\bdelegat\w*|\bdelegated\b",
    re.IGNORECASE,
)
_OTHER_LAW = re.compile(
    r"\b(?:Wet|Wetboek|Besluit|Regeling|Verordening|Uitvoeringsbesluit|Uitvoeringsregeling|Kaderwet|Invoeringswet|Grondwet|"
    r"[A-Z][a-zë]{3,}(?:wet|wetboek|besluit|regeling|verordening)|Awb|AWIR|Awir|BW|AOW|WIA|WW|ZW|Zvw|Wlz|Wmo)\b"
    r"(?!\s+(?:zelf|itself))"
)


def connectives_in(text: str) -> list[str]:
    """The connectives that make a rule conditional, as written, each once."""
    return list(dict.fromkeys(" ".join(found.split()).lower() for found in _CONNECTIVE.findall(" ".join(text.split()))))


def periods_in(text: str) -> list[str]:
    """The words by which a text ties itself to a period or a moment, each once."""
    return list(dict.fromkeys(found.lower() for found in _PERIOD.findall(" ".join(text.split()))))


def names_a_period(name: str) -> bool:
    return _PERIOD_IN_NAME.search(name) is not None


def count_leden(text: str) -> int:
    """How many numbered leden a text has: 1, 2, 3 in order (2a counts). A text without is 1.

    They begin at the margin; indented numbers are lists inside a lid.
    """
    last = count = 0
    for found in _LID.finditer(text):
        number = int(found["number"])
        if number == last + 1 or (number == last and found["letter"]):
            last, count = number, count + 1
    return max(count, 1)


def is_definition_article(text: str) -> bool:
    """Whether the article says what words mean ("wordt verstaan onder"), which needs no branch."""
    return _DEFINES.search(" ".join(text.split())) is not None


def holds_no_rule(text: str) -> bool:
    """Nothing but a note of the editors, "vervallen", or nothing at all."""
    return _NO_WORD.sub(" ", _EDITORS_NOTE.sub(" ", text)).strip().casefold() in _NO_RULE


def delegates(text: str) -> bool:
    """Whether a text speaks of rules that someone else is to make."""
    return _DELEGATES.search(" ".join(text.split())) is not None


def other_law_in(text: str) -> str:
    """The first word by which a description names a regulation, or nothing."""
    found = _OTHER_LAW.search(text)
    return found[0] if found else ""
