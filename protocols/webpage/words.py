"""Rules about text that need no tree: what counts as content, what may stand in a result."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

MAX_METADATA_CHARS: Final = 500

_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTENT: Final = re.compile(r"[^\W_]")
_BREAKS: Final = re.compile("\r\n?|[\u2028\u2029]")
_BLANK_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
_AMOUNT: Final = re.compile(
    r"(?:[€$£¥]|\b(?:EUR|USD|GBP|euro)\b)\s{0,3}-?\d|\d(?:[\d.,]{0,20}\d)?(?:,-)?\s{0,3}(?:[€£¥]|(?:EUR|USD|GBP|euro)\b)",
    re.IGNORECASE,
)
_TABLE_LINE: Final = re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE)


def tidy(text: str) -> str:
    """``text`` with one kind of line end, without control characters (the database refuses NUL), blank lines collapsed."""
    clean = _CONTROLS.sub("", _BREAKS.sub("\n", text))
    return _BLANK_LINES.sub("\n\n", clean).strip()


def one_line(text: str, limit: int = MAX_METADATA_CHARS) -> str:
    """For metadata: no control characters, blanks collapsed, at most ``limit`` characters."""
    return " ".join(_CONTROLS.sub(" ", text).split())[:limit].rstrip()


def has_content(text: str, least: int = 1) -> bool:
    """Whether there are at least ``least`` letters or digits: what makes content usable."""
    return sum(1 for _ in islice(_CONTENT.finditer(text), least)) == least


def has_amounts(text: str) -> bool:
    """Whether an amount of money stands in ``text``, with its sign or its word before or after the number."""
    return _AMOUNT.search(text) is not None


def has_table(markdown: str) -> bool:
    return _TABLE_LINE.search(markdown) is not None
